/**
 * What goes on working when a key is suspended, revoked, rotated or replaced: the licenses that were signed for it, and the
 * places of the machines. The console and the commands say it in the same sentences.
 */
import { toDay } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import type { Database } from "../../database/mod.ts";
import { listOutstanding, type OutstandingLicense } from "./outstanding.ts";

/** How many signed licenses are counted. */
const MOST_READ = 1_000;

/** Lists the signed licenses of keys that are valid, the latest end first. */
export async function listFilesOf(
  database: Database,
  { keys, now }: { readonly keys: readonly { readonly id: string }[]; readonly now: Date },
): Promise<readonly OutstandingLicense[]> {
  const keyUuids = keys.flatMap(({ id }) => parseId("key", id) ?? []);
  return await listOutstanding(database, { now, keyUuids, limit: MOST_READ });
}

/** Says how many signed licenses stay valid, and until when; empty for none. */
export function describeFiles([last, ...others]: readonly OutstandingLicense[]): string {
  if (last === undefined) return "";
  const count = others.length + 1;
  const files = `${count === MOST_READ ? "At least " : ""}${counted(count, "signed license")}`;
  return `${files} ${count === 1 ? "stays" : "stay"} valid without a network, ${count === 1 ? "" : "the last "}until ${toDay(last.expiresAt)}.`;
}

interface Remains {
  readonly files: readonly OutstandingLicense[];
  /** Null if the license does not count machines. */
  readonly maxMachines: number | null;
  /** How many places machines hold; undefined where that is not shown. */
  readonly taken: number | undefined;
}

/** Says what goes on working; empty if nothing does. */
export function describeRemains({ files, maxMachines, taken = 0 }: Remains): string {
  const places =
    maxMachines !== null &&
    taken > 0 &&
    `Machines keep their places: ${renderCount(taken)} of ${renderCount(maxMachines)} are taken.`;
  return [describeFiles(files), places].filter(Boolean).join(" ");
}
