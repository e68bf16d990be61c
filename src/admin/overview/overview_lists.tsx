/** @jsxImportSource hono/jsx */
/** The lists of the overview. Each shows the first rows and links to all of them. */
import type { ActivityCount } from "../../activity/mod.ts";
import { EXPIRING_DAYS, type Figures, NEAR_QUOTA_PERCENT } from "../../figures/mod.ts";
import { TIERS, type Tier } from "../../licensing/mod.ts";
import type { Code } from "../../refusal.ts";
import { renderCount } from "../../render_count.ts";
import { Customer } from "../frame/console/components/customer.tsx";
import { AsOf, Count, Panel } from "../frame/console/components/panel.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { Day, Lines, Used } from "../frame/console/components/values.tsx";

/** Rows of a list. */
const ROWS = 10;
const STATES = ["active", "suspended", "expired", "revoked"] as const;

interface Shown {
  readonly now: Date;
}

/** The keys of each tier in each state. */
export function KeysByTier({ rows, asOf, now }: Figures["keys"] & Shown) {
  const countOf = (tier: string | undefined, state: string | undefined) =>
    rows
      .filter((row) => (tier ?? row.tier) === row.tier && (state ?? row.state) === row.state)
      .reduce((sum, { count }) => sum + count, 0);
  const numbers = [...STATES, undefined].map((state) => ({
    label: state ?? "all",
    isNumeric: true,
    cell: (tier: string | undefined) => <Keys count={countOf(tier, state)} tier={tier} state={state} />,
  }));
  const columns = [{ label: "Tier", cell: (tier: string | undefined) => tier ?? <b>all</b> }, ...numbers];
  return (
    <Panel title="Keys by tier and state" isWide>
      <Table caption="Each number links to its keys" columns={columns} rows={[...TIERS, undefined]} />
      <AsOf at={asOf} now={now} />
    </Panel>
  );
}

interface KeysProps {
  readonly count: number;
  readonly tier: string | undefined;
  readonly state: string | undefined;
}

function Keys({ count, tier, state }: KeysProps) {
  if (count === 0) return <span class="muted">0</span>;
  const query = new URLSearchParams({ ...(tier && { tier }), ...(state && { state }) });
  return <a href={`/console/keys?${query}`}>{renderCount(count)}</a>;
}

/** Why requests may be refused; other codes stand for themselves. */
const CAUSES: Partial<Record<Code, string>> = {
  INVALID_KEY: "the key is unknown, suspended or revoked",
  KEY_EXPIRED: "the license or the key has expired",
  QUOTA_EXCEEDED: "the month's quota is used up",
  RATE_LIMIT_EXCEEDED: "too many requests in a minute",
  LICENSE_REQUIRED: "the model needs a higher tier",
  MISSING_KEY: "a request without a key",
  INVALID_FORMAT: "the text is no key",
  INVALID_REQUEST: "a field has a wrong value",
  MISSING_EVENT_TYPE: "an event without its type",
  KEY_NOT_FOUND: "the key to revoke is unknown or revoked",
  NOT_FOUND: "no such model, file or path",
  METHOD_NOT_ALLOWED: "the path does not take the method",
  NOT_CONFIGURED: "no repository token is stored",
  SERVICE_UNAVAILABLE: "the database did not answer in time",
  SERVER_ERROR: "the service failed: see its log",
};

/** The refused requests by the code of their refusal, the most frequent code first. */
export function Refusals({ activity, now }: { readonly activity: readonly ActivityCount[] } & Shown) {
  const counts = new Map<string, number>();
  for (const { name, count } of activity) counts.set(name, (counts.get(name) ?? 0) + count);
  const answered = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const refusals = [...counts].filter(([name]) => name !== "OK").sort(([, a], [, b]) => b - a);
  const refused = refusals.reduce((sum, [, count]) => sum + count, 0);
  const [[, most] = ["", 0]] = refusals;
  const share = answered === 0 ? 0 : (refused * 100) / answered;
  return (
    <Panel title="Refusals of the last day">
      {refused === 0 ? (
        <p>
          {answered === 0
            ? "No request was counted in the last day."
            : `No request was refused: ${renderCount(answered)} were answered.`}
        </p>
      ) : (
        <Table
          caption={`${renderCount(refused)} of ${renderCount(answered)} requests, ${share < 0.1 ? "less than 0.1" : share.toFixed(1)} %`}
          columns={[
            { label: "Cause", cell: ([name]: readonly [string, number]) => <Cause name={name} /> },
            {
              label: "Requests",
              isNumeric: true,
              cell: ([, count]: readonly [string, number]) => <Count count={count} of={most} />,
            },
          ]}
          rows={refusals.slice(0, ROWS)}
        />
      )}
      <AsOf at={now} now={now}>
        <a href="/console/activity?by=code">Show activity</a>
      </AsOf>
    </Panel>
  );
}

function Cause({ name }: { readonly name: string }) {
  const words = CAUSES[name as Code];
  return <Lines text={<code>{name}</code>} more={words} />;
}

/** The column with the account of each row, and the tier of its license if the row is a license. */
const CUSTOMER = {
  label: "Account",
  cell: ({ userId, email, organization, tier }: CustomerOfRow) => (
    <Customer userId={userId} email={email} more={[organization, tier ?? ""]} />
  ),
};

interface CustomerOfRow {
  readonly userId: string;
  readonly email: string;
  readonly organization: string;
  readonly tier?: Tier;
}

type Consumer = Figures["consumers"]["rows"][number];

/** The accounts that used most in the month. */
export function Consumers({ rows, month, asOf, now }: Figures["consumers"] & Shown) {
  const most = rows[0]?.used ?? 0;
  const columns = [
    CUSTOMER,
    { label: "Inferences", isNumeric: true, cell: ({ used }: Consumer) => <Count count={used} of={most} /> },
  ];
  return (
    <Panel title="Largest consumers">
      {rows.length === 0 ? (
        <p>No account has used anything in {month}.</p>
      ) : (
        <Table caption={`In ${month}`} columns={columns} rows={rows.slice(0, ROWS)} />
      )}
      <AsOf at={asOf} now={now}>
        <a href={`/console/usage?month=${month}`}>Show usage</a>
      </AsOf>
    </Panel>
  );
}

type Near = Figures["nearQuota"]["rows"][number];

/** The licenses that have used most of their month's quota. */
export function NearQuota({ rows, licenses, asOf, now }: Figures["nearQuota"] & Shown) {
  const columns = [
    CUSTOMER,
    {
      label: "Used this month",
      isNumeric: true,
      cell: (row: Near) => <Used used={row.used} limit={row.limit} />,
    },
  ];
  return (
    <Panel title="Near their quota">
      {rows.length === 0 ? (
        <p>No license has used {NEAR_QUOTA_PERCENT} % of its month's quota.</p>
      ) : (
        <Table
          caption={`${licensesOf(licenses)} used ${NEAR_QUOTA_PERCENT} % of the quota or more`}
          columns={columns}
          rows={rows.slice(0, ROWS)}
        />
      )}
      <AsOf at={asOf} now={now}>
        {rows.length > 0 && (
          <a href={`/console/keys?near_quota=${NEAR_QUOTA_PERCENT}`}>Show the keys near their quota</a>
        )}
      </AsOf>
    </Panel>
  );
}

type Ending = Figures["expiring"]["rows"][number];

/** The licenses that expire soon. */
export function Expiring({ rows, licenses, asOf, now }: Figures["expiring"] & Shown) {
  const columns = [
    CUSTOMER,
    { label: "Expires", cell: ({ expiresAt }: Ending) => <Day at={expiresAt} now={now} /> },
  ];
  return (
    <Panel title="Expiring soon">
      {rows.length === 0 ? (
        <p>No license expires within {EXPIRING_DAYS} days.</p>
      ) : (
        <Table
          caption={`${licensesOf(licenses)} within ${EXPIRING_DAYS} days`}
          columns={columns}
          rows={rows.slice(0, ROWS)}
        />
      )}
      <AsOf at={asOf} now={now}>
        {rows.length > 0 && (
          <a href={`/console/keys?expiring_within=${EXPIRING_DAYS}`}>Show the keys that expire soon</a>
        )}
      </AsOf>
    </Panel>
  );
}

type Idle = Figures["unused"]["rows"][number];

/** How many keys were not used for some days. */
export function Unused({ rows, asOf, now }: Figures["unused"] & Shown) {
  const columns = [
    { label: "Unused for", cell: ({ days }: Idle) => `${days} days` },
    {
      label: "Keys",
      isNumeric: true,
      cell: ({ days, count }: Idle) =>
        count === 0 ? (
          <span class="muted">0</span>
        ) : (
          <a href={`/console/keys?unused_for=${days}`}>{renderCount(count)}</a>
        ),
    },
  ];
  return (
    <Panel title="Unused keys">
      <Table caption="Keys that were neither used nor issued in this time" columns={columns} rows={rows} />
      <AsOf at={asOf} now={now} />
    </Panel>
  );
}

function licensesOf(count: number): string {
  return count === 1 ? "1 license" : `${renderCount(count)} licenses`;
}
