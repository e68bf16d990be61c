/** The users and groups of this host, and the users who can change where a path leads. */
export {
  type ChangeableStep,
  type FollowedPath,
  findClosedFolder,
  followPath,
  isForeignPath,
  refuseForeignFolder,
} from "./path_owner.ts";
export {
  existsSystemGroup,
  findSystemUser,
  findTool,
  type SystemUser,
  TOOL_FOLDERS,
} from "./system_users.ts";
