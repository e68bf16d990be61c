import { join } from "node:path";

/** What Claviger makes in a data folder. A folder that holds one of these is a data folder. */
export const DATA_FOLDER_NAMES = [
  "lock",
  "postgres",
  "installation",
  "restoring",
  "secret",
  "serving",
  "models",
] as const;

export type DataFolderName = (typeof DATA_FOLDER_NAMES)[number];

/** Returns the path of a file or folder in a data folder; absolute if that of the data folder is. */
export function pathInData(dataDir: string, name: DataFolderName): string {
  return join(dataDir, name);
}
