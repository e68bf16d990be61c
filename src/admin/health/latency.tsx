/** @jsxImportSource hono/jsx */
import { HOUR_MS } from "../../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { COUNTS_RULE } from "../../database/mod.ts";
import {
  completeLatencyQuery,
  type EndpointLatency,
  findLatency,
  LATENCY_CONDITIONS,
  LATENCY_KEPT_HOURS,
  type LatencyQuery,
  latencyStepsOf,
  slowEndpointsOf,
  slowerFactorOf,
  WORST_FIRST,
} from "../../usage/latency/mod.ts";
import { nameOfEndpoint } from "../../wire/mod.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { Numbers } from "../frame/console/components/chart_parts.tsx";
import { numeric, Table } from "../frame/console/components/table.tsx";
import { Minute, Pill } from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { ENDPOINT } from "./endpoints.tsx";
import {
  indexOf,
  LatencyChart,
  type LatencyTimes,
  type NumberedMark,
  ofTime,
  powersFor,
} from "./latency_chart.tsx";
import { findPoint, Point } from "./latency_point.tsx";
import {
  describeNoMarks,
  inMsOrNone,
  linked,
  MARK_COLUMNS,
  measuredColumns,
  pathTo,
} from "./latency_table.tsx";
import { findMarks, UNKNOWN_MARKS } from "./marks.ts";
import { SlowNotice } from "./show_slow.tsx";
import { describeSlow } from "./slow.ts";

const { to } = LATENCY_CONDITIONS;
const CONDITIONS = {
  ...conditionFields({ to, at: { ...to, says: "a time in the five minutes to explain" } }),
  endpoint: ENDPOINT,
};

/** How long the requests of each endpoint took, the worst first; or one endpoint, and five minutes of it. */
export async function latencyPage({ options, query: sent, now }: Visit): Promise<Page | Refusal> {
  const { values } = readConditions(sent, CONDITIONS);
  if (isRefusal(values)) return values;
  if (values.at && !isKept(values.at, now)) return REFUSED_AT;
  const isLatest = values.to === undefined || values.to >= now;
  const span = completeLatencyQuery({ to: isLatest ? now : values.to }, now);
  const [endpoints, found, point] = await Promise.all([
    findLatency(options.database, { ...span, endpoint: values.endpoint }),
    findMarks(options.database, span),
    values.endpoint && values.at
      ? findPoint(options.database, { endpoint: values.endpoint, at: values.at, now })
      : undefined,
  ]);
  if (isRefusal(endpoints)) return endpoints;
  const to = isLatest ? undefined : span.to;
  const times: LatencyTimes = {
    steps: latencyStepsOf(span),
    marks: found.map((mark, index) => ({ ...mark, number: index + 1 })),
    powers: powersFor(endpoints),
    to,
    now,
  };
  const slow = describeSlow(slowEndpointsOf(endpoints, span.to), found, span.to);
  return {
    title: values.endpoint ? `Latency of ${nameOfEndpoint(values.endpoint)}` : "Latency",
    // A page that explains five minutes does not change.
    ...(isLatest && point === undefined && { script: "refresh" }),
    body: (
      <>
        <SlowNotice slow={slow} to={to} isOne={values.endpoint !== undefined} />
        {point && <Point {...point} to={to} />}
        {point && (
          <h2>
            {to === undefined ? (
              "The last 24 hours"
            ) : (
              <>
                The 24 hours until <Minute at={to} />
              </>
            )}
          </h2>
        )}
        {values.endpoint === undefined ? (
          <AllEndpoints endpoints={endpoints} times={times} />
        ) : (
          <OneEndpoint found={endpoints[0]} name={values.endpoint} times={times} />
        )}
        <Happened {...times} />
        <Times span={span} endpoint={values.endpoint} isLatest={isLatest} now={now} />
        <p class="hint">
          {`Over all processes. ${COUNTS_RULE} Counts are kept ${LATENCY_KEPT_HOURS} hours. The lower line leaves out the five minutes that are not over. A time lies within a bucket of the histogram, so it is not exact, and above 5 s nothing more is known.`}
        </p>
      </>
    ),
  };
}

/** Tells whether the counts of an instant can still be there. */
function isKept(at: Date, now: Date): boolean {
  return at <= now && now.getTime() - at.getTime() <= LATENCY_KEPT_HOURS * HOUR_MS;
}

const NOT_KEPT = `at must be within the last ${LATENCY_KEPT_HOURS} hours`;
const REFUSED_AT = refuse("INVALID_REQUEST", `Nothing is shown: ${NOT_KEPT}`, {
  fields: [{ field: "at", error: NOT_KEPT }],
});

interface AllEndpointsProps {
  readonly endpoints: readonly EndpointLatency[];
  readonly times: LatencyTimes;
}

function AllEndpoints({ endpoints, times }: AllEndpointsProps) {
  const { to } = times;
  if (endpoints.length === 0)
    return (
      <p class="empty">
        No request was counted in this time. A request of a client appears about a minute after its answer.
      </p>
    );
  return (
    <>
      <Table
        caption={`The last hour${ofTime(to)}. ${WORST_FIRST}`}
        columns={[
          {
            label: "Endpoint",
            cell: ({ endpoint }) => <a href={pathTo({ endpoint, to })}>{nameOfEndpoint(endpoint)}</a>,
          },
          { label: "State", cell: stateOf },
          ...measuredColumns<EndpointLatency>(({ lastHour }) => lastHour),
          numeric("95 % in the 24 hours before", ({ dayBefore }) => inMsOrNone(dayBefore.p95Ms)),
        ]}
        rows={endpoints}
      />
      {endpoints.map((endpoint, index) => (
        <LatencyChart
          {...times}
          hasLegend={index === 0}
          endpoint={endpoint}
          caption={
            <a href={pathTo({ endpoint: endpoint.endpoint, to })}>{nameOfEndpoint(endpoint.endpoint)}</a>
          }
        />
      ))}
    </>
  );
}

function stateOf(endpoint: EndpointLatency) {
  const factor = slowerFactorOf(endpoint);
  const { failed } = endpoint.lastHour;
  return (
    <>
      {factor > 1 && (
        <Pill tone="warning">{`${renderCount(Number(factor.toPrecision(2)))} times as long`}</Pill>
      )}{" "}
      {failed > 0 && <Pill tone="bad">failures</Pill>}
      {factor === 1 && failed === 0 && <Pill tone="good">not slower</Pill>}
    </>
  );
}

/** How many of the slowest five minutes are named. */
const MOST_SLOWEST = 5;

interface OneEndpointProps {
  readonly found: EndpointLatency | undefined;
  readonly name: string;
  readonly times: LatencyTimes;
}

/** The chart of an endpoint with its values, its hours in a table, and its slowest five minutes. */
function OneEndpoint({ found, name, times }: OneEndpointProps) {
  const { to } = times;
  const all = (
    <p class="actions">
      <a href={pathTo({ to })}>Show all endpoints</a>
    </p>
  );
  if (found === undefined)
    return (
      <>
        <p class="empty">This endpoint had no request in this time.</p>
        {all}
      </>
    );
  const slowest = found.steps.toSorted((one, other) => (other.p95Ms ?? 0) - (one.p95Ms ?? 0));
  return (
    <>
      <LatencyChart {...times} endpoint={found} caption={nameOfEndpoint(name)} hasValues>
        <Numbers caption={nameOfEndpoint(name)}>
          <Table
            caption="By hour; each hour leads to its five minutes, and those to their errors and refused keys"
            // The first five minutes of the hour that had a request: its beginning may lie before this time.
            columns={linked(name, to, { hash: "hour", atOf: (hour) => firstOf(hour, found.steps) })}
            rows={found.hours.toReversed()}
            stays="matrix"
          />
        </Numbers>
      </LatencyChart>
      <Table
        caption="The slowest five minutes; each leads to its errors and refused keys"
        columns={linked(name, to)}
        rows={slowest.slice(0, MOST_SLOWEST)}
      />
      {all}
    </>
  );
}

/** Returns the first five minutes of an hour. */
function firstOf(hour: Date, steps: EndpointLatency["steps"]): Date {
  return steps.find(({ at }) => at >= hour)?.at ?? hour;
}

/** What happened to the installation. */
function Happened({ steps, marks }: LatencyTimes) {
  return (
    <>
      <h2>What happened</h2>
      <Table
        caption={`The numbers stand in the charts. ${UNKNOWN_MARKS}`}
        columns={[{ label: "Number", cell: ({ number }: NumberedMark) => number }, ...MARK_COLUMNS]}
        rows={marks.filter(({ at }) => indexOf(at, steps) !== -1).toReversed()}
        none={<p class="muted">{`${describeNoMarks("this time")} ${UNKNOWN_MARKS}.`}</p>}
      />
    </>
  );
}

interface TimesProps {
  readonly span: LatencyQuery;
  readonly endpoint: string | undefined;
  readonly isLatest: boolean;
  readonly now: Date;
}

/** Links to the time before and to now. */
function Times({ span, endpoint, isLatest, now }: TimesProps) {
  const isKept = now.getTime() - span.from.getTime() < LATENCY_KEPT_HOURS * HOUR_MS;
  return (
    <nav class="pages" aria-label="Times">
      {isKept && <a href={pathTo({ endpoint, to: span.from })}>Earlier</a>}
      {!isLatest && <a href={pathTo({ endpoint })}>Latest</a>}
    </nav>
  );
}
