/**
 * 50,000 licenses end on one day: every statement that makes or withdraws their notices is short, and a service answers beside
 * them as fast as without. `LICENSES=1000000` is the promised number of all licenses.
 */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { type Database, openSession } from "../../src/database/mod.ts";
import { makeNotices } from "../../src/notices/mod.ts";
import { startTestService } from "../support/service.ts";
import { useTestDatabase } from "../support/use.ts";
import { SETTINGS } from "./notices_kit.ts";

// Takes over a minute.

// Runs alone: it judges a time.

const LICENSES = Number(process.env.LICENSES ?? 200_000);
const ENDING = LICENSES / 20;
/** The longest statement, on a busy machine. */
const MOST_MS = 500;

const server = useTestDatabase();

/** Makes notices once; returns how long the longest statement took, and how long all of them took. */
async function timeNotices(now: Date): Promise<{ longestMs: number; allMs: number; statements: number }> {
  let [longestMs, statements] = [0, 0];
  const query: Database["query"] = async (build) => {
    const beganMs = performance.now();
    const rows = await server.database.query(build);
    longestMs = Math.max(longestMs, performance.now() - beganMs);
    statements++;
    return rows as never;
  };
  const beganMs = performance.now();
  const clock = { ...systemClock, now: () => now };
  await makeNotices({ database: { ...server.database, query }, clock, isStopping: () => false }, SETTINGS);
  return { longestMs, allMs: performance.now() - beganMs, statements };
}

const countIn = async (state: string) => {
  const [row] = await server.database.query<{ count: number }>(
    (sql) => sql`select count(*)::integer as count from notices where state = ${state}`,
  );
  return row?.count;
};

test(`${ENDING} of ${LICENSES} licenses end on one day`, async () => {
  const now = new Date();
  const end = new Date(now.getTime() + 5 * 86_400_000);
  await using session = openSession(server.address, { statementTimeoutMs: 600_000 });
  await session.connect();
  await session.sql`
    insert into accounts (id, email, name, created_at)
    select gen_random_uuid(), 'many-' || n || '@example.org', 'Ada', '2020-01-01' from generate_series(1, ${LICENSES / 5}::integer) as n`;
  await session.sql`
    insert into licenses (id, account_id, tier, expires_at, created_at)
    select gen_random_uuid(), a.id, 'free', case when n = 1 and random() < 0.25 then ${end}::timestamptz else '2099-01-01' end, '2020-01-01'
      from accounts a, generate_series(1, 5) as n`;
  await session.sql`
    insert into keys (id, license_id, hash, hint, mode, created_at)
    select gen_random_uuid(), id, sha256(id::text::bytea), 'svc_live_…', 'live', '2020-01-01' from licenses`;
  await session.sql`vacuum analyze`;
  const [{ ending } = { ending: 0 }] = await session.sql<{ ending: number }[]>`
    select count(*)::integer as ending from licenses where expires_at < '2099-01-01'`;
  expect(ending).toBeGreaterThan(ENDING / 2);

  await using service = await startTestService({ on: server });
  const key = await service.issue();
  const validate = async () => {
    const beganMs = performance.now();
    expect((await service.post("/v1/auth/validate", { api_key: key.apiKey })).status).toBe(200);
    return performance.now() - beganMs;
  };
  let isMaking = true;
  const beside: number[] = [];
  const serve = (async () => {
    while (isMaking) {
      beside.push(await validate());
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const made = await timeNotices(now);
  const again = await timeNotices(now);
  await session.sql`update licenses set expires_at = '2099-01-01' where expires_at < '2099-01-01'`;
  const withdrawn = await timeNotices(now);
  isMaking = false;
  await serve;
  expect(await countIn("withdrawn")).toBe(ending);
  const p99 = beside.toSorted((a, b) => a - b)[Math.floor(beside.length * 0.99)] ?? 0;
  console.log({ ending, made, again, withdrawn, requests: beside.length, p99 });
  for (const { longestMs } of [made, again, withdrawn]) expect(longestMs).toBeLessThan(MOST_MS);
  // A validated key costs no statement, so only the shared cores slow it down.
  expect(p99).toBeLessThan(250);
}, 900_000);
