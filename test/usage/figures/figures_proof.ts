/**
 * Tests every number on the pages Overview, Usage and Activity, in the API and in the metrics. It equals a count with
 * SQL over the base tables, or, for the activity, the answers that the clients got. The load lasts hours over two ends
 * of months, by a clock that the test moves. `PROOF_REQUESTS=10000` makes the load forty times as heavy.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { countUse } from "../../../src/usage/mod.ts";
import { until } from "../../support/until.ts";
import { compareActivity, compareCounters } from "./compare_activity.ts";
import { compareDays, compareFigures, compareUsage } from "./compare_figures.ts";
import { createShown, type Shown } from "./shown_figures.ts";
import { type SimulatedDays, simulateDays } from "./simulated_days.ts";

// Runs alone: both services must have read the clock that the test moves before the next requests come.

/** Requests to each service in each hour with load. */
const REQUESTS = Number(process.env.PROOF_REQUESTS ?? 250);

let seed = 17;
const random = (below: number) => {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed % below;
};

let days: SimulatedDays;
let shown: Shown;
/** How many hours were marked as unusual. */
let unusual = 0;
beforeAll(async () => {
  days = await simulateDays("2026-10-31T21:05:00Z", random);
  shown = await createShown(days);
});
afterAll(async () => {
  await shown.commands.close();
  await days.close();
});

const count = () => countUse(days.on.database, { clock: days.clock, isStopping: () => false });

/** The refusals that the load must have. */
const REASONS = ["", "expired", "revoked", "suspended", "unknown"];
const CODES = ["INVALID_KEY", "KEY_NOT_FOUND", "MISSING_KEY", "QUOTA_EXCEEDED", "RATE_LIMIT_EXCEEDED"];

/** When load comes, and what else happens then. Tiers change before and after the end of a day. */
const HOURS: readonly { at: string; first?: () => Promise<void>; last?: () => Promise<void> }[] = [
  { at: "2026-10-31T21:10:00Z", first: () => days.importUse(5), last: count },
  { at: "2026-10-31T23:57:00Z", last: () => days.changeTiers(20) },
  { at: "2026-11-01T00:00:10Z", first: () => days.changeTiers(20), last: count },
  { at: "2026-11-01T09:05:00Z", last: compareAll },
  // Nobody has counted since then: the days before must keep their tiers.
  { at: "2026-11-28T10:05:00Z", first: () => days.changeTiers(20) },
  { at: "2026-11-28T23:05:00Z", last: count },
  { at: "2026-11-29T00:05:00Z", last: count },
  { at: "2026-11-29T10:05:00Z", last: compareAll },
  { at: "2026-11-29T23:57:00Z", last: () => days.changeTiers(20) },
  { at: "2026-11-30T00:00:10Z", first: () => days.changeTiers(20), last: count },
  { at: "2026-11-30T10:05:00Z", first: () => days.importUse(6), last: count },
  { at: "2026-11-30T13:05:00Z", first: () => days.changeTiers(10) },
  { at: "2026-11-30T23:57:00Z", last: () => days.changeTiers(20) },
  { at: "2026-12-01T00:00:10Z", last: compareAll },
  { at: "2026-12-01T05:05:00Z", first: () => days.importUse(3) },
  { at: "2026-12-01T10:05:00Z", first: () => days.changeTiers(10), last: count },
  { at: "2026-12-01T22:05:00Z" },
  { at: "2026-12-02T00:02:00Z", last: count },
  { at: "2026-12-02T10:05:00Z" },
];

test("every figure equals SQL over the base tables, during and after hours of load over two ends of months", async () => {
  for (const { at, first, last } of HOURS) {
    await days.moveTo(at);
    await first?.();
    await days.load(REQUESTS);
    await last?.();
  }
  await compareAll();
  expect(unusual).toBeGreaterThan(0);
  const answers = days.answers();
  expect([...new Set(answers.map(({ reason }) => reason))].sort()).toEqual(REASONS);
  for (const code of CODES) expect(answers.map((answer) => answer.code)).toContain(code);
});

async function compareAll(): Promise<void> {
  await settle();
  expect(await shown.counts.wrongDays()).toEqual([]);
  await compareFigures(shown);
  await compareUsage(shown);
  await compareDays(shown);
  unusual += await compareActivity(shown);
  await compareCounters(shown);
}

/** Lets a minute pass, and waits until everything before is counted. */
async function settle(): Promise<void> {
  await days.advance(70_000);
  await days.settleActivity();
  const today = days.clock.now().toISOString().slice(0, 10);
  const countedMs = days.clock.nowMs() - 20_000;
  const isCounted = async () => {
    // The service may be counting.
    await count();
    const { as_of, exact_until } = await shown.callApi("/usage/daily");
    return Date.parse(as_of) >= countedMs && exact_until === today;
  };
  await until(isCounted, { limitMs: 60_000 });
}
