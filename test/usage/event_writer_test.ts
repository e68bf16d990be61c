import { describe, expect, test } from "bun:test";
import { DatabaseUnavailable, openSession } from "../../src/database/mod.ts";
import type { EventOutcome, UsageEvent } from "../../src/usage/mod.ts";
import { readSums, usageEvent } from "../support/events.ts";
import { startFaultyProxy } from "../support/faulty_proxy.ts";
import { issue } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/use.ts";
import { failureOf, startWriter, usedOf } from "./writer_kit.ts";

const server = useTestDatabase();

describe("createEventWriter()", () => {
  test("write() commits events that arrive together with one statement, and counts each event", async () => {
    const { writer, licenseUuid, charged } = await startWriter(server);
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
    const { writer, licenseUuid, charged } = await startWriter(server);
    const writing = Array.from({ length: 250 }, () => writer.write(usageEvent({ licenseUuid })));
    expect(writer.stats().queued).toBe(50);
    await Promise.all(writing);
    // Either of the two full batches may end first. The remaining events are committed after it.
    expect(charged.toSorted((a, b) => b - a)).toEqual([100, 100, 50]);
  });

  test("write() gathers events while a commit runs, but does not wait for a long commit", async () => {
    const { writer, licenseUuid } = await startWriter(server, { longCommitMs: 200 });
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
    const { writer, licenseUuid } = await startWriter(server, { monthlyLimit: 2 });
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
    const { writer, licenseUuid, charged } = await startWriter(server, {
      maxEventsPerCommit: 1,
      commitsInFlight: 8,
    });
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
    const { writer, licenseUuid } = await startWriter(server);
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
    const { writer, licenseUuid, charged } = await startWriter(server, { monthlyLimit: 2 });
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
    const { writer, licenseUuid } = await startWriter(server);
    // The first 200 are being committed before the others arrive.
    const writing = Array.from({ length: 20_250 }, () => writer.write(usageEvent({ licenseUuid })));
    const outcomes = await Promise.allSettled(writing);
    const turnedAway = outcomes.flatMap(({ status }, i) => (status === "rejected" ? [i] : []));
    expect(turnedAway).toEqual(Array.from({ length: 50 }, (_, i) => 20_200 + i));
    expect(writer.stats().turnedAway).toBe(50);
    expect((await readSums(server.database, licenseUuid)).stored).toBe(20_200);
  });

  test("write() turns away events when 64 MiB wait, and puts at most 2 MiB into a statement", async () => {
    const { writer, licenseUuid, charged } = await startWriter(server);
    const errorMessage = "x".repeat(1024 * 1024 - 300);
    const writing = Array.from({ length: 70 }, () => writer.write(usageEvent({ licenseUuid, errorMessage })));
    expect(writer.stats().turnedAway).toBe(6);
    await Promise.allSettled(writing);
    expect(Math.max(...charged)).toBe(2);
  });

  test("write() turns away an unsent event that has waited too long for an answer in time", async () => {
    const { writer, licenseUuid, clock, unknown } = await startWriter(server);
    const late = writer.write(usageEvent({ licenseUuid }));
    clock.advance(1_400);
    expect(await failureOf(late)).toBeInstanceOf(DatabaseUnavailable);
    expect(unknown).toEqual([]);
    expect((await readSums(server.database, licenseUuid)).stored).toBe(0);
  });

  test("write() leaves a commit only the time that its oldest event has left", async () => {
    const { writer, licenseUuid, clock, deadlines } = await startWriter(server);
    const writing = [writer.write(usageEvent({ licenseUuid }))];
    clock.advance(1_200);
    writing.push(writer.write(usageEvent({ licenseUuid })));
    expect(usedOf(await Promise.all(writing))).toEqual([1, 2]);
    expect(deadlines).toEqual([800]);
  });

  test("write() fails within 2 s while the database is away, and reports that the outcome is unknown", async () => {
    const proxy = await startFaultyProxy(server.address);
    const { writer, licenseUuid, unknown, deadlines } = await startWriter(server, { through: proxy.address });
    await writer.write(usageEvent({ licenseUuid }));
    proxy.set("stalled");
    deadlines.length = 0;
    const failures = await Promise.all(
      [1, 2, 3].map(() => failureOf(writer.write(usageEvent({ licenseUuid })))),
    );
    expect(deadlines).toEqual([2_000]);
    for (const failure of failures) expect(failure).toBeInstanceOf(DatabaseUnavailable);
    expect(unknown).toEqual([licenseUuid, licenseUuid, licenseUuid]);
    proxy.set("none");
    expect(await writer.write(usageEvent({ licenseUuid }))).toMatchObject({ kind: "committed" });
    await proxy.close();
  });

  test("stop() commits queued events, and turns away later events", async () => {
    const { writer, licenseUuid } = await startWriter(server);
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
