/**
 * What a batch of 1,000 events costs the service and its PostgreSQL, as a share of what 1,000 single events cost: of those that
 * a client sends one after the other, at most a quarter of the CPU time. Of single events that come many at once the share is
 * larger, because the service commits these together, too. All events have keys, and the forms are measured in turn.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { DAY_MS } from "../../src/base/calendar.ts";
import { newUuid } from "../../src/base/ids.ts";
import { cpuSecondsOf, cpuSecondsOfTree } from "../bench/process_times.ts";
import { median, ratios } from "../bench/statistics.ts";
import { createInstallation, type Replica } from "../several_processes/installation.ts";
import { issue } from "../support/issue.ts";
import { useForAll } from "../support/use.ts";

// Runs alone: it judges a time.

const EVENTS = 1_000;
const MINUTE_MS = 60_000;
const ROUNDS = Number(process.env.BATCH_ROUNDS ?? 5);
/** The most that a batch may cost of the CPU time of single events, by the way in which these are sent. */
const MOST = { "one by one": 1 / 4, "16 at once": 1 / 2, "64 at once": 4 / 5 };
/** The CPU time is counted in steps of 10 ms. */
const TIMES = 4;

const installation = useForAll(createInstallation);

interface Cost {
  readonly cpuMs: number;
  /** Of it, that of the service without its PostgreSQL. */
  readonly serviceMs: number;
  readonly wallMs: number;
}

/** Returns the process of PostgreSQL that has the given connection as its child. */
async function findPostmaster(): Promise<number> {
  const [row] = await installation.database.query<{ pid: number }>(
    (sql) => sql`select pg_backend_pid() as pid`,
  );
  const [, parent] = /\) \S+ (\d+) /.exec(readFileSync(`/proc/${row?.pid}/stat`, "utf8")) ?? [];
  return Number(parent);
}

async function send({ url }: Replica, path: string, fields: object, headers = {}): Promise<unknown> {
  const response = await fetch(url + path, { method: "POST", body: JSON.stringify(fields), headers });
  expect(response.ok).toBe(true);
  return await response.json();
}

test(`a batch of ${EVENTS} events costs at most a quarter of ${EVENTS} events that are sent one by one`, async () => {
  const replica = await installation.serve();
  const postmaster = await findPostmaster();
  const { apiKey } = await issue(installation.database, { tier: "enterprise" });
  const event = { event_type: "inference", model_name: "p300_binary_v1", duration_ms: 12.5 };

  /** Sends events over the given time before now, all in one batch. */
  async function sendBatch(overMs: number): Promise<void> {
    const nowMs = Date.now();
    const events = Array.from({ length: EVENTS }, (_, index) => ({
      ...event,
      idempotency_key: newUuid(),
      occurred_at: new Date(nowMs - (overMs * index) / EVENTS).toISOString(),
    }));
    const answer = await send(replica, "/v1/analytics/batch", { api_key: apiKey, events });
    const { results } = answer as { readonly results: readonly { readonly logged: boolean }[] };
    expect(results.filter(({ logged }) => logged)).toHaveLength(EVENTS);
  }

  async function sendSingles(atOnce: number): Promise<void> {
    let left = EVENTS;
    const sendNext = async () => {
      while (left-- > 0) {
        const headers = { "Idempotency-Key": newUuid() };
        await send(replica, "/v1/analytics/log", { api_key: apiKey, ...event }, headers);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, sendNext));
  }

  async function measure(work: () => Promise<void>): Promise<Cost> {
    const read = () => [cpuSecondsOf(replica.pid), cpuSecondsOfTree(postmaster)] as const;
    const [[service, database], beganMs] = [read(), performance.now()];
    for (let times = 0; times < TIMES; times++) await work();
    const wallMs = (performance.now() - beganMs) / TIMES;
    const [serviceMs, databaseMs] = [read()[0] - service, read()[1] - database].map(
      (seconds) => (seconds * 1_000) / TIMES,
    ) as [number, number];
    return { cpuMs: serviceMs + databaseMs, serviceMs, wallMs };
  }

  const forms = {
    "64 at once": () => sendSingles(64),
    "16 at once": () => sendSingles(16),
    "one by one": () => sendSingles(1),
    batch: () => sendBatch(MINUTE_MS),
    week: () => sendBatch(7 * DAY_MS - MINUTE_MS),
  };
  const costs: Record<string, Cost[]> = {};
  // The first rounds compile the code.
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, work] of Object.entries(forms)) {
      const cost = await measure(work);
      if (round >= 0) costs[name] = [...(costs[name] ?? []), cost];
    }
  }
  const of = (name: string, what: keyof Cost) => (costs[name] ?? []).map((cost) => cost[what]);
  const ratioOf = (name: string, other: string, what: keyof Cost) =>
    median(ratios(of(name, what), of(other, what)));
  for (const name of Object.keys(forms)) {
    const text = (what: keyof Cost) => `${median(of(name, what)).toFixed(0)} ms`;
    console.log(
      `${EVENTS} events, ${name.padEnd(10)}: CPU ${text("cpuMs")}, of it the service ${text("serviceMs")}; time ${text("wallMs")}`,
    );
  }
  for (const name of ["batch", "week"]) {
    for (const other of Object.keys(MOST)) {
      const [cpu, wall] = [ratioOf(name, other, "cpuMs"), ratioOf(name, other, "wallMs")];
      console.log(
        `"${name}" takes ${cpu.toFixed(3)} of the CPU time and ${wall.toFixed(3)} of the time of "${other}"`,
      );
    }
  }
  for (const name of ["batch", "week"])
    for (const [other, most] of Object.entries(MOST)) {
      expect([name, other, ratioOf(name, other, "cpuMs") <= most]).toEqual([name, other, true]);
    }
});
