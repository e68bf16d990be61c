/** What the tests of the event writer share: a writer on a database of the tests, and events with one claim. */
import { hash } from "node:crypto";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { openDatabase } from "../../src/database/mod.ts";
import {
  createEventWriter,
  type EventGathering,
  type EventOutcome,
  type UsageEvent,
} from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import type { TestDatabase } from "../support/database.ts";
import { MUCH_ROOM, usageEvent } from "../support/events.ts";
import { issue } from "../support/issue.ts";

export interface WriterOptions extends EventGathering {
  readonly monthlyLimit?: number;
  readonly through?: TestDatabase["address"];
}

/** Makes a new writer with a clock that stands, and a license to charge. */
export async function startWriter(
  server: TestDatabase,
  { monthlyLimit, through = server.address, ...gathering }: WriterOptions = {},
) {
  const clock = createTestClock(undefined, { stands: true });
  const database = openDatabase(through, { clock, log: silentLog });
  /** The time in ms that each statement got. */
  const deadlines: (number | undefined)[] = [];
  const charged: number[] = [];
  const unknown: string[] = [];
  const writer = createEventWriter({
    database: {
      ...database,
      query(build, options) {
        deadlines.push(options?.deadlineMs);
        return database.query(build, options);
      },
    },
    clock,
    log: silentLog,
    processUuid: newUuid(),
    textBounds: MUCH_ROOM,
    onCharged: ({ granted }) => charged.push(granted),
    onUnknown: (licenseUuid) => unknown.push(licenseUuid),
    ...gathering,
  });
  const limit = monthlyLimit === undefined ? {} : { monthlyLimit };
  const { licenseUuid } = await issue(server.database, { tier: "enterprise", ...limit });
  return { writer, licenseUuid, clock, charged, unknown, deadlines };
}

/** Returns events of one key with one claim, each with other fields. */
export function sameClaim(licenseUuid: string, events: readonly Partial<UsageEvent>[]): UsageEvent[] {
  const [keyUuid, claim] = [newUuid(), sha256(newUuid())];
  return events.map((fields, i) => {
    const digest = sha256(`${i}`);
    return usageEvent({
      licenseUuid,
      keyUuid,
      ...fields,
      claim: { hash: claim, digest, eventHash: digest, occurredAtMs: null },
    });
  });
}

const sha256 = (text: string) => hash("sha256", text, "hex");

export function usedOf(outcomes: readonly EventOutcome[]): (number | null)[] {
  return outcomes.flatMap((outcome) => (outcome.kind === "committed" ? [outcome.used] : []));
}

export function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
}
