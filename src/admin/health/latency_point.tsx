/** @jsxImportSource hono/jsx */
/** From five minutes of an endpoint to what happened, to the errors of its hour, and to the keys that were refused. */
import { HOUR_MS, toTimeOfDay, toTimestamp } from "../../base/calendar.ts";
import { isRefusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import type { Database } from "../../database/mod.ts";
import { findErrorsOfHour, goBack } from "../../usage/activity/mod.ts";
import { findLatency, type LatencyStep, STEP_MS, stepOf } from "../../usage/latency/mod.ts";
import { nameOfEndpoint, sentenceOfCode } from "../../wire/mod.ts";
import {
  findKeysOfHours,
  type HourOfCode,
  type KeysOfHours,
  RefusedKeys,
} from "../activity/refused_keys.tsx";
import { Facts, numeric, Table } from "../frame/console/components/table.tsx";
import { Lines } from "../frame/console/components/values.tsx";
import { inMs } from "./in_ms.ts";
import { describeNoMarks, linked, MARK_COLUMNS } from "./latency_table.tsx";
import { findMarks, type HealthMark } from "./marks.ts";

interface ErrorOfHour {
  readonly count: number;
  /**
   * The same error at all endpoints, as the unusual hours of the page Activity have it: the refusals of a key are known only
   * over all endpoints.
   */
  readonly ofAll: HourOfCode;
}

interface PointFacts {
  readonly endpoint: string;
  /** The beginning of the five minutes. */
  readonly at: Date;
  /** The five minutes of the hour that had a request, the earliest first. */
  readonly steps: readonly LatencyStep[];
  /** The errors of the endpoint in the hour. */
  readonly errors: readonly ErrorOfHour[];
  readonly keys: KeysOfHours;
  /** What happened in the five minutes and the hour before. */
  readonly marks: readonly HealthMark[];
}

interface Asked {
  readonly endpoint: string;
  readonly at: Date;
  readonly now: Date;
}

/** Finds what is known about five minutes. Errors and keys are known by the hour. */
export async function findPoint(
  database: Database,
  { endpoint, at: asked, now }: Asked,
): Promise<PointFacts> {
  const at = stepOf(asked);
  const to = new Date(at.getTime() + STEP_MS);
  const hour = goBack(at, "hour", 0);
  const [latencies, answers, marks] = await Promise.all([
    findLatency(database, { from: hour, to: new Date(hour.getTime() + HOUR_MS), endpoint }),
    findErrorsOfHour(database, { at, endpoint }),
    // A mark explains five minutes if it lies in them or in the hour before.
    findMarks(database, { from: new Date(at.getTime() - HOUR_MS), to }),
  ]);
  if (isRefusal(latencies)) throw new Error(latencies.sentence);
  const errors = answers.map(
    ({ code, count, countOfAll }): ErrorOfHour => ({
      count,
      ofAll: { at: hour, name: code, count: countOfAll, kind: "high" },
    }),
  );
  const keys = await findKeysOfHours(
    database,
    errors.map(({ ofAll }) => ofAll),
    { now },
  );
  return { endpoint, at, steps: latencies[0]?.steps ?? [], errors, keys, marks };
}

const MARKS_OF_POINT = "these five minutes and the hour before";

interface PointProps extends PointFacts {
  /** The end of the time of the page; undefined for the latest. */
  readonly to: Date | undefined;
}

export function Point({ endpoint, at, steps, errors, keys, marks, to }: PointProps) {
  const step = steps.find((one) => one.at.getTime() === at.getTime());
  const end = new Date(at.getTime() + STEP_MS);
  const hour = goBack(at, "hour", 0);
  const hourEnd = new Date(hour.getTime() + HOUR_MS);
  const activity = new URLSearchParams({ by: "code", step: "hour", to: toTimestamp(hourEnd) });
  return (
    <>
      <h2 id="point" tabindex={-1}>
        {`${nameOfEndpoint(endpoint)} from ${toTimeOfDay(at)} to ${toTimeOfDay(end)}`}
      </h2>
      {step === undefined ? (
        <p class="muted">No request was counted in these five minutes.</p>
      ) : (
        <Facts
          facts={[
            ["Requests", renderCount(step.requests)],
            ["Refused", renderCount(step.refused)],
            ["Failed", renderCount(step.failed)],
            ["Half within", inMs(step.p50Ms ?? 0)],
            ["95 % within", inMs(step.p95Ms ?? 0)],
            ["99 % within", inMs(step.p99Ms ?? 0)],
          ]}
        />
      )}
      <Table
        caption={`What happened in ${MARKS_OF_POINT}`}
        columns={MARK_COLUMNS}
        rows={marks}
        none={<p class="muted">{describeNoMarks(MARKS_OF_POINT)}</p>}
      />
      <Table
        caption={`Errors of this endpoint from ${toTimeOfDay(hour)} to ${toTimeOfDay(hourEnd)}; codes are counted by the hour`}
        columns={[
          {
            label: "Code",
            // A `bdi` of a first cell may wrap: the sentences are long.
            cell: ({ ofAll: { name } }) => (
              <Lines text={<bdi>{sentenceOfCode(name)}</bdi>} more={<code>{name}</code>} />
            ),
          },
          numeric("Answers", ({ count }) => renderCount(count)),
          {
            label: "Refused keys, of all requests of the hour; known for 25 hours",
            cell: ({ ofAll }: ErrorOfHour) => <RefusedKeys {...ofAll} keys={keys.get(ofAll)} />,
          },
        ]}
        rows={errors}
        none={
          <p class="muted">{`This endpoint answered no error from ${toTimeOfDay(hour)} to ${toTimeOfDay(hourEnd)}.`}</p>
        }
      />
      <Table
        caption={
          <span id="hour" tabindex={-1}>
            {`The five minutes from ${toTimeOfDay(hour)} to ${toTimeOfDay(hourEnd)}; each leads to its errors and refused keys`}
          </span>
        }
        columns={linked(endpoint, to)}
        rows={steps}
        none={
          <p class="muted">{`No request was counted from ${toTimeOfDay(hour)} to ${toTimeOfDay(hourEnd)}.`}</p>
        }
      />
      <p class="actions">
        <a href={`/console/activity?${activity}#rows`}>Show all activity until then, with the refused keys</a>
      </p>
    </>
  );
}
