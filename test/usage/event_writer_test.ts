import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hash } from "node:crypto";
import { DatabaseUnavailable, openDatabase, openSession } from "../../src/database/mod.ts";
import { newUuid } from "../../src/ids.ts";
import { silentLog } from "../../src/log.ts";
import {
  createEventWriter,
  type EventGathering,
  type EventOutcome,
  type UsageEvent,
} from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { readSums, usageEvent } from "../support/events.ts";
import { startFaultyProxy } from "../support/faulty_proxy.ts";
import { issue } from "../support/issue.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(30_000);

let server: TestDatabase;

beforeAll(async () => {
  server = await createTestDatabase();
});
afterAll(() => server.close());

describe("createEventWriter()", () => {
  test("write() commits events that arrive together with one statement, and counts each event", async () => {
    const { writer, licenseUuid, charged } = await start();
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, () => writer.write(usageEvent({ licenseUuid }))),
    );
    expect(outcomes).toMatchObject(
      Array.from({ length: 100 }, (_, i) => ({ kind: "committed", used: i + 1 })),
    );
    expect(charged).toEqual([100]);
    expect(writer.stats()).toMatchObject({ commits: 1, committed: 100, queued: 0 });
  });

  test("write() begins a commit as soon as its batch is full, and runs two commits at once", async () => {
    const { writer, licenseUuid, charged } = await start();
    const writing = Array.from({ length: 250 }, () => writer.write(usageEvent({ licenseUuid })));
    expect(writer.stats().queued).toBe(50);
    await Promise.all(writing);
    // Either of the two full batches may end first. The remaining events are committed after it.
    expect(charged.toSorted((a, b) => b - a)).toEqual([100, 100, 50]);
  });

  test("write() gathers events while a commit runs, but does not wait for a long commit", async () => {
    const { writer, licenseUuid } = await start({ longCommitMs: 200 });
    await writer.write(usageEvent({ licenseUuid }));
    const { licenseUuid: other } = await issue(server.database, { tier: "enterprise" });
    const session = openSession(server.address, { statementTimeoutMs: 5_000 });
    let stuck: Promise<EventOutcome> | undefined;
    const holdingIt = session.transaction(async (sql) => {
      await sql`select from usage where license_id = ${licenseUuid}::uuid for update`;
      stuck = writer.write(usageEvent({ licenseUuid }));
      await until(() => writer.stats().queued === 0);
      const free = writer.write(usageEvent({ licenseUuid: other }));
      await new Promise((resolve) => setImmediate(resolve));
      expect(writer.stats().queued).toBe(1);
      expect(await free).toMatchObject({ kind: "committed", used: 1 });
    });
    await holdingIt.finally(() => session.close());
    expect(await stuck).toMatchObject({ kind: "committed", used: 2 });
  });

  test("write() refuses the events beyond the quota, in the order of their arrival", async () => {
    const { writer, licenseUuid } = await start({ monthlyLimit: 2 });
    const types = ["inference", "error", "inference", "inference", "model_load"] as const;
    const outcomes = await Promise.all(types.map((type) => writer.write(usageEvent({ licenseUuid, type }))));
    expect(outcomes).toMatchObject([
      { kind: "committed", used: 1 },
      { kind: "committed", used: null },
      { kind: "committed", used: 2 },
      { kind: "quota_exceeded", used: 2 },
      { kind: "committed", used: null },
    ]);
  });

  test("write() commits each event with its own statement if gathering is switched off", async () => {
    const { writer, licenseUuid, charged } = await start({ maxEventsPerCommit: 1, commitsInFlight: 8 });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => writer.write(usageEvent({ licenseUuid }))),
    );
    expect(usedOf(outcomes).toSorted((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 20 }, (_, i) => i + 1),
    );
    expect(charged).toEqual(Array(20).fill(1));
    expect(writer.stats().commits).toBe(20);
  });

  test("write() refuses the rows that the database refuses, and commits the others in the batch", async () => {
    const { writer, licenseUuid } = await start();
    const bad: Partial<UsageEvent>[] = [
      { metadata: '{"nul": "\\u0000"}' },
      { errorMessage: "nul: \u0000" },
      { durationMs: -1 },
      { metadata: "{" },
    ];
    const at = new Map([3, 42, 43, 99].map((position, index) => [position, bad[index]]));
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, i) => writer.write(usageEvent({ licenseUuid, ...at.get(i) }))),
    );
    const refused = outcomes.flatMap(({ kind }, i) => (kind === "not_storable" ? [i] : []));
    expect(refused).toEqual([3, 42, 43, 99]);
    expect(usedOf(outcomes)).toEqual(Array.from({ length: 96 }, (_, i) => i + 1));
    expect(await readSums(server.database, licenseUuid)).toEqual({ used: 96, byDay: 96, stored: 96 });
  });

  test("write() puts events of different days or months into separate batches", async () => {
    const { writer, licenseUuid, charged } = await start({ monthlyLimit: 2 });
    const days = ["2026-11-30T23:59:59.999Z", "2026-12-01T00:00:00Z", "2026-11-30T23:59:59.999Z"];
    const outcomes = await Promise.all(
      days.map((day) => writer.write(usageEvent({ licenseUuid, receivedAtMs: Date.parse(day) }))),
    );
    const [first, december, third] = usedOf(outcomes);
    expect(december).toBe(1);
    // A long commit lets the next one overtake it: either of November's events may be the first.
    expect([first, third].toSorted()).toEqual([1, 2]);
    expect(charged).toHaveLength(3);
    expect(await readSums(server.database, licenseUuid)).toEqual({ used: 3, byDay: 3, stored: 3 });
  });

  test("write() turns away events when 20,000 wait, and commits the others", async () => {
    const { writer, licenseUuid } = await start();
    // The first 200 are being committed before the others arrive.
    const writing = Array.from({ length: 20_250 }, () => writer.write(usageEvent({ licenseUuid })));
    const outcomes = await Promise.allSettled(writing);
    const turnedAway = outcomes.flatMap(({ status }, i) => (status === "rejected" ? [i] : []));
    expect(turnedAway).toEqual(Array.from({ length: 50 }, (_, i) => 20_200 + i));
    expect(writer.stats().turnedAway).toBe(50);
    expect((await readSums(server.database, licenseUuid)).stored).toBe(20_200);
  });

  test("write() turns away events when 64 MiB wait, and puts at most 2 MiB into a statement", async () => {
    const { writer, licenseUuid, charged } = await start();
    const errorMessage = "x".repeat(1024 * 1024 - 300);
    const writing = Array.from({ length: 70 }, () => writer.write(usageEvent({ licenseUuid, errorMessage })));
    expect(writer.stats().turnedAway).toBe(6);
    await Promise.allSettled(writing);
    expect(Math.max(...charged)).toBe(2);
  });

  test("write() turns away an unsent event that has waited too long for an answer in time", async () => {
    const { writer, licenseUuid, clock, unknown } = await start();
    const late = writer.write(usageEvent({ licenseUuid }));
    clock.advance(1_400);
    expect(await failureOf(late)).toBeInstanceOf(DatabaseUnavailable);
    expect(unknown).toEqual([]);
    expect((await readSums(server.database, licenseUuid)).stored).toBe(0);
  });

  test("write() fails within 2 s while the database is away, and reports that the outcome is unknown", async () => {
    const proxy = await startFaultyProxy(server.address);
    const { writer, licenseUuid, unknown } = await start({ through: proxy.address });
    await writer.write(usageEvent({ licenseUuid }));
    proxy.set("stalled");
    const began = performance.now();
    const failures = await Promise.all(
      [1, 2, 3].map(() => failureOf(writer.write(usageEvent({ licenseUuid })))),
    );
    expect(performance.now() - began).toBeLessThan(4_500);
    for (const failure of failures) expect(failure).toBeInstanceOf(DatabaseUnavailable);
    expect(unknown).toEqual([licenseUuid, licenseUuid, licenseUuid]);
    proxy.set("none");
    expect(await writer.write(usageEvent({ licenseUuid }))).toMatchObject({ kind: "committed" });
    await proxy.close();
  });

  test("write() fails all events with the same claim within 2 s, whatever their fields", async () => {
    const proxy = await startFaultyProxy(server.address);
    const { writer, licenseUuid, unknown } = await start({ through: proxy.address });
    await writer.write(usageEvent({ licenseUuid }));
    proxy.set("stalled");
    const began = performance.now();
    const failures = await Promise.all(
      sameClaim(licenseUuid, [{}, {}, {}, {}]).map((event) => failureOf(writer.write(event))),
    );
    expect(performance.now() - began).toBeLessThan(4_500);
    for (const failure of failures) expect(failure).toBeInstanceOf(DatabaseUnavailable);
    // The other events were never sent.
    expect(unknown).toEqual([licenseUuid]);
    expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0 });
    await proxy.close();
  });

  test("write() counts the wait for another event with the same claim as a wait", async () => {
    const proxy = await startFaultyProxy(server.address);
    const { writer, licenseUuid, clock } = await start({ through: proxy.address, monthlyLimit: 1 });
    await writer.write(usageEvent({ licenseUuid }));
    proxy.set("stalled");
    const events = sameClaim(licenseUuid, [{}, { type: "error" }]);
    const outcomes = Promise.allSettled(events.map((event) => writer.write(event)));
    await until(() => writer.stats().queued === 1);
    clock.advance(1_400);
    proxy.set("none");
    // The refused event leaves no claim, so the second would be stored if there were time.
    expect(await outcomes).toMatchObject([
      { status: "fulfilled", value: { kind: "quota_exceeded" } },
      { status: "rejected", reason: expect.any(DatabaseUnavailable) },
    ]);
    expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0, turnedAway: 1 });
    await proxy.close();
  });

  test("write() answers other events with the same claim without another statement", async () => {
    const { writer, licenseUuid } = await start();
    const events = sameClaim(licenseUuid, Array(5).fill({}));
    const outcomes = await Promise.all(events.map((event) => writer.write(event)));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["committed", ...Array(4).fill("claim_mismatch")]);
    expect(writer.stats()).toMatchObject({ commits: 1, queued: 0, queuedBytes: 0 });
  });

  test("write() stores the first event with a claim that the database and the quota accept", async () => {
    const { writer, licenseUuid } = await start({ monthlyLimit: 0 });
    const bad = { type: "error", durationMs: -1 } as const;
    const events = sameClaim(licenseUuid, [{}, bad, { type: "error" }, {}, {}, {}]);
    const outcomes = await Promise.all(events.map((event) => writer.write(event)));
    const kinds = ["quota_exceeded", "not_storable", "committed", ...Array(3).fill("claim_mismatch")];
    expect(outcomes.map(({ kind }) => kind)).toEqual(kinds);
    expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0 });
  });

  test("write() turns away events when 20,000 events or 64 MiB wait for one claim", async () => {
    for (const [count, taken, fields] of [
      [20_050, 20_000, {}],
      [70, 64, { errorMessage: "x".repeat(1024 * 1024 - 300) }],
    ] as const) {
      const { writer, licenseUuid } = await start();
      const events = sameClaim(licenseUuid, Array(count).fill(fields));
      const outcomes = Promise.allSettled(events.map((event) => writer.write(event)));
      expect(writer.stats()).toMatchObject({ queued: taken, turnedAway: count - taken });
      const turnedAway = (await outcomes).flatMap(({ status }, i) => (status === "rejected" ? [i] : []));
      expect(turnedAway).toEqual(Array.from({ length: count - taken }, (_, i) => taken + i));
      expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0 });
    }
  });

  test("stop() waits for events that wait for their claim", async () => {
    const { writer, licenseUuid } = await start({ monthlyLimit: 0 });
    const events = sameClaim(licenseUuid, [{}, { type: "error" }]);
    const outcomes = Promise.all(events.map((event) => writer.write(event)));
    await writer.stop(5_000);
    expect((await outcomes).map(({ kind }) => kind)).toEqual(["quota_exceeded", "committed"]);
  });

  test("stop() commits queued events, and turns away later events", async () => {
    const { writer, licenseUuid } = await start();
    const queued = Promise.all(
      Array.from({ length: 5_000 }, () => writer.write(usageEvent({ licenseUuid }))),
    );
    const stopped = writer.stop(5_000);
    expect(await failureOf(writer.write(usageEvent({ licenseUuid })))).toBeInstanceOf(DatabaseUnavailable);
    await stopped;
    expect(writer.stats()).toMatchObject({ queued: 0, committed: 5_000 });
    expect((await queued).every(({ kind }) => kind === "committed")).toBe(true);
    expect((await readSums(server.database, licenseUuid)).stored).toBe(5_000);
  });
});

interface Options extends EventGathering {
  readonly monthlyLimit?: number;
  readonly through?: TestDatabase["address"];
}

/** Makes a new writer, and a license to charge. */
async function start({ monthlyLimit, through = server.address, ...gathering }: Options = {}) {
  const clock = createTestClock();
  const charged: number[] = [];
  const unknown: string[] = [];
  const writer = createEventWriter({
    database: openDatabase(through, { clock, log: silentLog }),
    clock,
    log: silentLog,
    processUuid: newUuid(),
    onCharged: ({ granted }) => charged.push(granted),
    onUnknown: (licenseUuid) => unknown.push(licenseUuid),
    ...gathering,
  });
  const limit = monthlyLimit === undefined ? {} : { monthlyLimit };
  const { licenseUuid } = await issue(server.database, { tier: "enterprise", ...limit });
  return { writer, licenseUuid, clock, charged, unknown };
}

/** Returns events of one key with one claim, each with other fields. */
function sameClaim(licenseUuid: string, events: readonly Partial<UsageEvent>[]): UsageEvent[] {
  const [keyUuid, claim] = [newUuid(), sha256(newUuid())];
  return events.map((fields, i) => {
    const digest = sha256(`${i}`);
    return usageEvent({ licenseUuid, keyUuid, ...fields, claim: { hash: claim, digest, eventHash: digest } });
  });
}

const sha256 = (text: string) => hash("sha256", text, "hex");

function usedOf(outcomes: readonly EventOutcome[]): (number | null)[] {
  return outcomes.flatMap((outcome) => (outcome.kind === "committed" ? [outcome.used] : []));
}

function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
}
