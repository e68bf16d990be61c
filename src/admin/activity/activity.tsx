/** @jsxImportSource hono/jsx */

import { toTimestamp } from "../../base/calendar.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { COUNTS_RULE, type Database } from "../../database/mod.ts";
import {
  ACTIVITY_CONDITIONS,
  ACTIVITY_KEPT_DAYS,
  type ActivityCount,
  type ActivityQuery,
  COMPARED_DAYS,
  completeQuery,
  findActivity,
  findFirstHour,
  findHours,
  goBack,
  stepsOf,
  type Unusual,
} from "../../usage/activity/mod.ts";
import { nameOfCode, nameOfEndpoint } from "../../wire/mod.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { Bars, Marked } from "../frame/console/components/charts.tsx";
import { Select } from "../frame/console/components/form.tsx";
import { numeric, Table } from "../frame/console/components/table.tsx";
import { Lines, Minute } from "../frame/console/components/values.tsx";
import { fieldOf, readConditions } from "../frame/console/conditions.ts";
import type { Page } from "../frame/console/page.tsx";
import { unreadPage } from "../frame/console/remedies.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { findKeysOfHours, type KeysOfHours, RefusedKeys } from "./refused_keys.tsx";

interface ActivityProps {
  readonly query: ActivityQuery;
  readonly counts: readonly ActivityCount[];
  /** The counts to show and those of the time before. */
  readonly found: readonly ActivityCount[];
  /** Before it nothing was counted; undefined if nothing ever was. */
  readonly firstHour: Date | undefined;
  readonly unusual: readonly Unusual[];
  readonly keys: KeysOfHours;
  /** True if the time that is shown ends now. */
  readonly isLatest: boolean;
}

/** The most parts of a stacked bar; the last one has all further names. */
const MAX_PARTS = 6;
/** The most rows of the table of unusual counts. The page tells how many further rows there are. */
const MAX_UNUSUAL = 50;
const OK = "OK";

const { by, step, to } = ACTIVITY_CONDITIONS;
/** Without `from`: the page shows the usual span before the end. */
const ENTRIES = conditionFields({ by, step, to });

/** How many requests were answered, and how; unusual hours are marked. */
export async function activityPage({ options, query: sent, now }: Visit): Promise<Page | Refusal> {
  const asked = readConditions(sent, ENTRIES);
  const { values } = asked;
  if (isRefusal(values)) {
    const filters = <Filters by={fieldOf(asked, "by")} step={fieldOf(asked, "step")} />;
    return unreadPage(values, { title: "Activity", filters });
  }
  const { to } = values;
  const isLatest = to === undefined || to >= now;
  const query = completeQuery({ ...values, to: isLatest ? now : to }, now);
  const found = await findShown(options.database, query, now);
  if (isRefusal(found)) return found;
  const keys = await findKeysOfHours(options.database, found.unusual, { now });
  const body = <Activity query={query} isLatest={isLatest} keys={keys} {...found} />;
  return { title: "Activity", body, ...(isLatest && { script: "refresh" }) };
}

/** Finds the counts to show, and earlier ones to compare them with. */
async function findShown(database: Database, query: ActivityQuery, now: Date) {
  if (query.step === "hour") return await findHours(database, query, now);
  const found = await findActivity(database, { ...query, from: startOfCompared(query) });
  if (isRefusal(found)) return found;
  const counts = found.filter(({ at }) => at >= goBack(query.from, query.step, 0));
  return { found, counts, firstHour: await findFirstHour(database), unusual: [] };
}

/**
 * Returns the beginning of the earlier time, with which the page compares. The earlier time has one step more than the shown
 * time: if the last shown step is not over, it is left out, and the comparison begins one step earlier.
 */
function startOfCompared(query: ActivityQuery): Date {
  return goBack(query.from, query.step, stepsOf(query).length + 1);
}

function Activity(props: ActivityProps) {
  const { query, counts, unusual } = props;
  const { from, by, step } = query;
  const last = stepsOf(query).at(-1) ?? from;
  return (
    <>
      <Filters by={{ value: by }} step={{ value: step }} />
      <p class="hint" id="rows" tabindex={-1}>
        {`By ${LABELS[by].toLowerCase()}, for each ${step} from ${labelOf(from, step)} to ${labelOf(last, step)}`}
      </p>
      {counts.length === 0 && unusual.length === 0 ? (
        <p class="empty">
          No answered request was counted in this time. A request of a client appears about a minute after its
          answer.
        </p>
      ) : (
        <>
          {query.step === "hour" && <UnusualCounts {...props} />}
          {query.by === "code" ? (
            <>
              <Chart {...props} caption="Answers without an error" has={(name) => name === OK} />
              <Chart {...props} caption="Refused and failed requests, by cause" has={(name) => name !== OK} />
            </>
          ) : (
            <Chart {...props} caption={CAPTIONS[query.by]} has={() => true} />
          )}
        </>
      )}
      <Times {...props} />
      <p class="hint">{`${COUNTS_RULE} Counts are kept ${ACTIVITY_KEPT_DAYS} days.`}</p>
    </>
  );
}

const LABELS = { code: "Cause", endpoint: "Request", reason: "Reason" } as const;
const STEPS = { hour: "Hour", day: "Day", month: "Month" } as const;
const CAPTIONS = { endpoint: "Answers, by request", reason: "Refused keys, by reason" } as const;

/** Names a code, an endpoint or a reason for people. */
function nameOf(name: string, by: ActivityQuery["by"]): string {
  if (by === "endpoint") return nameOfEndpoint(name);
  return name === OK ? "without an error" : nameOfCode(name);
}

interface Chosen {
  readonly value: string;
  readonly error?: string | undefined;
}

function Filters({ by, step }: { readonly by: Chosen; readonly step: Chosen }) {
  const choices = (labels: Readonly<Record<string, string>>) =>
    Object.entries(labels).map(([value, label]) => ({ value, label: label.toLowerCase() }));
  return (
    <form class="filters choices" action="/console/activity#rows" aria-label="Conditions">
      <Select {...by} name="by" label="By" choices={choices(LABELS)} />
      <Select {...step} name="step" label="For each" choices={choices(STEPS)} />
      <div class="actions">
        <button type="submit">Show</button>
      </div>
    </form>
  );
}

/** Links to the time before and after. */
function Times({ query, isLatest }: ActivityProps) {
  const { from, to, by, step } = query;
  const steps = stepsOf(query).length;
  const link = (end: Date | undefined) =>
    `/console/activity?${new URLSearchParams({ by, step, ...(end && { to: toTimestamp(end) }) })}#rows`;
  return (
    <nav class="pages" aria-label="Times">
      <a href={link(goBack(from, step, 0))}>Earlier</a>
      {!isLatest && <a href={link(goBack(to, step, -steps))}>Later</a>}
      {!isLatest && <a href={link(undefined)}>Latest</a>}
    </nav>
  );
}

const MARKS = {
  high: { points: "up", word: "high" },
  low: { points: "down", word: "low" },
} as const;

function UnusualCounts({ query: { by }, unusual, keys }: ActivityProps) {
  const shown = unusual.slice(0, MAX_UNUSUAL);
  const more = unusual.length - shown.length;
  return (
    <div class="unusual">
      <Table
        none={<p>No hour is unusual.</p>}
        caption="Unusual hours, the latest first"
        columns={[
          { label: "Hour", cell: ({ at }) => <Minute at={at} /> },
          {
            label: LABELS[by],
            cell: ({ name }) => <Lines text={nameOf(name, by)} more={by === "code" && <code>{name}</code>} />,
          },
          numeric("Answers", ({ count }) => renderCount(count)),
          { label: "Mark", needs: "middle", cell: ({ kind }: Unusual) => <Marked {...MARKS[kind]} /> },
          { ...numeric(`${COMPARED_DAYS} days before`, rangeOf), needs: "middle" },
          {
            label: "Refused keys",
            cell: (hour: Unusual) => hour.kind === "high" && <RefusedKeys {...hour} keys={keys.get(hour)} />,
          },
        ]}
        rows={shown}
      />
      {more > 0 && <p>{`${renderCount(more)} more hours are marked in the charts.`}</p>}
      <p class="hint">
        {`A count is compared with the same hour of the ${COMPARED_DAYS} days before, as far as they were counted. It is unusual if it differs from each of them by at least 20, and is more than twice the highest or less than half the lowest.`}
      </p>
    </div>
  );
}

function rangeOf({ lowest, highest }: Unusual): string {
  return lowest === highest ? renderCount(lowest) : `${renderCount(lowest)} to ${renderCount(highest)}`;
}

interface ChartProps extends ActivityProps {
  readonly caption: string;
  /** The names whose counts are in the chart. */
  readonly has: (name: string) => boolean;
}

function Chart({ query, counts, found, firstHour, unusual, isLatest, caption, has }: ChartProps) {
  const parts = partsOf(counts.filter(({ name }) => has(name)));
  const byTime = <Row extends ActivityCount>(rows: readonly Row[]) => {
    const shown = rows.filter(({ name }) => has(name));
    return Map.groupBy(shown, ({ at }) => at.getTime());
  };
  const byStep = byTime(found);
  const marked = byTime(unusual);
  const start = startOfCompared(query);
  const columns = stepsOf({ ...query, from: start }).map((at) => {
    const label = labelOf(at, query.step);
    const values = parts.map(() => 0);
    for (const { name, count } of byStep.get(at.getTime()) ?? []) {
      const part = parts.includes(name) ? parts.indexOf(name) : parts.length - 1;
      values[part] = (values[part] ?? 0) + count;
    }
    const marks = marked.get(at.getTime()) ?? [];
    const [mark] = marks;
    return { label, values, ...(mark && { mark: MARKS[mark.kind], title: titleOf(label, marks, query.by) }) };
  });
  const steps = stepsOf(query).length;
  const compared = {
    columns: isLatest ? columns.slice(0, -1) : columns.slice(1),
    than: `the ${steps} ${STEPS[query.step].toLowerCase()}s before`,
  };
  return (
    <Bars
      caption={caption}
      columnName={STEPS[query.step]}
      parts={parts.map((name) => (name === OK ? "Answers" : nameOf(name, query.by)))}
      series={columns.slice(-steps).map((column, index) => ({
        ...column,
        isOpen: isLatest && index === steps - 1,
      }))}
      unit="answers"
      compared={firstHour && firstHour <= start ? compared : undefined}
      empty="There were no such answers in this time."
    />
  );
}

/** Returns the names with the highest counts, and one for all others, the highest first. */
function partsOf(counts: readonly ActivityCount[]): string[] {
  const sums = new Map<string, number>();
  for (const { name, count } of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  const names = [...sums].sort(([, one], [, other]) => other - one).map(([name]) => name);
  return names.length > MAX_PARTS ? [...names.slice(0, MAX_PARTS - 1), "all others"] : names;
}

function titleOf(label: string, marks: readonly Unusual[], by: ActivityQuery["by"]): string {
  const texts = marks.map((mark) => {
    const { name, count, kind } = mark;
    return `${nameOf(name, by)}: ${renderCount(count)} is unusually ${MARKS[kind].word}, ${rangeOf(mark)} on the days before`;
  });
  return [label, ...texts].join("\n");
}

function labelOf(at: Date, step: ActivityQuery["step"]): string {
  const text = toTimestamp(at);
  if (step === "hour") return text.slice(5, 16).replace("T", " ");
  return text.slice(0, step === "day" ? 10 : 7);
}
