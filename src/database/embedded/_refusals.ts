/** Says why a data folder is not opened, in sentences for the operator. */
import { type Refusal, refuse } from "../../base/refusal.ts";
import { codeOf, hasCode, type Reasons, reasonOf } from "../../base/system_error.ts";
import { DamagedData } from "./_data_fault.ts";
import { type HolderKind, readHolder } from "./_holder.ts";
import type { Layout } from "./_layout.ts";
import type { Trace } from "./_traces.ts";

/** Refuses to start a database in a build without PostgreSQL. */
export const NO_POSTGRES = refuse(
  "INVALID_REQUEST",
  "Cannot start a database: this build has no PostgreSQL inside; set DATABASE_URL",
);

/** Refuses a folder without data. */
export function noData({ dataDir }: Layout): Refusal {
  return refuse(
    "INVALID_REQUEST",
    `Cannot find a database in ${dataDir}: start the service or run migrate there first, or name the ` +
      "folder that the service uses with --data-dir",
  );
}

const LIST = new Intl.ListFormat("en-GB");
/** Where the manual says how to replace lost or damaged data. */
export const REPLACE_DATA = 'see "Replace lost data" in `claviger guide backups`';
const RESTORE = `restore a backup with \`claviger restore FILE\`: ${REPLACE_DATA}`;

/** Refuses a folder in which an installation left traces, but no cluster. */
export function lostData(layout: Layout, traces: readonly Trace[]): Refusal {
  const [first] = traces;
  if (traces.length === 1 && first === "secret") {
    return noDatabase(
      layout,
      "it has a secret and no database",
      `${RESTORE}; for a new installation with this secret move the file out of the folder, and name it in ` +
        "CLAVIGER_SECRET_FILE",
    );
  }
  const why = `its database is lost: it has ${LIST.format(traces)} of an installation, and no postgres`;
  // An external database leaves these, too.
  const mayBeExternal = traces.every((trace) => trace === "models" || trace === "serving");
  return noDatabase(
    layout,
    why,
    mayBeExternal
      ? `if the database is your own PostgreSQL, DATABASE_URL is missing in the settings; otherwise ${RESTORE}`
      : RESTORE,
  );
}

/** Refuses a folder into which a restore was interrupted. */
export function unfinishedRestore(layout: Layout): Refusal {
  const again = `run \`claviger restore FILE\` again, which begins anew: ${REPLACE_DATA}`;
  return noDatabase(layout, "a restore into it has begun and has not ended", again);
}

/**
 * Refuses damaged data, also for a restore, which would have to delete it. `said` is what PostgreSQL said, or what is
 * missing.
 */
export function damagedData(layout: Pick<Layout, "dataDir">, said: string): Refusal {
  return noDatabase(layout, `its data is damaged: ${said}`, `move the whole folder away, and ${RESTORE}`);
}

/** Refuses a database inside whose data is damaged, as `said` by PostgreSQL. */
export function refuseDamaged(dataDir: string, said: string): Refusal {
  return damagedData({ dataDir }, `PostgreSQL said: ${said}`);
}

/** Ends a service whose data folder, or the cluster in it, went away and did not come back. */
export function goneData(layout: Layout): Refusal {
  const back = "bring it back, such as by mounting its disk, and start the service";
  return refuse(
    "DATA_LOST",
    `Cannot go on: ${layout.cluster} went away while the service ran, and did not come back; ${back}, or ${RESTORE}`,
  );
}

/** Ends a service whose cluster has another folder in its place. A new start examines that folder. */
export function replacedData(layout: Layout): Refusal {
  const why = "went away while the service ran, and another folder has its place now";
  return refuse("SERVICE_UNAVAILABLE", `Cannot go on: ${layout.cluster} ${why}; start the service again`);
}

function noDatabase({ dataDir }: Pick<Layout, "dataDir">, why: string, remedy: string): Refusal {
  return refuse("DATA_LOST", `Cannot open the data folder ${dataDir}: ${why}; ${remedy}`);
}

/** Refuses a folder that another process holds, and names that process. */
export function inUse({ dataDir, lock }: Layout, asker: HolderKind): Refusal {
  const holder = readHolder(lock);
  const who = holder === undefined ? "another process" : `process ${holder.pid}`;
  if (holder?.kind === "serve" && asker === "serve") {
    const why = `a service runs there already (${who}); stop it or choose another folder`;
    return refuse("SERVICE_UNAVAILABLE", `Cannot serve from ${dataDir}: ${why}`);
  }
  const what = holder?.kind === "serve" ? "the service there is not ready yet" : "it is in use";
  return refuse(
    "SERVICE_UNAVAILABLE",
    `Cannot open ${dataDir}: ${what} (${who}); try again when it is done, or stop it`,
  );
}

/** Refuses a folder in which no service runs that answers. */
export function noService({ dataDir }: Layout): Refusal {
  return refuse("SERVICE_UNAVAILABLE", `Cannot use the database in ${dataDir}: no service runs there yet`);
}

const OTHER_FOLDER =
  "run the command as the owner of the folder, or choose another, such as --data-dir ./claviger-data";

const NO_FILE = "something else has the name of a file of the service or of PostgreSQL: remove it";

/** Turns an error of a system call on the data folder into a refusal; throws every other error again. */
export function toRefusal(error: unknown, layout: Layout): Refusal {
  if (error instanceof DamagedData) return refuseDamaged(layout.dataDir, error.message);
  const { dataDir } = layout;
  const fix: Reasons = {
    EACCES: OTHER_FOLDER,
    EPERM: OTHER_FOLDER,
    EROFS: "its file system cannot be written to; choose another folder",
    ENOTDIR: "a part of that path is a file; choose another folder",
    ELOOP: "remove the symbolic link that has the name of a file there",
    ENOTREG: NO_FILE,
    ENXIO: NO_FILE,
    EISDIR: NO_FILE,
    EFBIG: NO_FILE,
    EOWNER: "remove it while no service runs there, or give it back to the owner of the folder",
    ENOSPC: "free some space on its disk",
    EDQUOT: "free some space on its disk",
    EEXIST: "there is a file of that name; choose another folder",
  };
  // Only errors of our own system calls have such a code: PostgreSQL's failures are plain errors with a cause.
  const code = codeOf(error) ?? "";
  const what = fix[code];
  if (what === undefined) {
    // PostgreSQL cannot be run from a disk that is mounted noexec.
    if (error instanceof Error && hasCode(error.cause, "EACCES"))
      return refuse("INVALID_REQUEST", error.message);
    throw error;
  }
  const kind = code === "ENOSPC" || code === "EDQUOT" ? "SERVICE_UNAVAILABLE" : "INVALID_REQUEST";
  return refuse(kind, `Cannot open the data folder ${dataDir}: ${reasonOf(error)}; ${what}`);
}
