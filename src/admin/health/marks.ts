/** What happened to the installation in a span of time, and can explain a change of the latency. */
import type { Database } from "../../database/mod.ts";
import { listStarts, type Start } from "../../database/processes/mod.ts";
import { listTakenAt, MOST_TAKEN } from "../../installation/backup/mod.ts";

export const MARK_KINDS = ["deploy", "process_start", "failover", "database_start", "backup"] as const;

export interface HealthMark {
  readonly at: Date;
  readonly kind: (typeof MARK_KINDS)[number];
  /** What happened, as a sentence without a period. */
  readonly says: string;
}

/** The most marks of an answer: the latest ones. */
export const MOST_MARKS = 200;

/** What cannot be known, for people. */
export const UNKNOWN_MARKS = `Of the backups only the last ${MOST_TAKEN} are known, and of each start the minute in which it was noticed`;

/** Finds the marks of a span, the earliest first. */
export async function findMarks(
  database: Database,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<readonly HealthMark[]> {
  const [starts, backups] = await Promise.all([
    listStarts(database, { from, to }),
    listTakenAt(database, { from, to }),
  ]);
  const marks = [
    ...starts.flatMap((start) => markOf(start) ?? []),
    ...backups.map((at): HealthMark => ({ at, kind: "backup", says: "a backup was taken" })),
  ];
  return marks.toSorted((one, other) => one.at.getTime() - other.at.getTime()).slice(-MOST_MARKS);
}

/** Returns the mark of a start; undefined for the first server that was noticed, which may have run for long. */
function markOf({ at, kind, version, versionBefore }: Start): HealthMark | undefined {
  const isOther = versionBefore !== null && versionBefore !== version;
  if (kind === "process") {
    return isOther
      ? { at, kind: "deploy", says: `version ${version} was started in place of ${versionBefore}` }
      : { at, kind: "process_start", says: `a process of version ${version} was started` };
  }
  if (versionBefore === null) return undefined;
  return isOther
    ? { at, kind: "failover", says: "another database server answered than before" }
    : { at, kind: "database_start", says: "PostgreSQL was started again" };
}
