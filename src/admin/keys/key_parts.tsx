/** @jsxImportSource hono/jsx */
/** The parts of the page of a key that only show something. */
import { type Month, monthOf, toMonth } from "../../calendar.ts";
import type { KeyExplanation, RefusalCount } from "../../keys/mod.ts";
import { renderCount } from "../../render_count.ts";
import type { DayOfUse } from "../../usage/mod.ts";
import { Bars } from "../frame/console/components/charts.tsx";
import { Facts, Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Day, Foreign, KeyLink, Used } from "../frame/console/components/values.tsx";
import { toMonthText } from "../frame/console/month.ts";

interface FactsProps {
  readonly explanation: KeyExplanation;
  readonly now: Date;
  /** Requests a minute of each endpoint; 0 means unlimited. */
  readonly limits: Readonly<Record<string, number>>;
}

/** The facts of the key. */
export function KeyFacts({ explanation: { key, resetsAt }, now, limits }: FactsProps) {
  const names = [key.name === key.email ? "" : key.name, key.organization].filter((text) => text !== "");
  const hasOwnExpiry = key.expiresAt < key.licenseExpiresAt;
  return (
    <Facts
      facts={[
        ["Key id", <code>{key.id}</code>],
        [
          "Account",
          <>
            <AccountLink id={key.userId} email={key.email} />
            {names.map((text) => (
              <span class="more">
                <Foreign text={text} />
              </span>
            ))}
          </>,
        ],
        ["License id", <code>{key.licenseId}</code>],
        ["External id", key.externalId === null ? "none" : <Foreign text={key.externalId} />],
        ["Tier, mode", `${key.tier}, ${key.mode}`],
        ["Used this month", <Used used={key.used} limit={key.monthlyLimit} />],
        ["Resets", <Day at={new Date(resetsAt)} now={now} />],
        ["Expires", <Day at={key.expiresAt} now={now} />],
        ...(hasOwnExpiry
          ? ([["License expires", <Day at={key.licenseExpiresAt} now={now} />]] as const)
          : []),
        ["Last used", key.lastUsedAt ? <Ago at={key.lastUsedAt} now={now} /> : "never"],
        ["Issued", <Ago at={key.createdAt} now={now} />],
        ...(key.replacedBy ? ([["Replaced by", <KeyLink id={key.replacedBy} />]] as const) : []),
        ["Requests a minute", Object.entries(limits).map(toLimitText).join(", ")],
      ]}
    />
  );
}

function toLimitText([endpoint, limit]: readonly [string, number]): string {
  return `${endpoint} ${limit === 0 ? "unlimited" : renderCount(limit)}`;
}

export interface UseOfMonth {
  readonly month: Month;
  readonly usage: {
    readonly used: number;
    /** Units without a day. */
    readonly imported: number;
    readonly days: readonly DayOfUse[];
  };
}

interface KeyUseProps {
  readonly id: string;
  readonly limit: number | null;
  readonly use: UseOfMonth;
  readonly now: Date;
}

/** The use of a month by day. If the license has a limit, a line shows the daily use that would just reach it. */
export function KeyUse({ id, limit, use: { month, usage }, now }: KeyUseProps) {
  const shown = toMonthText(month);
  const isCurrent = month.index === monthOf(now.getTime()).index;
  const of = limit === null ? "without a limit" : `of ${renderCount(limit)}`;
  const aDay = limit === null ? 0 : Math.floor(limit / usage.days.length);
  const link = (index: number, label: string) => (
    <a href={`/console/keys/${id}?month=${toMonthText(toMonth(index))}#use`}>{label}</a>
  );
  return (
    <section aria-labelledby="use">
      <h2 id="use">{`Use in ${shown}`}</h2>
      <Bars
        caption={`Inferences of the license by day: ${renderCount(usage.used)} ${of}`}
        columnName="Day"
        valueName="Inferences"
        series={usage.days.map(({ day, used }) => ({
          label: day.slice(5),
          title: `${day}: ${renderCount(used)}`,
          value: used,
        }))}
        limit={
          limit === null
            ? undefined
            : { value: aDay, label: `${renderCount(aDay)} every day would use up the limit of the month` }
        }
        empty="The license was not used on any day of this month."
      />
      {usage.imported > 0 && (
        <p class="hint">{`${renderCount(usage.imported)} of them were imported without a day.`}</p>
      )}
      <nav class="pages" aria-label="Months">
        {link(month.index - 1, "Month before")}
        {!isCurrent && link(month.index + 1, "Month after")}
      </nav>
    </section>
  );
}

/** The meaning of each recorded refusal. */
const MEANINGS: Readonly<Record<string, string>> = {
  INVALID_KEY: "The key was not active.",
  KEY_EXPIRED: "The key had expired.",
  KEY_NOT_FOUND: "A client wanted to revoke the key, which was revoked already.",
  LICENSE_REQUIRED: "The client asked for a model of a higher tier.",
  NOT_CONFIGURED: "The service has no repository token: the page Health says more.",
  NOT_FOUND: "The client asked for a model that does not exist, or that the account cannot see.",
  QUOTA_EXCEEDED: "The quota of the month was used up.",
  RATE_LIMIT_EXCEEDED: "Too many requests in a minute: the client must wait as long as Retry-After says.",
};

/** Why requests with the key were refused, the latest refusal first. */
export function Refusals({ refusals, now }: RefusalsProps) {
  return (
    <section aria-labelledby="refusals">
      <h2 id="refusals">Refused requests</h2>
      {refusals.length === 0 ? (
        <p class="muted">No request with this key was refused.</p>
      ) : (
        <Table
          caption="Latest refusal first; a refusal appears some seconds after its answer"
          columns={[
            { label: "Code", cell: ({ code }: RefusalCount) => <code>{code}</code> },
            {
              label: "Meaning",
              cell: ({ code, reason }: RefusalCount) =>
                reason === null || code !== "INVALID_KEY" ? (MEANINGS[code] ?? "") : `The key was ${reason}.`,
            },
            { label: "Times", isNumeric: true, cell: ({ count }: RefusalCount) => renderCount(count) },
            { label: "Last time", cell: ({ lastAt }: RefusalCount) => <Ago at={lastAt} now={now} /> },
          ]}
          rows={refusals}
        />
      )}
    </section>
  );
}

interface RefusalsProps {
  readonly refusals: readonly RefusalCount[];
  readonly now: Date;
}
