/**
 * This host: its users and groups, the users who can change where a path leads, the owner of a data folder, the memory,
 * and who listens on a port.
 */
export { closeDataFolder, makeDataFolder, refuseForeignFolder } from "./data_folder.ts";
export { DATA_FOLDER_NAMES, type DataFolderName, pathInData } from "./data_folder_names.ts";
export { describeListener } from "./describe_listener.ts";
export { hostMemoryBytes } from "./host_memory.ts";
export { type ChangeableStep, findClosedFolder, followPath, isForeignPath } from "./path_owner.ts";
export {
  existsSystemGroup,
  findSystemUser,
  findTool,
  nameOfUser,
  TOOL_FOLDERS,
} from "./system_users.ts";
