/**
 * This host: its users and groups, the users who can change where a path leads, the owner of a data folder, and the
 * memory.
 */
export { closeDataFolder, makeDataFolder, refuseForeignFolder } from "./data_folder.ts";
export { hostMemoryBytes } from "./host_memory.ts";
export { type ChangeableStep, findClosedFolder, followPath, isForeignPath } from "./path_owner.ts";
export {
  existsSystemGroup,
  findSystemUser,
  findTool,
  nameOfUser,
  TOOL_FOLDERS,
} from "./system_users.ts";
