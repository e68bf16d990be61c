import type { Clock } from "../../base/clock.ts";
import type { Database } from "../../database/mod.ts";
import type { Finding } from "../../installation/doctor/mod.ts";

/** For this time, requests get the findings of the last examination. */
const KEPT_MS = 60_000;

export interface ExaminationOptions {
  readonly clock: Clock;
  readonly database: Database;
  /** Examines the service without requests to other hosts, for `GET /status` and the page Health. */
  readonly examine: (database: Database) => Promise<readonly Finding[]>;
}

export interface Examination {
  readonly beganMs: number;
  readonly at: Date;
  readonly findings: Promise<readonly Finding[]>;
}

/** Creates the function that examines at most once a minute. Simultaneous requests share one examination. */
export function createExamination({ clock, database, examine }: ExaminationOptions): () => Examination {
  let last: Examination | undefined;
  return () => {
    if (last !== undefined && clock.monotonicMs() - last.beganMs < KEPT_MS) return last;
    last = { beganMs: clock.monotonicMs(), at: clock.now(), findings: examine(database) };
    last.findings.catch(() => {
      last = undefined;
    });
    return last;
  };
}
