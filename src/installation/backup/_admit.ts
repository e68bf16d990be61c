/** Decides whether a database may add a backup to a folder in which another installation keeps its backups. */
import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { quoteShellWord } from "../../base/quote_shell_word.ts";
import { counted } from "../../base/render_count.ts";
import { syncPath } from "../../base/sync_path.ts";
import { hasCode } from "../../base/system_error.ts";
import { NotAdmitted } from "./_errors.ts";
import { explain } from "./_files.ts";
import { installationOf } from "./format.ts";
import { countSavedKeys, findUnknown, listBackups } from "./list_backups.ts";
import type { BackupSource } from "./write_backup.ts";

/** The file that names the installations that an operator accepted, one in each line. */
const ACCEPTED = "accepted-installations";

interface AdmitOptions {
  readonly folder: string;
  readonly intoSharedFolder: boolean;
}

/**
 * Throws {@linkcode NotAdmitted} in three cases: the folder is in use and this installation is new to it; this database
 * has no key, and the newest backup of another installation has some; this database has no key, and no backup there can be
 * read. With `intoSharedFolder` it accepts the installation, and notes that in the folder for later backups.
 */
export async function admit(
  { installation, keys }: BackupSource,
  { folder, intoSharedFolder }: AdmitOptions,
): Promise<void> {
  if (await isInstallationAccepted(folder, installation)) return;
  if (intoSharedFolder) {
    if (installation !== null) await accept(folder, installation);
    return;
  }
  const listed = await listBackups(folder);
  const { found } = listed;
  const unknown = findUnknown(listed);
  if (unknown !== undefined && keys === 0) {
    const { name, why } = unknown;
    throw new NotAdmitted(
      `Cannot back up into ${folder}: this database has no key, and ${name} there cannot be read (${why}), so nobody ` +
        "can tell whose backup it is; if the data of this database was lost, restore another copy of the backup; if " +
        "it is a new installation, name another folder, or give --into-shared-folder once",
    );
  }
  const isOwn = ({ head }: (typeof found)[number]) =>
    installation !== null && installationOf(head) === installation;
  const newest = found.findLast((each) => !isOwn(each));
  if (newest === undefined) return;
  const newestKeys = await countSavedKeys(folder, newest);
  // Backups of earlier formats do not say whose they are, and may be this installation's own.
  const isNew = found.some(({ head }) => installationOf(head) !== undefined) && !found.some(isOwn);
  const isEmpty = keys === 0 && newestKeys !== 0;
  if (!isNew && !isEmpty) return;
  const has = newestKeys === undefined ? "an unknown number of keys" : counted(newestKeys, "key");
  const its = keys === 0 ? "has no key" : `has ${counted(keys, "key")}`;
  const whose =
    installationOf(newest.head) === undefined
      ? "backups that do not say of which installation they are"
      : "backups of another installation";
  throw new NotAdmitted(
    `Cannot back up into ${folder}: it has ${whose}, the newest of ${newest.head.made_at.slice(0, 10)} with ${has}, and ` +
      `this database ${isNew ? "is new there and " : ""}${its}; if its data was lost, ` +
      `\`claviger restore ${quoteShellWord(`${folder}/`)}\` lists the backups; if both are to keep their backups ` +
      "there, give --into-shared-folder once",
  );
}

/** Tells whether an operator has accepted the installation. */
export async function isInstallationAccepted(folder: string, installation: string | null): Promise<boolean> {
  const text = await readFile(join(folder, ACCEPTED), "utf8").catch((error) => {
    if (hasCode(error, "ENOENT")) return "";
    throw error;
  });
  return installation !== null && text.split("\n").includes(installation);
}

async function accept(folder: string, installation: string): Promise<void> {
  const path = join(folder, ACCEPTED);
  await explain(`Cannot write ${path}`, async () => {
    await appendFile(path, `${installation}\n`, { mode: 0o600 });
    await syncPath(path);
    await syncPath(folder);
  });
}
