import { beforeEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { type Database, DatabaseUnavailable, openDatabase } from "../../src/database/mod.ts";
import { addModel, createClientLists, parseNewModel } from "../../src/models/mod.ts";
import { createTestClock, type TestClock } from "../support/clock.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { createTestDatabase } from "../support/database.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { ACTOR, BRAND, NOW } from "../support/issue.ts";
import { newModel } from "../support/new_model.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";

const ACCOUNT = newUuid();

const server = useForEach(createTestDatabase);
// Statements may wait for a lock for as long as a busy machine needs.
const database = useForEach(async () =>
  openDatabase(server.address, { clock: systemClock, log: silentLog, deadlineMs: 25_000 }),
);
let clock: TestClock;
let lists: ReturnType<typeof createClientLists>;
/** For each statement the number of rows that had metadata. */
let read: number[];

beforeEach(() => {
  clock = createTestClock(undefined, { stands: true });
  read = [];
  const query: Database["query"] = async (...statement) => {
    const rows = await database.query(...statement);
    read.push(rows.filter((row) => "metadata" in row && row.metadata !== null).length);
    return rows as never;
  };
  lists = createClientLists({ ...database, query }, clock);
});

const listFor = (paradigm?: string) =>
  lists.listFor(
    { tier: "free", accountUuid: ACCOUNT, updatesUntilMs: Number.POSITIVE_INFINITY, paradigm },
    () => "https://h/",
  );

async function metadata(): Promise<unknown[]> {
  return (await listFor()).map((record) => JSON.parse(record).metadata);
}

async function add(fields: object): Promise<void> {
  const model = parseNewModel(newModel(fields), BRAND);
  if (isRefusal(model)) throw new Error(model.sentence);
  expect(await addModel(server.database, model, { actor: ACTOR, now: NOW })).toBeUndefined();
}

/** Runs `body` while every statement that reads the models waits for a lock. */
async function whileLocked(body: () => Promise<void>): Promise<void> {
  await inTransaction(server.address, async (sql) => {
    await sql`lock table models`;
    await body();
  });
}

describe("listFor()", () => {
  test("listFor() runs at most two statements at once, and equal lists that wait share the next one", async () => {
    let all: Promise<unknown> = Promise.resolve();
    await whileLocked(async () => {
      const paradigms = ["a", "b", ...["a", "b", "c"].flatMap((paradigm) => Array(20).fill(paradigm))];
      all = Promise.all(paradigms.map(listFor));
      await until(async () => (await countWaiting(server.database)) === 2);
      await Bun.sleep(50);
      expect(await countWaiting(server.database)).toBe(2);
    });
    await all;
    // `a` and `b` run first; what came during their statements gets statements of its own, one for each kind.
    expect(read).toHaveLength(5);
  });

  test("listFor() answers equal lists one after the other, so that other requests come between them", async () => {
    let turns = 0;
    const count = () => {
      turns++;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    const ends = await Promise.all(Array.from({ length: 10 }, () => listFor().then(() => turns)));
    clearImmediate(immediate);
    expect(new Set(ends).size).toBe(10);
  });

  test("listFor() refuses a list that has waited for half a second, and the one after a thousand", async () => {
    await whileLocked(async () => {
      const running = [listFor("a"), listFor("b")];
      const waiting = Array.from({ length: 1_000 }, (_, i) => listFor(`c${i}`));
      const settled = Promise.allSettled([...running, ...waiting]);
      await expect(listFor("d")).rejects.toBeInstanceOf(DatabaseUnavailable);
      clock.advance(501);
      await until(async () => (await countWaiting(server.database)) === 2);
      await server.database.query(
        (sql) => sql`
          select pg_cancel_backend(pid) from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock'`,
      );
      const codes = (await settled).map((outcome) => outcome.status === "rejected" && outcome.reason.code);
      expect(codes).toEqual([...Array(2).fill("57014"), ...Array(1_000).fill("too many lists of models")]);
    });
    expect(await listFor("d")).toEqual([]);
  });

  test("listFor() reads the metadata of a version once, and again after any change of its row", async () => {
    await add({ name: "a", metadata: { first: 1 } });
    await add({ name: "b", metadata: { second: 2 } });
    expect(await metadata()).toEqual([{ first: 1 }, { second: 2 }]);
    expect(await metadata()).toEqual([{ first: 1 }, { second: 2 }]);
    await add({ name: "b", version: "2", metadata: {} });
    expect(await metadata()).toEqual([{ first: 1 }, {}]);
    await server.database.query(
      (sql) => sql`update model_versions set metadata = '{"first": "ü"}' where metadata ? 'first'`,
    );
    expect(await metadata()).toEqual([{ first: "ü" }, {}]);
    expect(read).toEqual([2, 0, 1, 1]);
  });

  test("listFor() keeps at most 16 MB of metadata", async () => {
    await add({ metadata: { note: "x".repeat(16_000) } });
    await server.database.query(
      (sql) => sql`
        with made as (
          insert into models (id, name, owner_account_id, listed_version, created_at)
          select gen_random_uuid(), 'm' || n, null, '1.0.0', created_at from models, generate_series(1, 600) n
          returning id
        )
        insert into model_versions
        select (jsonb_populate_record(v, jsonb_build_object('id', gen_random_uuid(), 'model_id', made.id))).*
          from made, model_versions v`,
    );
    expect(await metadata()).toHaveLength(601);
    expect(await metadata()).toHaveLength(601);
    expect(read[0]).toBe(601);
    expect(read[1]).toBeGreaterThan(0);
  });
});
