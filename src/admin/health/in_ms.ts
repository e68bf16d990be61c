import { renderCount } from "../../base/render_count.ts";

/** Renders a time in two digits: a latency is known by buckets, of which each ends at about twice the one before. */
export function inMs(ms: number): string {
  return `${renderCount(Number(ms.toPrecision(2)))}\u00a0ms`;
}
