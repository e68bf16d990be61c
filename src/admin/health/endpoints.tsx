/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { HOUR_MS, toTimeOfDay } from "../../base/calendar.ts";
import { renderCount } from "../../base/render_count.ts";
import { completeQuery, goBack, type HourOfEndpoint, stepsOf } from "../../usage/activity/mod.ts";
import { nameOfEndpoint } from "../../wire/mod.ts";
import { Steps } from "../frame/console/components/chart_parts.tsx";
import { Bars } from "../frame/console/components/charts.tsx";
import { numeric, Table } from "../frame/console/components/table.tsx";

/** The condition that names an endpoint. */
export const ENDPOINT = v.optional(
  v.pipe(v.string(), v.regex(/^[a-z_]{1,40}$/, "must be the name of an endpoint")),
);

/** The hours of the day before, and one more in place of the present hour, which is not over. */
export const HOURS_BEFORE = 25;

interface EndpointsProps {
  /** Of the last day, and of {@linkcode HOURS_BEFORE} hours before. */
  readonly found: readonly HourOfEndpoint[];
  /** Before it nothing was counted; undefined if nothing ever was. */
  readonly firstHour: Date | undefined;
  /** The endpoint of the chart; undefined for all of them. */
  readonly endpoint: string | undefined;
  readonly now: Date;
}

/** The requests of the last day: a chart by hour, of all endpoints or of one, and the endpoints with their sums. */
export function Endpoints({ found, firstHour, endpoint, now }: EndpointsProps) {
  const day = completeQuery({}, now);
  const shown = found.filter(({ at }) => at >= day.from);
  if (shown.length === 0) return <p class="muted">No request was counted in the last day.</p>;
  const columnsOf = (rows: readonly HourOfEndpoint[], from = day.from) =>
    stepsOf({ ...day, from }).map((at) => {
      const { requests, refused, failed } = sumOf(rows.filter((row) => row.at.getTime() === at.getTime()));
      return {
        label: toTimeOfDay(at),
        values: [requests - refused - failed, refused, failed],
        isOpen: now.getTime() - at.getTime() < HOUR_MS,
      };
    });
  const endpoints = [...Map.groupBy(shown, (row) => row.endpoint)]
    .map(([name, rows]) => ({ name, rows, ...sumOf(rows) }))
    .sort((one, other) => other.requests - one.requests);
  const start = goBack(day.from, "hour", HOURS_BEFORE);
  const columns = columnsOf(
    found.filter((row) => endpoint === undefined || row.endpoint === endpoint),
    start,
  );
  const isComparable = firstHour !== undefined && firstHour <= start;
  return (
    <>
      <Bars
        caption={`Requests by hour, ${endpoint === undefined ? "all endpoints" : nameOfEndpoint(endpoint)}`}
        columnName="Hour"
        parts={["without an error", "refused", "failed"]}
        series={columns.slice(HOURS_BEFORE)}
        unit="requests"
        compared={isComparable ? { columns: columns.slice(0, -1), than: "the 24 hours before" } : undefined}
        empty="This endpoint had no request in the last day."
      />
      <Table
        caption="Each endpoint links to its chart. A request failed if the fault was that of the service, not of the client"
        columns={[
          {
            label: "Endpoint",
            cell: ({ name }) => (
              <a href={`/console/health?endpoint=${name}#requests`}>{nameOfEndpoint(name)}</a>
            ),
          },
          numeric("Requests", ({ requests }) => renderCount(requests)),
          numeric("Refused", ({ refused }) => renderCount(refused)),
          numeric("Failed", ({ failed }) => renderCount(failed)),
          { label: "By hours that are over", cell: ({ rows }) => <Line columns={columnsOf(rows)} /> },
        ]}
        rows={endpoints}
      />
      <p class="actions">
        {endpoint !== undefined && <a href="/console/health#requests">Show all endpoints</a>}
        <a href="/console/activity?by=endpoint">Show activity by endpoint</a>
        <a href="/console/health/latency">Show how long answers took</a>
      </p>
    </>
  );
}

function sumOf(rows: readonly HourOfEndpoint[]) {
  const sum = (of: "requests" | "refused" | "failed") => rows.reduce((all, row) => all + row[of], 0);
  return { requests: sum("requests"), refused: sum("refused"), failed: sum("failed") };
}

interface LineProps {
  readonly columns: readonly {
    readonly label: string;
    readonly values: readonly number[];
    readonly isOpen: boolean;
  }[];
}

/**
 * A small chart without an axis: all requests of each hour, and in front those that were refused or failed. It is too small for
 * a hatch, so the hour that is not over is left out.
 */
function Line({ columns: all }: LineProps) {
  const columns = all.filter(({ isOpen }) => !isOpen);
  const sums = columns.map(({ values: [good = 0, refused = 0, failed = 0] }) => [
    good + refused + failed,
    refused + failed,
    failed,
  ]);
  const counts = sums.map(([all = 0]) => all);
  const most = Math.max(...counts);
  if (most <= 0) return <span class="muted">none</span>;
  return (
    <svg
      class="line"
      viewBox={`0 0 ${columns.length} 20`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Most at ${columns[counts.indexOf(most)]?.label}: ${renderCount(most)}`}
    >
      {[0, 1, 2].map((part) => (
        <Steps part={part} shares={sums.map((of) => (of[part] ?? 0) / most)} height={20} />
      ))}
    </svg>
  );
}
