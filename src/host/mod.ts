/** The users and groups of this host, the users who can change where a path leads, and the owner of a data folder. */
export { closeDataFolder, makeDataFolder, refuseForeignFolder } from "./data_folder.ts";
export { type ChangeableStep, findClosedFolder, followPath, isForeignPath } from "./path_owner.ts";
export {
  existsSystemGroup,
  findSystemUser,
  findTool,
  nameOfUser,
  TOOL_FOLDERS,
} from "./system_users.ts";
