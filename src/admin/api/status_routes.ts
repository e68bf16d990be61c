/** The state of the service, for monitoring. */
import * as v from "valibot";
import { toTimestamp } from "../../calendar.ts";
import type { Finding } from "../../doctor/mod.ts";
import { VERSION } from "../../version.ts";
import { timestamp } from "../../wire/mod.ts";
import type { AdminOptions } from "../options.ts";
import { FINDING } from "./answers.ts";
import { operation } from "./operation.ts";

/** For this time, requests get the findings of the last examination. */
const KEPT_MS = 60_000;

interface Examination {
  readonly beganMs: number;
  readonly at: Date;
  readonly findings: Promise<readonly Finding[]>;
}

/** The last examination, by each listener's options. Simultaneous requests share one examination. */
const examinations = new WeakMap<AdminOptions, Examination>();

export const getStatus = operation({
  id: "getStatus",
  summary: "Tell what works, what will soon fail, and what is wrong",
  description:
    "A short form of the command `doctor`: the disk, the database server and the schema. The answer is at most 60 " +
    "seconds old, and makes no request to other hosts. A finding that is not `ok` has a remedy.",
  success: {
    schema: v.object({
      ok: v.pipe(v.boolean(), v.description("False if a finding is `fail`")),
      version: v.string(),
      checked_at: timestamp(),
      findings: v.array(FINDING),
    }),
    description: "The findings",
  },
  codes: [],
  async run(options) {
    const { at, findings } = examine(options);
    const found = await findings;
    return {
      ok: found.every(({ state }) => state !== "fail"),
      version: VERSION,
      checked_at: toTimestamp(at),
      findings: found,
    };
  },
});

function examine(options: AdminOptions): Examination {
  const { clock, database } = options;
  const last = examinations.get(options);
  if (last !== undefined && clock.monotonicMs() - last.beganMs < KEPT_MS) return last;
  const next = { beganMs: clock.monotonicMs(), at: clock.now(), findings: options.examine(database) };
  examinations.set(options, next);
  next.findings.catch(() => examinations.delete(options));
  return next;
}
