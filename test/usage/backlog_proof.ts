/**
 * Upkeep deletes a backlog of three million expired claims within two minutes while events arrive, and the events
 * wait hardly longer than without it. A restore of an old backup or a day of downtime leaves such a backlog.
 *
 * A transaction inserts the claims at the beginning and commits them later: so both phases run on the same tables,
 * and the commit begins the second phase.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type DatabaseAddress, type DatabaseSession, openSession } from "../../src/database/mod.ts";
import { quantile } from "../bench/statistics.ts";
import { createCommandLine } from "../cli/command_line.ts";
import { cleanUp, start } from "../database/embedded_test_kit.ts";
import { type ServiceProcess, SOURCE, spawnService, toServeCommand } from "../support/service_process.ts";

// Takes over a minute.

// Runs alone: it judges a time.

const CLAIMS = 3_000_000;
const KEYS = 50;
const EVENTS_A_SECOND = 200;
const QUIET_MS = 20_000;
const GONE_WITHIN_MS = 120_000;
/** The disk of a busy machine may stop for half a second in only one phase: then both phases are measured again. */
const ROUNDS = 5;
const LIMIT_MS = 1_200_000;

const commandLine = createCommandLine();
let service: ServiceProcess;
let session: DatabaseSession;
let address: DatabaseAddress;
let keys: string[];

beforeAll(async () => {
  service = spawnService(toServeCommand(SOURCE), {
    cwd: commandLine.folder,
    env: {
      CLAVIGER_DATA_DIR: commandLine.dataDir,
      CLAVIGER_STOP_GRACE: "0",
      CLAVIGER_LIMIT_ANALYTICS: "0",
      CLAVIGER_LOG_REQUESTS: "off",
    },
  });
  await service.untilServing();
  keys = [];
  for (let number = 0; number < KEYS; number++) {
    const person = ["--email", `person-${number}@example.org`, "--tier", "enterprise"];
    keys.push((await commandLine.json(["keys", "issue", ...person])).api_key);
  }
  const server = await start(commandLine.dataDir, { holder: "command", create: false, ownBinaries: true });
  address = server.address;
  session = openSession(address, { statementTimeoutMs: 0 });
}, LIMIT_MS);

afterAll(async () => {
  await session.close();
  await service.stop();
  commandLine.remove();
  await cleanUp();
});

test(
  "upkeep deletes three million expired claims within two minutes, and less than doubles the p99 of events",
  async () => {
    for (let round = 1; ; round++) {
      const { goneMs, quiet, busy } = await measureBacklog();
      expect(goneMs).toBeLessThan(GONE_WITHIN_MS);
      if (p99Of(busy) < 2 * p99Of(quiet)) break;
      expect(round).toBeLessThan(ROUNDS);
    }
    expect(await countExpired()).toBe(0);
  },
  LIMIT_MS,
);

interface Measured {
  /** The time from the commit of the claims until the last of them was deleted. */
  readonly goneMs: number;
  /** How long events waited without a backlog, and while the backlog was deleted; in ms. */
  readonly quiet: readonly number[];
  readonly busy: readonly number[];
}

async function measureBacklog(): Promise<Measured> {
  const { sql } = session;
  const goal = (await countDeleted()) + CLAIMS;
  let quiet: readonly number[] = [];
  await session.transaction(async () => {
    await sql`
      insert into claims (key_id, claim, event_hash, event_id, claimed_at)
      select gen_random_uuid(), sha256('claim'), sha256('event'), gen_random_uuid(), now() - interval '30 hours'
        from generate_series(1, ${CLAIMS}::integer)`;
    // Both phases begin after the pages of the insert are on the disk.
    await checkpoint();
    await sendEvents(5_000);
    quiet = await sendEvents(QUIET_MS);
  });

  const committedMs = performance.now();
  let deleted = await countDeleted();
  const busy: number[] = [];
  while (deleted < goal && performance.now() - committedMs < GONE_WITHIN_MS) {
    const before = deleted;
    const waits = await sendEvents(1_000);
    deleted = await countDeleted();
    // Only seconds in which claims were deleted count.
    if (deleted > before) busy.push(...waits);
  }
  const goneMs = performance.now() - committedMs;
  console.log({
    goneSeconds: goneMs / 1_000,
    events: { quiet: quiet.length, busy: busy.length },
    p50Ms: { quiet: medianOf(quiet), busy: medianOf(busy) },
    p99Ms: { quiet: p99Of(quiet), busy: p99Of(busy) },
    longestMs: { quiet: Math.max(...quiet), busy: Math.max(...busy) },
  });
  return { goneMs, quiet, busy };
}

/** Sends events at fixed times. Returns for each the time from when it was due to its acknowledgement, in ms. */
async function sendEvents(forMs: number): Promise<number[]> {
  const waits: number[] = [];
  const beganMs = performance.now();
  const sent: Promise<void>[] = [];
  for (let number = 0; number < (forMs / 1_000) * EVENTS_A_SECOND; number++) {
    const dueMs = beganMs + (number * 1_000) / EVENTS_A_SECOND;
    await Bun.sleep(Math.max(0, dueMs - performance.now()));
    sent.push(
      (async () => {
        const response = await fetch(`${service.url}/v1/analytics/log`, {
          method: "POST",
          headers: { "Idempotency-Key": crypto.randomUUID() },
          body: JSON.stringify({ api_key: keys[number % KEYS], event_type: "inference" }),
        });
        waits.push(performance.now() - dueMs);
        expect(response.status).toBe(202);
        await response.arrayBuffer();
      })(),
    );
  }
  await Promise.all(sent);
  return waits;
}

/** Returns PostgreSQL's own count of deleted claims: a scan of the table would write to each of its pages. */
async function countDeleted(): Promise<number> {
  const [row] = await session.sql<{ deleted: number }[]>`
    select n_tup_del as deleted from pg_stat_user_tables where relname = 'claims'`;
  return row?.deleted ?? 0;
}

async function countExpired(): Promise<number> {
  const [row] = await session.sql<{ count: number }[]>`
    select count(*) from claims where claimed_at < now() - interval '29 hours'`;
  return row?.count ?? 0;
}

/** Runs `checkpoint` on its own connection, because it cannot run in a transaction. */
async function checkpoint(): Promise<void> {
  const other = openSession(address, { statementTimeoutMs: 0 });
  await other.connect();
  await other.sql`checkpoint`;
  await other.close();
}

function p99Of(waits: readonly number[]): number {
  return quantile(
    waits.toSorted((a, b) => a - b),
    0.99,
  );
}

function medianOf(waits: readonly number[]): number {
  return quantile(
    waits.toSorted((a, b) => a - b),
    0.5,
  );
}
