/** @jsxImportSource hono/jsx */
/** The lists of the overview. Each shows the first rows and links to all of them. */
import type { Child } from "hono/jsx";
import { monthOf, toDay } from "../../base/calendar.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import type { RefusedKey } from "../../licensing/keys/mod.ts";
import { LISTED_STATES, TIERS } from "../../licensing/mod.ts";
import { EXPIRING_DAYS, type Figures, MOST_DAYS_LEFT, NEAR_QUOTA_PERCENT } from "../../usage/figures/mod.ts";
import { sentenceOfCode } from "../../wire/mod.ts";
import { RefusedKeys, TOO_MANY } from "../activity/refused_keys.tsx";
import { type Conditions, toAddress } from "../frame/console/components/list.tsx";
import { numeric, Table, type TableProps } from "../frame/console/components/table.tsx";
import { Bar, Customer, Day, daysUntil, Lines, Used } from "../frame/console/components/values.tsx";

const ROWS = 10;

interface Shown {
  readonly now: Date;
}

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
        stays="matrix"
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

/** The column with the account of each row, and the tier of its license if the row is a license. */
const CUSTOMER = {
  label: "Account",
  cell: ({ userId, email, organization, tier }: CustomerOfRow) => (
    <Customer userId={userId} email={email} more={[organization, tier ?? ""]} />
  ),
};

type CustomerOfRow = Pick<Ending, "userId" | "email" | "organization"> & Partial<Pick<Ending, "tier">>;
type Ending = Figures["expiring"]["rows"][number];

/** The accounts that used most in the month. */
export function Consumers({ month, ...list }: Figures["consumers"]) {
  const most = list.rows[0]?.used ?? 0;
  return (
    <Top
      title="Largest consumers"
      none={`No account has used anything in ${month}.`}
      caption={`In ${month}`}
      columns={[CUSTOMER, numeric("Inferences", ({ used }) => <Count count={used} of={most} />)]}
      all={<a href={`/console/usage?month=${month}`}>Show usage</a>}
      {...list}
    />
  );
}

/** The licenses that have used most of their month's quota. */
export function NearQuota({ licenses, ...list }: Figures["nearQuota"]) {
  return (
    <Top
      title="Near their quota"
      none={`No license has used ${NEAR_QUOTA_PERCENT} % of its month's quota.`}
      caption={`${counted(licenses, "license")} used ${NEAR_QUOTA_PERCENT} % of the quota or more`}
      columns={[
        CUSTOMER,
        numeric("Used this month", ({ used, limit }) => <Used used={used} limit={limit} />),
      ]}
      all={<a href={`/console/keys?near_quota=${NEAR_QUOTA_PERCENT}`}>Show the keys near their quota</a>}
      {...list}
    />
  );
}

/** The licenses whose quota is used up, and those whose quota will be before the month ends. */
export function RunsOut({ licenses, rows, nearQuota, ...list }: RunsOutProps) {
  const { usedUp = 0, asOf } = nearQuota;
  const until = `refused until ${toDay(new Date(monthOf(asOf.getTime()).endsAtMs))}`;
  const full = nearQuota.rows.filter(({ percent, isOpen = true }) => percent >= 100 && isOpen);
  // Both kinds have rows; where one has few, the other has more.
  const shownFull = full.slice(0, Math.max(ROWS / 2, ROWS - rows.length));
  return (
    <Top
      title="Quota runs out"
      none="Every quota that is left lasts until it resets, at the rate of the last seven days."
      caption={`${usedUp > 0 ? `${counted(usedUp, "license")} used up the quota; ` : ""}${counted(licenses, "license")} before the quota resets, at the rate of the last seven days`}
      columns={[
        CUSTOMER,
        { label: "Runs out", cell: ({ day, more }) => <Lines text={day} more={more} /> },
        numeric("Used this month", ({ used, limit }) => <Used used={used} limit={limit} />),
      ]}
      rows={[
        ...shownFull.map((row) => ({ ...row, day: "used up", more: until })),
        ...rows.map((row) => ({ ...row, more: daysUntil(row.day, list.now) })),
      ]}
      all={
        <a href={`/console/keys?runs_out_within=${MOST_DAYS_LEFT}`}>
          Show the keys whose quota is used up or runs out
        </a>
      }
      {...list}
    />
  );
}

type RunsOutProps = Figures["runsOut"] & Pick<Figures, "nearQuota"> & Shown;

/** The licenses that expire soon. */
export function Expiring({ licenses, ...list }: Figures["expiring"] & Shown) {
  return (
    <Top
      title="Expiring soon"
      none={`No license expires within ${EXPIRING_DAYS} days.`}
      caption={`${counted(licenses, "license")} within ${EXPIRING_DAYS} days`}
      columns={[
        CUSTOMER,
        { label: "Expires", cell: ({ expiresAt }: Ending) => <Day at={expiresAt} now={list.now} /> },
      ]}
      all={
        <a href={`/console/keys?state=active&expiring_within=${EXPIRING_DAYS}`}>Active keys that end soon</a>
      }
      {...list}
    />
  );
}

/** The licenses whose places for machines are all taken. */
export function FullLicenses({ tiers, ...list }: Figures["machines"]) {
  const full = tiers.reduce((sum, { full }) => sum + full, 0);
  return (
    <Top
      title="All places taken"
      none="Every license that counts machines has a free place."
      caption={`${counted(full, "license")} without a free place for a machine`}
      columns={[
        CUSTOMER,
        numeric("Places taken", ({ licenseId, used, limit }) => (
          <a href={`/console/machines?license=${licenseId}`}>
            <Used used={used} limit={limit} />
          </a>
        )),
      ]}
      all={<a href="/console/keys?all_places_taken=true">Show the keys without a free place</a>}
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
