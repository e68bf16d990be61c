/**
 * The registry of pre-trained models: names, versions, owners, and the files that are hosted here.
 * Owns `models`, `model_versions`, `model_files` and the folder of the files.
 */

export { LEAST_FREE_BYTES } from "./cache_room.ts";
export { addModel, checkNewModel, removeModel } from "./change_models.ts";
export { createClientLists } from "./client_lists.ts";
export {
  checkStoredFile,
  type FileProblem,
  isSha256,
  keepFile,
  locateFile,
  pathOfFile,
  prepareFolder,
  removeUnneeded,
  type StoredFile,
} from "./file_store.ts";
export {
  createFileDirectory,
  type FileDirectory,
  type FoundVersion,
  type HostedFile,
  isHosted,
} from "./find_file.ts";
export { explainMissing, type LoadableModel, listLoadable } from "./list_loadable.ts";
export { type ListedFile, listAllModels, listModels } from "./list_models.ts";
export {
  countRegistered,
  type FoundModel,
  findRegistered,
  listRegistered,
  type RegisteredModel,
} from "./list_versions.ts";
export {
  MODEL_RULES,
  type NewModel,
  parseNewModel,
  toBytes,
  toFileName,
  toMegabytes,
} from "./model.ts";
export { openServedFiles, type ServedFiles } from "./model_cache.ts";
export {
  MODEL_FIELDS,
  REGISTERED_FIELDS,
  renderAddedModel,
  renderModel,
  renderRegistered,
} from "./model_fields.ts";
export {
  type FileCopy,
  findCopy,
  listCopies,
  listFiles,
  type ModelsPlace,
  modelsFolderOf,
  selectFiles,
  selectVersionsOf,
} from "./model_files.ts";
export { moveFiles } from "./move_files.ts";
export {
  createUploads,
  NO_PUBLIC_URL,
  type Upload,
  type UploadOptions,
  type Uploads,
} from "./receive_file.ts";
export { purgeFiles, retireVersion } from "./retire_models.ts";
export { checkShared, markHost } from "./shared_folder.ts";
export { storeBytes, storeFile } from "./store_bytes.ts";
export { verifyFiles } from "./verify_files.ts";
