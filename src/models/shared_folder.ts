/**
 * Tells whether every host that serves the database finds the files in this host's folder.
 *
 * Each service leaves a mark with the name of its host in its folder, `.hosts/NAME`. Before a version is listed, the
 * mark of every serving host must be in the folder of this host: otherwise clients would get links to a file that is
 * missing on that host.
 */
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { isForeignPath } from "../base/host/mod.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import type { Database } from "../database/mod.ts";
import { listProcesses } from "../database/processes/mod.ts";
import { makeFolder } from "./file_store.ts";
import { type ModelsPlace, modelsFolderOf } from "./model_files.ts";

/** Leaves the mark of this host. A folder that is missing or cannot be written gets none. */
export async function markHost(place: ModelsPlace): Promise<void> {
  const folder = modelsFolderOf(place);
  try {
    if (isForeignPath(folder)) return;
    if (place.modelsDir === undefined) await makeFolder(folder);
    await makeFolder(join(folder, ".hosts"));
    await writeFile(markOf(folder, hostname()), "", { mode: 0o640 });
  } catch {
    // `checkShared` on another host misses the mark, and says so.
  }
}

/** Refuses a new file while a host that serves the database would not find it, as far as this host can see. */
export async function checkShared(database: Database, place: ModelsPlace): Promise<Refusal | undefined> {
  if (place.modelsBucket !== undefined) return undefined;
  const folder = modelsFolderOf(place);
  const cannot = (why: string) => refuse("CONFLICT", `Cannot store the file: ${why}`);
  if (place.modelsDir !== undefined && !existsSync(folder))
    return cannot(`the folder ${folder} is missing on this host; mount it, or correct CLAVIGER_MODELS_DIR`);
  const serving = (await listProcesses(database)).filter(({ isLost }) => !isLost).map(({ host }) => host);
  const other = serving.find((host) => host !== hostname() && !existsSync(markOf(folder, host)));
  if (other === undefined) return undefined;
  return cannot(
    `the host ${other} also serves this database, and would not find a file in ${folder}; set CLAVIGER_MODELS_DIR to a ` +
      "folder that all hosts share, and restart their services; if that host may only read the folder, create " +
      `${markOf(folder, other)} there`,
  );
}

function markOf(folder: string, host: string): string {
  return join(folder, ".hosts", encodeURIComponent(host));
}
