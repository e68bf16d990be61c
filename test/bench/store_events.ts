/**
 * Runs PostgreSQL alone, with one client that stores events, one statement after the other.
 *
 * `bun test/bench/store_events.ts DATA_DIR` takes each {@linkcode StoreJob} as a line of JSON on its standard
 * input and prints its result. When its input ends, it stops PostgreSQL and ends.
 */
import { createInterface } from "node:readline";
import { systemClock } from "../../src/base/clock.ts";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { type EmbeddedServer, openEmbedded } from "../../src/database/embedded/mod.ts";
import { openDatabase, toTextArray } from "../../src/database/mod.ts";
import { commitEvents, type UsageEvent } from "../../src/usage/mod.ts";
import { postmasterOf } from "../compiled/executable.ts";
import { MUCH_ROOM } from "../support/events.ts";
import { readCounters } from "./generate_load.ts";
import { EVENT, type LoadResult, type StoreJob } from "./load_job.ts";

const DEADLINE_MS = 5_000;

const [dataDir = ""] = process.argv.slice(2);
const options = { clock: systemClock, log: silentLog };
const server = await openPostgres();
const postmaster = postmasterOf(dataDir);
const database = openDatabase(server.address, { ...options, maxConnections: 1, deadlineMs: DEADLINE_MS });
const keys = await database.query<{ keyUuid: string; licenseUuid: string }>(
  (sql) => sql`select id as "keyUuid", license_id as "licenseUuid" from keys order by id`,
);
const processUuid = newUuid();
let made = 0;

for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => void stop());
for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line) as StoreJob).then(
    (result) => ({ result }),
    (error: unknown) => ({ error: error instanceof Error ? error.message : String(error) }),
  );
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await stop();

async function openPostgres(): Promise<EmbeddedServer> {
  const opened = await openEmbedded({
    ...options,
    dataDir,
    holder: "serve",
    create: false,
    platform: bunPlatform,
  });
  if (isRefusal(opened)) throw new Error(opened.sentence);
  return opened;
}

async function stop() {
  await database.close();
  await server.stop(DEADLINE_MS);
  process.exit(0);
}

async function run({ statement, batch, warmUpMs, ms }: StoreJob): Promise<LoadResult> {
  const store = statement === "rows" ? insertRows : commit;
  let stored = 0;
  let statements = 0;
  const storeFor = async (spanMs: number) => {
    const untilMs = performance.now() + spanMs;
    while (performance.now() < untilMs) {
      // Batch sizes are whole numbers whose mean is `batch`.
      const count = Math.round((statements + 1) * batch) - Math.round(statements * batch);
      await store(Array.from({ length: count }, makeEvent));
      statements++;
      stored += count;
    }
  };
  await storeFor(warmUpMs);
  const before = readCounters({ database: postmaster }, stored);
  await storeFor(ms);
  const measured = readCounters({ database: postmaster }, stored, before);
  const perSecond = measured.requests / measured.seconds;
  return {
    ...measured,
    perSecond,
    p50Ms: Number.NaN,
    p99Ms: Number.NaN,
    lateP99Ms: Number.NaN,
    answered: stored,
  };
}

/** Makes the event that the load sends, with the keys in turn. */
function makeEvent(): UsageEvent {
  const key = keys[made++ % keys.length];
  if (key === undefined) throw new Error("The database has no keys");
  return {
    uuid: newUuid(),
    receivedAtMs: Date.now(),
    occurredAtMs: null,
    ...key,
    type: EVENT.event_type,
    modelName: EVENT.model_name,
    inferenceType: null,
    durationMs: EVENT.duration_ms,
    success: true,
    errorMessage: null,
    metadata: null,
    claim: null,
  };
}

/**
 * Inserts only the rows: the floor. Each array is a query of its own; otherwise PostgreSQL would plan the
 * statement anew each time.
 */
async function insertRows(events: readonly UsageEvent[]) {
  const column = (value: (event: UsageEvent) => string | number | boolean | null) =>
    toTextArray(events.map(value));
  await database.query(
    (sql) => sql`
      insert into events (id, received_at, key_id, license_id, event_type, model_name, duration_ms, success)
      select id, to_timestamp(received_ms / 1000), key_id, license_id, event_type, model_name, duration_ms, success
        from unnest(
          (select ${column((event) => event.uuid)}::uuid[]),
          (select ${column((event) => event.receivedAtMs)}::double precision[]),
          (select ${column((event) => event.keyUuid)}::uuid[]),
          (select ${column((event) => event.licenseUuid)}::uuid[]),
          (select ${column((event) => event.type)}::text[]),
          (select ${column((event) => event.modelName)}::text[]),
          (select ${column((event) => event.durationMs)}::double precision[]),
          (select ${column((event) => event.success)}::boolean[])
        ) as event (id, received_ms, key_id, license_id, event_type, model_name, duration_ms, success)`,
  );
}

/** Runs the service's full statement: quota, rows, changes for other processes. */
async function commit(events: readonly UsageEvent[]) {
  const { grants } = await commitEvents(database, events, {
    processUuid,
    textBounds: MUCH_ROOM,
    deadlineMs: DEADLINE_MS,
  });
  const granted = grants.reduce((sum, grant) => sum + grant.granted, 0);
  if (granted !== events.length) throw new Error(`Of ${events.length} events ${granted} were stored`);
}
