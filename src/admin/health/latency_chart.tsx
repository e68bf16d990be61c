/** @jsxImportSource hono/jsx */
/**
 * The chart of an endpoint: within which time half, 95 % and 99 % of its requests were answered, and how many there were, by
 * five minutes. Every chart of a page has the same scale, of which each line is ten times the one below: so endpoints can be
 * compared, and one slow answer does not hide all others.
 */
import type { Child } from "hono/jsx";
import { toTimeOfDay } from "../../base/calendar.ts";
import { renderCount } from "../../base/render_count.ts";
import { type EndpointLatency, type LatencyStep, STEP_MS } from "../../usage/latency/mod.ts";
import { nameOfEndpoint } from "../../wire/mod.ts";
import { Below, Legend, percent, Steps, Values } from "../frame/console/components/chart_parts.tsx";
import { toShort } from "../frame/console/components/scale.ts";
import { inMs } from "./in_ms.ts";
import type { HealthMark } from "./marks.ts";

/** A mark with the number that the chart shows at its line. */
export interface NumberedMark extends HealthMark {
  readonly number: number;
}

/** The times of a page and what happened, which all its charts share. */
export interface LatencyTimes {
  /** The five minutes, the earliest first. */
  readonly steps: readonly Date[];
  readonly marks: readonly NumberedMark[];
  /** The powers of ten that the scale has above {@linkcode LOWEST_MS}. */
  readonly powers: number;
  /** The end of the time; undefined for the latest. */
  readonly to: Date | undefined;
  readonly now: Date;
}

const LOWEST_MS = 0.1;
const PARTS = ["half", "95 %", "99 %", "requests, below", "of them refused or failed"];

/** Returns the powers of ten of a scale that has room for all endpoints. */
export function powersFor(endpoints: readonly EndpointLatency[]): number {
  const highest = Math.max(1, ...endpoints.flatMap(({ steps }) => steps.map(({ p99Ms }) => p99Ms ?? 0)));
  return Math.ceil(Math.log10(highest / LOWEST_MS));
}

interface LatencyChartProps extends LatencyTimes {
  readonly endpoint: EndpointLatency;
  readonly caption: Child;
  /** False if an earlier chart of the page has the legend. */
  readonly hasLegend?: boolean;
  /** True if the chart has its values at the pointer and the keyboard. */
  readonly hasValues?: boolean;
  readonly children?: Child;
}

export function LatencyChart(props: LatencyChartProps) {
  const { endpoint, caption, hasLegend = true, hasValues = false, children, ...times } = props;
  const { steps, powers } = times;
  const byTime = new Map(endpoint.steps.map((step) => [step.at.getTime(), step]));
  const columns = steps.map((at) => byTime.get(at.getTime()));
  const shares = (of: "p50Ms" | "p95Ms" | "p99Ms") =>
    columns.map((step) => (step === undefined ? 0 : shareOf(step[of] ?? 0, powers)));
  const name = `Time until the answer, ${nameOfEndpoint(endpoint.endpoint)}`;
  return (
    <figure class="chart latency">
      <figcaption>{caption}</figcaption>
      <p>{describeLatency(endpoint, times)}</p>
      {hasLegend && <Legend parts={PARTS} />}
      <div class="plot">
        <div class="ticks" aria-hidden="true">
          {Array.from({ length: powers + 1 }, (_, below) => (
            <span>{labelOf(LOWEST_MS * 10 ** (powers - below))}</span>
          ))}
        </div>
        <svg role="img" aria-label={`${name}: ${describeLatency(endpoint, times)}`}>
          {Array.from({ length: powers + 1 }, (_, power) => {
            const y = percent(100 - (power * 100) / powers);
            return <line class="grid" x2="100%" y1={y} y2={y} />;
          })}
          <svg
            class="steps"
            aria-hidden="true"
            viewBox={`0 0 ${steps.length} 100`}
            preserveAspectRatio="none"
          >
            <Steps part={2} shares={shares("p99Ms")} height={100} />
            <Steps part={1} shares={shares("p95Ms")} height={100} />
            <Steps part={0} shares={shares("p50Ms")} height={100} />
          </svg>
          <Marks {...times} />
          <Below>
            <Hours steps={steps} />
          </Below>
        </svg>
        {hasValues && (
          <Values caption={name} texts={columns.map((step, index) => describeStep(step, times, index))} />
        )}
        <Requests
          columns={columns.filter((step) => step === undefined || !isOpen(step.at, times.now))}
          width={columns.length}
        />
      </div>
      {children}
    </figure>
  );
}

/** Tells whether five minutes are not over, so that their requests will grow. */
export function isOpen(at: Date, now: Date): boolean {
  return now.getTime() - at.getTime() < STEP_MS;
}

interface RequestsProps {
  /** The five minutes that are over. */
  readonly columns: readonly (LatencyStep | undefined)[];
  /** All five minutes of the chart above. */
  readonly width: number;
}

/** The requests below the chart, and in front those that were refused or failed. */
function Requests({ columns, width }: RequestsProps) {
  const requests = columns.map((step) => step?.requests ?? 0);
  const most = Math.max(1, ...requests);
  const errors = columns.map((step) => (step ? step.refused + step.failed : 0));
  return (
    <>
      <span class="most" aria-hidden="true">
        {toShort(most)}
      </span>
      <svg
        class="line"
        viewBox={`0 0 ${width} 20`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`At most ${renderCount(most)} requests in five minutes`}
      >
        <Steps part={3} shares={requests.map((count) => count / most)} height={20} />
        <Steps part={4} shares={errors.map((count) => count / most)} height={20} />
      </svg>
    </>
  );
}

/** Lines of marks that are closer together than this share of the width have one number. */
const LEAST_DISTANCE = 0.04;

/** A line for each mark, with its number where there is room. */
function Marks({ steps, marks }: Pick<LatencyTimes, "steps" | "marks">) {
  let last = Number.NEGATIVE_INFINITY;
  return marks.map(({ at, number }) => {
    const index = indexOf(at, steps);
    if (index === -1) return null;
    const share = (index + 0.5) / steps.length;
    const x = percent(share * 100);
    const hasRoom = share - last >= LEAST_DISTANCE;
    if (hasRoom) last = share;
    return (
      <>
        <line class="limit" x1={x} x2={x} y1="0" y2="100%" />
        {hasRoom && (
          <text class="narrow middle wide" x={x} y="0" dy="-0.3em" text-anchor="middle">
            {number}
          </text>
        )}
      </>
    );
  });
}

/** For each width of a chart, the hours between its labels. */
const HOURS = { narrow: 6, middle: 3, wide: 2 } as const;
/** A label that is closer to a side would leave the chart. */
const LEAST_MARGIN = 0.03;

/** The labels of whole hours. */
function Hours({ steps }: Pick<LatencyTimes, "steps">) {
  return steps.map((at, index) => {
    const share = index / steps.length;
    if (at.getUTCMinutes() > 0 || share < LEAST_MARGIN || share > 1 - LEAST_MARGIN) return null;
    const widths = Object.entries(HOURS).filter(([, hours]) => at.getUTCHours() % hours === 0);
    if (widths.length === 0) return null;
    return (
      <text class={widths.map(([name]) => name).join(" ")} x={percent(share * 100)}>
        {toTimeOfDay(at)}
      </text>
    );
  });
}

/** Returns the five minutes that contain an instant; -1 if there are none. */
export function indexOf(at: Date, steps: readonly Date[]): number {
  return steps.findLastIndex((step) => step <= at);
}

function shareOf(ms: number, powers: number): number {
  return Math.min(1, Math.max(0.01, Math.log10(ms / LOWEST_MS) / powers));
}

function labelOf(ms: number): string {
  return ms < 1_000 ? `${Number(ms.toPrecision(1))} ms` : `${Math.round(ms / 1_000)} s`;
}

/** Tells the last hour of an earlier time from the last hour before now. */
export function ofTime(to: Date | undefined): string {
  return to === undefined ? "" : " of this time";
}

/** Says how the last hour of an endpoint was, and the 24 hours before it. */
function describeLatency({ lastHour, dayBefore }: EndpointLatency, { to }: Pick<LatencyTimes, "to">): string {
  const within = (ms: number | null) => (ms === null ? "no request" : `95 % within ${inMs(ms)}`);
  return `In the last hour${ofTime(to)} ${within(lastHour.p95Ms)}, in the 24 hours before ${within(dayBefore.p95Ms)}`;
}

/** Returns the lines that the pointer shows at five minutes. */
function describeStep(
  step: LatencyStep | undefined,
  { steps, marks, now }: LatencyTimes,
  index: number,
): string {
  const at = steps[index];
  const happened = marks.filter((mark) => indexOf(mark.at, steps) === index);
  const lines = step
    ? [
        `half within ${inMs(step.p50Ms ?? 0)}`,
        `95 % within ${inMs(step.p95Ms ?? 0)}`,
        `99 % within ${inMs(step.p99Ms ?? 0)}`,
        `requests ${renderCount(step.requests)}, refused ${renderCount(step.refused)}, failed ${renderCount(step.failed)}`,
      ]
    : ["no request"];
  const title = at && `${toTimeOfDay(at)}${isOpen(at, now) ? ", not over" : ""}`;
  return [title, ...lines, ...happened.map(({ says }) => says)].join("\n");
}
