/** Promise: the events of a license, and those of all licenses, store so many bytes of texts a day, and no more. */
import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { openDatabase } from "../../src/database/mod.ts";
import {
  commitEvents,
  findTextsLeftOut,
  findTextsToday,
  type TextBounds,
  type UsageEvent,
} from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { createTestDatabase } from "../support/database.ts";
import { MUCH_ROOM, readSums, usageEvent } from "../support/events.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { issue } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";

/** The texts of the installation are those of all licenses, so each test has a database of its own. */
const server = useForEach(() => createTestDatabase());

const TODAY = "2026-11-20T12:00:00Z";

interface CommitOptions {
  readonly bounds?: Partial<TextBounds>;
  readonly through?: typeof server.database;
}

async function commit(
  events: readonly UsageEvent[],
  { bounds, through = server.database }: CommitOptions = {},
) {
  const textBounds = { ...MUCH_ROOM, ...bounds };
  return await commitEvents(through, events, { processUuid: newUuid(), textBounds, deadlineMs: 10_000 });
}

async function license(monthlyLimit?: number): Promise<string> {
  const more = monthlyLimit === undefined ? {} : { monthlyLimit };
  return (await issue(server.database, { tier: "enterprise", ...more })).licenseUuid;
}

const at = (iso: string) => ({ receivedAtMs: Date.parse(iso) });

/** An event of today with a message of so many bytes. */
const saying = (bytes: number, fields: Partial<UsageEvent> = {}) =>
  usageEvent({ type: "error", errorMessage: "x".repeat(bytes), ...at(TODAY), ...fields });

async function sizesStored(licenseUuid: string): Promise<(number | null)[]> {
  const rows = await server.database.query<{ size: number | null }>(
    (sql) => sql`
      select octet_length(error_message) as size from events where license_id = ${licenseUuid}::uuid order by id`,
  );
  return rows.map(({ size }) => size);
}

describe("commitEvents()", () => {
  test("commitEvents() stores the texts of the first events of the day, and the others without texts", async () => {
    const [licenseUuid, other] = [await license(), await license()];
    const bounds = { licenseBytes: 100 };
    const sizes = (of: string, ...each: number[]) => each.map((size) => saying(size, { licenseUuid: of }));
    const first = await commit([...sizes(licenseUuid, 60, 40, 1, 5), ...sizes(other, 99)], { bounds });
    expect(first.truncated).toEqual([2, 3]);
    expect((await commit(sizes(licenseUuid, 1), { bounds })).truncated).toEqual([0]);
    // A license without texts today has its whole room.
    expect((await commit(sizes(other, 1, 1), { bounds })).truncated).toEqual([1]);
    expect(await sizesStored(licenseUuid)).toEqual([60, 40, null, null, null]);
    expect(await sizesStored(other)).toEqual([99, 1, null]);
  });

  test("commitEvents() leaves out metadata, message and a long model name, and keeps every other field", async () => {
    const licenseUuid = await license();
    const fields = {
      licenseUuid,
      type: "inference",
      inferenceType: "streaming",
      durationMs: 1.5,
      success: false,
      metadata: '{"a":1}',
    } as const;
    const long = saying(1, { ...fields, modelName: "ü".repeat(33) });
    const short = saying(1, { ...fields, modelName: "ü".repeat(32) });
    const onlyName = usageEvent({ ...at(TODAY), licenseUuid, modelName: "m".repeat(65) });
    const bare = usageEvent({ ...at(TODAY), licenseUuid, modelName: "m".repeat(64) });
    const { truncated, grants } = await commit([long, short, onlyName, bare], {
      bounds: { licenseBytes: 0 },
    });
    expect(truncated).toEqual([0, 1, 2]);
    expect([...grants]).toEqual([{ licenseUuid, granted: 4, used: 4 }]);
    const rows = await server.database.query(
      (sql) => sql`
        select model_name, error_message, metadata, inference_type, duration_ms, success from events
         where id = any(array[${long.uuid}::uuid, ${short.uuid}::uuid]) order by id`,
    );
    const rest = {
      error_message: null,
      metadata: null,
      inference_type: "streaming",
      duration_ms: 1.5,
      success: false,
    };
    expect([...rows]).toEqual([
      { model_name: null, ...rest },
      { model_name: short.modelName, ...rest },
    ]);
    expect(await readSums(server.database, licenseUuid)).toEqual({ used: 4, byDay: 4, stored: 4 });
  });

  test("commitEvents() counts metadata with the size that PostgreSQL stores, which many numbers make larger than their text", async () => {
    const licenseUuid = await license();
    const metadata = JSON.stringify({ n: Array.from({ length: 1_000 }, (_, i) => i % 10) });
    await commit([usageEvent({ ...at(TODAY), licenseUuid, metadata })]);
    const [row] = await server.database.query<{ size: number }>(
      (sql) => sql`select pg_column_size(${metadata}::text::jsonb) as size`,
    );
    const { bytes } = await findTextsToday(server.database, licenseUuid, new Date(TODAY));
    expect(bytes).toBe(row?.size ?? 0);
    expect(bytes).toBeGreaterThan(4 * metadata.length);
  });

  test("commitEvents() has room again the next day, and counts a late batch of the day before in the present day", async () => {
    const licenseUuid = await license();
    const bounds = { licenseBytes: 100 };
    const send = async (iso: string, bytes: number) =>
      (await commit([saying(bytes, { licenseUuid, ...at(iso) })], { bounds })).truncated;
    expect(await send("2026-11-20T23:59:59Z", 100)).toEqual([]);
    expect(await send("2026-11-20T23:59:59Z", 1)).toEqual([0]);
    expect(await send("2026-11-21T00:00:00Z", 50)).toEqual([]);
    const now = new Date("2026-11-21T10:00:00Z");
    expect(await findTextsToday(server.database, licenseUuid, now)).toEqual({ bytes: 50, leftOutAt: null });
    expect(await send("2026-11-20T23:59:59Z", 51)).toEqual([0]);
    expect(await send("2026-11-21T00:00:01Z", 1)).toEqual([0]);
    expect(await findTextsToday(server.database, licenseUuid, now)).toEqual({
      bytes: 102,
      leftOutAt: new Date("2026-11-20T23:59:59Z"),
    });
  });

  test("commitEvents() counts anew after a clock that was wrong by days, whatever day it had", async () => {
    const licenseUuid = await license();
    const bounds = { licenseBytes: 100, installationBytes: 1_000 };
    for (const iso of [TODAY, "2099-01-01T00:00:00Z", TODAY, "2026-11-18T00:00:00Z"]) {
      const event = () => saying(100, { licenseUuid, ...at(iso) });
      expect([iso, (await commit([event()], { bounds })).truncated]).toEqual([iso, []]);
      expect([iso, (await commit([event()], { bounds })).truncated]).toEqual([iso, [0]]);
      expect(await findTextsToday(server.database, licenseUuid, new Date(iso))).toMatchObject({ bytes: 200 });
    }
  });

  test("commitEvents() takes no room for the texts of events that the quota refuses", async () => {
    const licenseUuid = await license(1);
    const inference = (bytes: number) => saying(bytes, { licenseUuid, type: "inference" });
    const bounds = { licenseBytes: 100 };
    const batch = [inference(30), inference(90), saying(70, { licenseUuid })];
    expect((await commit(batch, { bounds })).truncated).toEqual([]);
    expect(await sizesStored(licenseUuid)).toEqual([30, 70]);
  });

  test("commitEvents() says that the texts of a known event were left out, and takes no more room for it", async () => {
    const [licenseUuid, bounds] = [await license(), { licenseBytes: 100 }];
    const digest = hash("sha256", "a", "hex");
    const send = (name: string, bytes: number) => {
      const claim = { hash: hash("sha256", name, "hex"), digest, eventHash: digest, occurredAtMs: null };
      return commit([saying(bytes, { licenseUuid, claim })], { bounds });
    };
    expect(await send("first", 90)).toMatchObject({ truncated: [], known: [] });
    expect(await send("second", 90)).toMatchObject({ truncated: [0], known: [] });
    expect(await send("first", 90)).toMatchObject({ truncated: [], known: [{ isTruncated: false }] });
    expect(await send("second", 90)).toMatchObject({ truncated: [], known: [{ isTruncated: true }] });
    expect((await findTextsToday(server.database, licenseUuid, new Date(TODAY))).bytes).toBe(180);
  });

  test("commitEvents() leaves out the texts of all licenses when the installation has no room, until the next day", async () => {
    const [one, two] = [await license(), await license()];
    const bounds = { installationBytes: 100 };
    const send = async (licenseUuid: string, bytes: number, iso = TODAY) =>
      (await commit([saying(bytes, { licenseUuid, ...at(iso) })], { bounds })).truncated;
    expect(await send(one, 99)).toEqual([]);
    // The bound was not reached when this batch began.
    expect(await send(two, 50)).toEqual([]);
    expect(await send(one, 1)).toEqual([0]);
    expect(await send(two, 1)).toEqual([0]);
    expect(await findTextsLeftOut(server.database, new Date(TODAY))).toEqual({
      bytes: 149,
      count: 2,
      leftOutAt: new Date(TODAY),
      licenses: [one, two].toSorted(),
    });
    // They took no room of their license.
    expect((await findTextsToday(server.database, one, new Date(TODAY))).bytes).toBe(99);
    expect(await send(one, 1, "2026-11-21T00:00:00Z")).toEqual([]);
  });

  test("commitEvents() counts the texts of all licenses anew each day, and a late batch of the day before in the present day", async () => {
    const licenseUuid = await license();
    const options = { clock: createTestClock(), log: silentLog, deadlineMs: 10_000, maxConnections: 1 };
    // One connection, so that every batch counts in the same part.
    const through = openDatabase(server.address, options);
    const bounds = { installationBytes: 100 };
    const send = async (iso: string, bytes: number) =>
      (await commit([saying(bytes, { licenseUuid, ...at(iso) })], { bounds, through })).truncated;
    const bytesOn = async (iso: string) => (await findTextsLeftOut(server.database, new Date(iso))).bytes;
    expect(await send("2026-11-20T23:59:59Z", 70)).toEqual([]);
    expect(await send("2026-11-21T00:00:00Z", 60)).toEqual([]);
    expect(await bytesOn("2026-11-21T12:00:00Z")).toBe(60);
    expect(await send("2026-11-20T23:59:59Z", 40)).toEqual([]);
    expect(await bytesOn("2026-11-21T12:00:00Z")).toBe(100);
    expect(await send("2026-11-20T23:59:59Z", 1)).toEqual([0]);
    await through.close();
  });

  test("findTextsLeftOut() names the three licenses whose texts were left out first, and since when", async () => {
    const licenses = [await license(), await license(), await license(), await license()];
    const first = licenses.toReversed();
    for (const [hour, licenseUuid] of first.entries()) {
      const event = saying(1, { licenseUuid, ...at(`2026-11-20T1${hour}:00:00Z`) });
      await commit([event], { bounds: { licenseBytes: 0 } });
    }
    expect(await findTextsLeftOut(server.database, new Date(TODAY))).toMatchObject({
      count: 4,
      leftOutAt: new Date("2026-11-20T10:00:00Z"),
      licenses: first.slice(0, 3),
    });
  });

  test("commitEvents() of two processes at once stores no byte more than the bound of each license, and never deadlocks", async () => {
    const licenses = await Promise.all(Array.from({ length: 6 }, () => license(400)));
    const options = { clock: createTestClock(), log: silentLog, deadlineMs: 10_000, maxConnections: 2 };
    const processes = [openDatabase(server.address, options), openDatabase(server.address, options)];
    const licenseBytes = 4_000;
    let truncated = 0;
    const random = () => licenses[Math.floor(Math.random() * licenses.length)] ?? "";
    const clients = processes.flatMap((through) =>
      [1, 2].map(async () => {
        for (let round = 0; round < 100; round++) {
          const events = Array.from({ length: 10 }, (_, index) => {
            const name = hash("sha256", newUuid(), "hex");
            const claim =
              index % 3 === 0 ? { hash: name, digest: name, eventHash: name, occurredAtMs: null } : null;
            const type = index % 2 === 0 ? "error" : "inference";
            const bytes = Math.floor(Math.random() * 20);
            return saying(bytes, {
              licenseUuid: random(),
              type,
              claim,
              ...(bytes < 5 && { errorMessage: null }),
            });
          });
          truncated += (await commit(events, { bounds: { licenseBytes }, through })).truncated.length;
        }
      }),
    );
    await Promise.all(clients);
    const stored = await server.database.query<{ bytes: number }>(
      (sql) => sql`
        select sum(octet_length(error_message))::bigint as bytes from events group by license_id`,
    );
    // Each license got much more than fits, and an event that does not fit ends the texts of the day.
    for (const { bytes } of stored) expect(bytes).toBeWithin(licenseBytes - 20, licenseBytes + 1);
    expect(stored).toHaveLength(licenses.length);
    expect(truncated).toBeGreaterThan(100);
    const { bytes } = await findTextsLeftOut(server.database, new Date(TODAY));
    expect(bytes).toBe(stored.reduce((sum, one) => sum + one.bytes, 0));
    await Promise.all(processes.map((database) => database.close()));
  });

  test("commitEvents() of two processes does not deadlock over the texts of licenses that come in opposite orders", async () => {
    const [first = "", middle = "", last = ""] = (
      await Promise.all([license(), license(), license()])
    ).toSorted();
    const saidBy = (licenses: readonly string[]) => licenses.map((licenseUuid) => saying(1, { licenseUuid }));
    await commit(saidBy([first, middle, last]));
    const options = { clock: createTestClock(), log: silentLog, deadlineMs: 10_000, maxConnections: 1 };
    const [one, two] = [openDatabase(server.address, options), openDatabase(server.address, options)];
    // In the order of the batches, the one would hold the last license, the other the first, and both would wait here.
    const sent = await inTransaction(server.address, async (sql) => {
      await sql`select from event_texts where license_id = ${middle}::uuid for update`;
      const down = commit(saidBy([last, middle, first]), { through: one });
      await until(async () => (await countWaiting(server.database)) === 1);
      const up = commit(saidBy([first, middle, last]), { through: two });
      await until(async () => (await countWaiting(server.database)) === 2);
      return { batches: Promise.allSettled([down, up]) };
    });
    const committed = {
      status: "fulfilled" as const,
      value: { grants: [], known: [], truncated: [], usedBefore: new Map() },
    };
    expect(await sent.batches).toEqual([committed, committed]);
    for (const each of [first, middle, last]) expect(await sizesStored(each)).toEqual([1, 1, 1]);
    await Promise.all([one.close(), two.close()]);
  });
});
