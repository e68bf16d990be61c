import { findLastBackup } from "../backup/mod.ts";
import { toTimestamp } from "../calendar.ts";
import type { ServerContext } from "./examine_server.ts";
import { type Check, ok, warn } from "./finding.ts";

const REMEDY = "`claviger backup FOLDER/`; `claviger guide service` has a timer for every hour";

/** Examines when the last backup of this database was taken. */
export const backupCheck: Check<Pick<ServerContext, "config" | "database" | "clock">> = {
  name: "backup",
  async examine({ config, database, clock }) {
    const now = clock.now();
    const { takenAt, verifiedAt, since, dueAt, isOverdue } = await findLastBackup(database, {
      now,
      overdueHours: config.backupOverdueHours,
    });
    const isVerified = takenAt?.getTime() === verifiedAt?.getTime();
    const lastVerified = verifiedAt === null ? "" : `; the last verified one at ${toTimestamp(verifiedAt)}`;
    const taken =
      takenAt === null
        ? `none since this database was made at ${toTimestamp(since)}`
        : `taken at ${toTimestamp(takenAt)}${isVerified ? " and verified" : `, not verified${lastVerified}`}`;
    const due = `due by ${toTimestamp(dueAt)}`;
    const next = takenAt === null ? "the first" : "the next";
    if (!isOverdue) return ok(`${taken}; ${next} is ${due}`);
    const why = since > now ? "that is in the future, so a clock was wrong" : `${next} was ${due}`;
    return warn(`${taken}; ${why}`, REMEDY);
  },
};
