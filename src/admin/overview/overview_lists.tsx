/** @jsxImportSource hono/jsx */
/** The lists of the overview. Each shows the first rows and links to all of them. */
import type { Child } from "hono/jsx";
import { renderCount } from "../../base/render_count.ts";
import type { RefusedKey } from "../../licensing/keys/mod.ts";
import { LISTED_STATES, TIERS } from "../../licensing/mod.ts";
import { EXPIRING_DAYS, type Figures, MOST_DAYS_LEFT, NEAR_QUOTA_PERCENT } from "../../usage/figures/mod.ts";
import { sentenceOfCode } from "../../wire/mod.ts";
import { RefusedKeys, TOO_MANY } from "../activity/refused_keys.tsx";
import { type Conditions, toAddress } from "../frame/console/components/list.tsx";
import { numeric, Table, type TableProps } from "../frame/console/components/table.tsx";
import { Bar, Customer, Lines } from "../frame/console/components/values.tsx";

const ROWS = 10;

interface PanelProps {
  readonly title: string;
  readonly children?: Child;
}

/** A part of a page with its own title. */
function Panel({ title, children }: PanelProps) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** A count with a bar, which is full at `of`, so that the counts of a list can be compared at a glance. */
function Count({ count, of }: Readonly<Record<"count" | "of", number>>) {
  return (
    <>
      {renderCount(count)}
      <Bar percent={of === 0 ? 0 : (count * 100) / of} />
    </>
  );
}

interface TopProps<Row> extends TableProps<Row> {
  readonly title: string;
  /** The sentence that takes the place of a list without rows. */
  readonly none: string;
  /** The link to all rows, if there are any. */
  readonly all: Child;
}

/** The first rows of a list. */
function Top<Row>({ title, none, all, ...table }: TopProps<Row>) {
  const rows = table.rows.slice(0, ROWS);
  return (
    <Panel title={title}>
      <Table {...table} rows={rows} stays="few" none={<p>{none}</p>} />
      {rows.length > 0 && <p class="as-of">{all}</p>}
    </Panel>
  );
}

/** The lists of keys that are refused now, or that tell earlier than a notice what will happen. */
const LISTS: readonly (readonly [Conditions, string])[] = [
  [{ refused_now: "true" }, "Refused now"],
  [{ runs_out_within: `${MOST_DAYS_LEFT}` }, "Quota is used up or runs out"],
  [{ near_quota: `${NEAR_QUOTA_PERCENT}` }, `${NEAR_QUOTA_PERCENT} % of the quota is used`],
  [{ state: "active", expiring_within: `${EXPIRING_DAYS}` }, `End within ${EXPIRING_DAYS} days`],
  [{ all_places_taken: "true" }, "All places are taken"],
];

/** The links to the lists of keys that need attention. */
export function KeysToLookAt() {
  return (
    <nav class="ways" aria-label="Keys that need attention">
      {"Keys: "}
      {LISTS.map(([conditions, text]) => (
        <a href={toAddress("/console/keys", conditions)}>{text}</a>
      ))}
    </nav>
  );
}

/** From this sum on, the numbers are too long for five columns on a phone. */
const MOST_BESIDE = 1_000;

/** The keys of each tier in each state. */
export function KeysByTier({ rows }: Figures["keys"]) {
  const countOf = (tier: string | undefined, state: string | undefined) =>
    rows
      .filter((row) => (tier ?? row.tier) === row.tier && (state ?? row.state) === row.state)
      .reduce((sum, { count }) => sum + count, 0);
  const numbers = [...LISTED_STATES, undefined].map((state) =>
    numeric(state ?? "all", (tier: string | undefined) => (
      <Keys count={countOf(tier, state)} conditions={{ tier, state }} />
    )),
  );
  const columns = [{ label: "Tier", cell: (tier: string | undefined) => tier ?? <b>all</b> }, ...numbers];
  return (
    <Panel title="Keys by tier and state">
      <Table
        caption="Each number links to its keys"
        columns={columns}
        rows={[...TIERS, undefined]}
        stays={countOf(undefined, undefined) < MOST_BESIDE ? "matrix" : undefined}
      />
    </Panel>
  );
}

/** A number of keys, with a link to the list of them. */
function Keys({ count, conditions }: { readonly count: number; readonly conditions: Conditions }) {
  if (count === 0) return <span class="muted">0</span>;
  return <a href={toAddress("/console/keys", conditions)}>{renderCount(count)}</a>;
}

/** The refused requests by the code of their refusal, the most frequent code first. */
export function RefusalsOfDay({ counts, keys }: RefusalsProps) {
  const answered = counts.values().reduce((sum, count) => sum + count, 0);
  const refusals = [...counts].filter(([name]) => name !== "OK").sort(([, a], [, b]) => b - a);
  const refused = refusals.reduce((sum, [, count]) => sum + count, 0);
  const [[, most] = ["", 0]] = refusals;
  const share = answered === 0 ? 0 : (refused * 100) / answered;
  return (
    <Top
      title="Refusals of the last day"
      none={
        answered === 0
          ? "No request was counted in the last day."
          : `No request was refused: ${renderCount(answered)} were answered.`
      }
      caption={`${renderCount(refused)} of ${renderCount(answered)} requests, ${share < 0.1 ? "less than 0.1" : share.toFixed(1)} %`}
      columns={[
        {
          label: "Cause",
          cell: ([name, count]) => (
            <>
              <Lines text={sentenceOfCode(name)} more={<code>{name}</code>} />{" "}
              <RefusedKeys name={name} count={count} keys={name === TOO_MANY ? keys : []} />
            </>
          ),
        },
        numeric("Requests", ([, count]) => <Count count={count} of={most} />),
      ]}
      rows={refusals}
      all={<a href="/console/activity?by=code">Show activity</a>}
    />
  );
}

interface RefusalsProps {
  /** The number of answers with each code. */
  readonly counts: ReadonlyMap<string, number>;
  /** The keys that sent too many requests. */
  readonly keys: readonly RefusedKey[];
}

/** The accounts that used most in the month. */
export function Consumers({ month, ...list }: Figures["consumers"]) {
  const most = list.rows[0]?.used ?? 0;
  return (
    <Top
      title="Largest consumers"
      none={`No account has used anything in ${month}.`}
      caption={`In ${month}`}
      columns={[
        {
          label: "Account",
          cell: ({ userId, email, organization }) => (
            <Customer userId={userId} email={email} more={[organization]} />
          ),
        },
        numeric("Inferences", ({ used }) => <Count count={used} of={most} />),
      ]}
      all={<a href={`/console/usage?month=${month}`}>Show usage</a>}
      {...list}
    />
  );
}

/** How many keys were not used for some days. */
export function Unused({ rows }: Figures["unused"]) {
  return (
    <Panel title="Unused keys">
      <Table
        caption="Keys that were neither used nor issued in this time"
        columns={[
          { label: "Unused for", cell: ({ days }) => `${days} days` },
          numeric("Keys", ({ days, count }) => <Keys count={count} conditions={{ unused_for: `${days}` }} />),
        ]}
        rows={rows}
        stays="few"
      />
    </Panel>
  );
}
