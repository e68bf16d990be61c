/** @jsxImportSource hono/jsx */
/** The columns that tables of latencies share, and the addresses to which they lead. */
import { toTimestamp } from "../../base/calendar.ts";
import { renderCount } from "../../base/render_count.ts";
import type { LatencyStep, Measured } from "../../usage/latency/mod.ts";
import { type Column, numeric } from "../frame/console/components/table.tsx";
import { Minute, NONE } from "../frame/console/components/values.tsx";
import { inMs } from "./in_ms.ts";
import type { HealthMark } from "./marks.ts";

/** The address of the page, of one endpoint or of five minutes. */
export function pathTo(asked: { endpoint?: string | undefined; to?: Date | undefined; at?: Date }): string {
  const fields = Object.entries(asked).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, value instanceof Date ? toTimestamp(value) : value]],
  );
  const query = new URLSearchParams(fields);
  return `/console/health/latency${query.size > 0 ? `?${query}` : ""}`;
}

interface Target {
  /** The part of the page to which a row leads. */
  readonly hash: "point" | "hour";
  readonly atOf: (at: Date) => Date;
}

/** The columns of a table whose rows are times of an endpoint; each leads to five minutes, by default its own. */
export function linked(
  endpoint: string,
  to: Date | undefined,
  { hash, atOf }: Target = { hash: "point", atOf: (at) => at },
): readonly Column<LatencyStep>[] {
  return [
    {
      label: "From",
      cell: ({ at }) => (
        <a href={`${pathTo({ endpoint, to, at: atOf(at) })}#${hash}`}>
          <Minute at={at} />
        </a>
      ),
    },
    ...measuredColumns<LatencyStep>((step) => step),
  ];
}

/** The columns that all tables of requests share. */
export function measuredColumns<Row>(of: (row: Row) => Measured): readonly Column<Row>[] {
  return [
    numeric("Requests", (row) => renderCount(of(row).requests)),
    { ...numeric<Row>("Refused", (row) => renderCount(of(row).refused)), needs: "middle" },
    numeric("Failed", (row) => renderCount(of(row).failed)),
    { ...numeric<Row>("Half within", (row) => inMsOrNone(of(row).p50Ms)), needs: "middle" },
    numeric("95 % within", (row) => inMsOrNone(of(row).p95Ms)),
    numeric("99 % within", (row) => inMsOrNone(of(row).p99Ms)),
  ];
}

/** The columns of a table of what happened. */
export const MARK_COLUMNS: readonly Column<HealthMark>[] = [
  { label: "Time", cell: ({ at }) => <Minute at={at} /> },
  { label: "What", cell: ({ says }) => says },
];

/** Says that nothing is known of a time. */
export function describeNoMarks(time: string): string {
  return `No start, failover or backup is known of ${time}.`;
}

export const inMsOrNone = (ms: number | null) => (ms === null ? NONE : inMs(ms));
