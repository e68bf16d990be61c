/** Says in words which endpoints are slow, since when, and what happened then. */
import { toDay, toTimeOfDay } from "../../base/calendar.ts";
import { renderCount } from "../../base/render_count.ts";
import type { Database } from "../../database/mod.ts";
import type { Finding } from "../../installation/doctor/mod.ts";
import { findSlowEndpoints, type SlowEndpoint, STEP_MS } from "../../usage/latency/mod.ts";
import { nameOfEndpoint } from "../../wire/mod.ts";
import { inMs } from "./in_ms.ts";
import { pathTo } from "./latency_table.tsx";
import { findMarks, type HealthMark } from "./marks.ts";

/** Something that happened is named with a slow time if no more lies between them. */
const NEAR_MS = 600_000;

/** A slow endpoint, as a sentence without a period that begins with a small letter. */
export interface Slow {
  readonly endpoint: string;
  readonly says: string;
}

/** Finds the endpoints that are slow now. What happened is read only if there are any. */
export async function findSlow(database: Database, now: Date): Promise<readonly Slow[]> {
  const found = await findSlowEndpoints(database, now);
  const times = found.map(({ since }) => since.getTime());
  if (times.length === 0) return [];
  const marks = await findMarks(database, {
    from: new Date(Math.min(...times) - NEAR_MS),
    to: new Date(Math.max(...times) + STEP_MS + NEAR_MS),
  });
  return describeSlow(found, marks, now);
}

/** Returns a sentence for each slow endpoint, with what happened within ten minutes of its first slow five minutes. */
export function describeSlow(
  found: readonly SlowEndpoint[],
  marks: readonly HealthMark[],
  now: Date,
): readonly Slow[] {
  return found.map(({ endpoint, since, share, nowMs, beforeMs }) => {
    const factor = renderCount(Number((nowMs / beforeMs).toPrecision(2)));
    const times = `${share} within ${inText(nowMs)}, before within ${inText(beforeMs)}`;
    const [near] = marks
      .map((mark) => ({ ...mark, awayMs: distanceOf(mark.at, since) }))
      .filter(({ awayMs }) => awayMs <= NEAR_MS)
      .toSorted(
        // Processes are started after each other, and only the first is of another version than the one before.
        (one, other) =>
          Number(other.kind === "deploy") - Number(one.kind === "deploy") || one.awayMs - other.awayMs,
      );
    const happened = near ? `; at ${timeOf(near.at, now)} ${near.says}` : "";
    const says = `${nameOfEndpoint(endpoint)} have taken ${factor} times as long since ${timeOf(since, now)} (${times}${happened})`;
    return { endpoint, says };
  });
}

/** Returns the address of the page Latency that shows what is slow; undefined if nothing is. */
export function pathToSlow(slow: readonly Slow[]): string | undefined {
  const [one, ...others] = slow;
  return one && pathTo(others.length === 0 ? { endpoint: one.endpoint } : {});
}

/** Returns the finding of each slow endpoint, as the checks of the installation have theirs. */
export function findingsOf(slow: readonly Slow[]): readonly Finding[] {
  return slow.map(({ says }) => ({
    name: "latency",
    state: "warn",
    message: says,
    remedy: "open the page Latency: it shows what happened then and which keys were refused",
  }));
}

/** Renders a time for programs, too, with a plain space. */
function inText(ms: number): string {
  return inMs(ms).replace("\u00a0", " ");
}

/** How long an instant is before or after five minutes; 0 within them. */
function distanceOf(at: Date, stepAt: Date): number {
  const fromMs = at.getTime() - stepAt.getTime();
  return Math.max(0, -fromMs, fromMs - STEP_MS);
}

/** Renders the time of an instant, with its day if that is not today: `13:20`. */
function timeOf(at: Date, now: Date): string {
  const time = toTimeOfDay(at);
  return toDay(at) === toDay(now) ? time : `${time} of ${toDay(at)}`;
}
