import type { Finding } from "../../doctor/mod.ts";
import type { AdminOptions } from "./options.ts";

/** For this time, requests get the findings of the last examination. */
const KEPT_MS = 60_000;

export interface Examination {
  readonly beganMs: number;
  readonly at: Date;
  readonly findings: Promise<readonly Finding[]>;
}

/** The last examination, by each listener's options. Simultaneous requests share one examination. */
const examinations = new WeakMap<AdminOptions, Examination>();

/** Examines the service, or returns the last examination if it is at most a minute old. */
export function examineAtMostOnceAMinute(options: AdminOptions): Examination {
  const { clock, database } = options;
  const last = examinations.get(options);
  if (last !== undefined && clock.monotonicMs() - last.beganMs < KEPT_MS) return last;
  const next = { beganMs: clock.monotonicMs(), at: clock.now(), findings: options.examine(database) };
  examinations.set(options, next);
  next.findings.catch(() => examinations.delete(options));
  return next;
}
