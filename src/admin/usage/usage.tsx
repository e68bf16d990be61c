/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { type Month, monthOf, toDay, toMonth, toMonthText } from "../../base/calendar.ts";
import { idRule } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { searchAccounts, TIERS, type Tier, TOO_WIDE } from "../../licensing/mod.ts";
import {
  compareMonths,
  countUsage,
  isUseOrdered,
  listUsage,
  type MonthOfUse,
  readUsageDays,
  type UsageDays,
} from "../../usage/mod.ts";
import { MONTH_ENTRY, SEARCH_FIELD } from "../frame/api/fields.ts";
import { Bars, compareYear, describeChange } from "../frame/console/components/charts.tsx";
import { optionsOf, Select, TextField } from "../frame/console/components/form.tsx";
import { Notice } from "../frame/console/components/layout.tsx";
import { bothWays, Pages, readPage, renderPlace } from "../frame/console/components/list.tsx";
import { toShort } from "../frame/console/components/scale.ts";
import { type Column, numeric, Table } from "../frame/console/components/table.tsx";
import { AsOf, LicenseLink, NamedCustomer, Used } from "../frame/console/components/values.tsx";
import { fieldOf, readConditions } from "../frame/console/conditions.ts";
import type { Page } from "../frame/console/page.tsx";
import { unreadPage } from "../frame/console/remedies.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { splitMark } from "../frame/stream_csv.ts";
import { streamMonth } from "./usage_routes.ts";
import { sumByTier, WHO_REPORTS } from "./use_by_tier.ts";

/** The twelve months next to each other. */
const MONTHS = 12;
/** The months to choose from. */
const CHOICES = 24;

const LICENSE = v.optional(parsedField(idRule("lic")));
const ENTRIES = { ...MONTH_ENTRY, search: v.optional(SEARCH_FIELD), after: LICENSE, before: LICENSE };

/** What the search of this page finds: the search of other lists finds keys, too. */
const FOUND_BY = "Words of a name, an organization or an e-mail, or an external id";

/** Takes the place of an order by use in a table that is too large for it. */
const TOO_MANY = "oldest first: there are too many to order by use, but a search orders what it finds";

type OrderOfUse = NonNullable<Parameters<typeof listUsage>[2]>;

/** The page Usage: a month by tier and by customer, and twelve months next to each other. */
export async function usagePage({ options: { database }, query, now, may }: Visit): Promise<Page> {
  const current = monthOf(now.getTime());
  const asked = readConditions(query, ENTRIES);
  const { values } = asked;
  if (isRefusal(values)) {
    const filters = <Months {...fieldOf(asked, "month")} now={now} />;
    return unreadPage(values, { title: "Usage", filters });
  }
  const { month = current, search: entered, ...place } = values;
  const search = entered === undefined ? undefined : await searchAccounts(database, entered);
  const byUse = search !== undefined || (await isUseOrdered(database));
  const list = bothWays<MonthOfUse, OrderOfUse>(
    { search, byUse, newestFirst: false },
    {
      list: (part) => listUsage(database, month, part),
      count: (part) => countUsage(database, month, part),
    },
  );
  const from = toMonth(current.index - 2 * MONTHS).firstDay;
  const [year, use, customers] = await Promise.all([
    // This month, the eleven before, and the months to compare.
    readUsageDays(database, { from, to: lastDayOf(current) }),
    readUsageDays(database, { from: month.firstDay, to: lastDayOf(month) }),
    readPage(list, place, ({ licenseUuid }) => licenseUuid),
  ]);
  // A search is about the customers alone.
  const isWhole = customers.isFirst && search === undefined;
  const text = toMonthText(month);
  return {
    title: "Usage",
    script: "refresh",
    beside: (
      <div class="actions">
        {may("usage:import") && <a href="/console/usage/reports">Import a report…</a>}
        <a href={`/console/usage.csv?month=${text}&bom=1`}>CSV for Excel</a>
        <a class="button" href={`/console/usage.csv?month=${text}`}>
          Download {text} as CSV
        </a>
      </div>
    ),
    body: (
      <>
        <Months value={text} now={now} />
        {isWhole && use === undefined && (
          <Notice kind="warning">
            The use of all customers has not been counted yet. A service counts it for the first time some
            seconds after its start.
          </Notice>
        )}
        {isWhole && year && month.index <= current.index && (
          <Headline {...compareMonths(year, month, { from, now })} month={month} now={now} />
        )}
        {isWhole && use && <ByTier use={use} month={month} now={now} />}
        {isWhole && year && <Year year={year} now={now} />}
        <h2 id="rows" tabindex={-1}>{`Customers in ${text}`}</h2>
        <form class="filters" action="/console/usage#rows" aria-label="Customer">
          <input type="hidden" name="month" value={text} />
          <TextField {...fieldOf(asked, "search")} label="Find a customer" type="search" hint={FOUND_BY} />
          <div class="actions">
            <button type="submit">Find</button>
            {search && <a href={`/console/usage?month=${text}#rows`}>Show all</a>}
          </div>
        </form>
        {search?.isTooWide && <Notice kind="warning">{`${TOO_WIDE}.`}</Notice>}
        <Table
          caption={`${renderPlace("license", customers)} that used anything in ${text}, ${byUse ? "most used first" : TOO_MANY}`}
          columns={CUSTOMERS}
          rows={customers.rows}
          none={
            <p class="empty">
              {search
                ? `No customer of that name used anything in ${text}.`
                : isWhole
                  ? `No license used anything in ${text}. ${WHO_REPORTS}`
                  : "There are no more licenses."}
            </p>
          }
        />
        <Pages
          path="/console/usage"
          conditions={{ month: text, search: asked.entered.search }}
          page={customers}
          toAfter={({ licenseId }) => licenseId}
        />
      </>
    ),
  };
}

/** Downloads a month for accounting: the same rows as those of the command and of the API. */
export async function usageCsv(visit: Visit): Promise<Response | Refusal> {
  const { conditions, hasMark } = splitMark(visit.query);
  const { values } = readConditions(conditions, MONTH_ENTRY);
  if (isRefusal(values)) return values;
  return await streamMonth(visit, values.month ?? monthOf(visit.now.getTime()), { hasMark });
}

function lastDayOf({ endsAtMs }: Month): string {
  return toDay(new Date(endsAtMs - 1));
}

function Months({ value, error, now }: { value: string; error?: string | undefined; now: Date }) {
  const current = monthOf(now.getTime()).index;
  const months = Array.from({ length: CHOICES }, (_, ago) => toMonthText(toMonth(current - ago)));
  return (
    <form class="filters month" action="/console/usage#tiers" aria-label="Month">
      <Select name="month" label="Month" value={value} error={error} choices={optionsOf(months)} />
      <div class="actions">
        <button type="submit">Show</button>
      </div>
    </form>
  );
}

/** Names a month in words, such as `November`; one of another year as `November 2025`. */
function nameMonth({ beginsAtMs, firstDay }: Month, now: Date): string {
  const year = firstDay.slice(0, 4) === toDay(now).slice(0, 4) ? {} : ({ year: "numeric" } as const);
  return new Date(beginsAtMs).toLocaleString("en-US", { month: "long", timeZone: "UTC", ...year });
}

interface HeadlineProps extends ReturnType<typeof compareMonths> {
  readonly month: Month;
  readonly now: Date;
}

/** Says in one look whether use grows. */
function Headline({ used, same, imported, month, now }: HeadlineProps) {
  const isPresent = month.index === monthOf(now.getTime()).index;
  const before = nameMonth(toMonth(month.index - 1), now);
  const until = same?.days === undefined ? "" : " in the same days";
  return (
    <>
      <p class="total">
        {`${nameMonth(month, now)}${isPresent ? " so far" : ""}: `}
        <b>{toShort(used, 3)}</b>
        {` inference${used === 1 ? "" : "s"}`}
        {same && `, ${describeChange(same.before, same.used)} ${before}${until}`}
      </p>
      {same?.days !== undefined && (
        <p class="hint">
          {`The comparison has the ${same.days === 1 ? "first day" : `first ${same.days} days`} of each month: ${renderCount(same.used)}, and ${renderCount(same.before)} in the month before.`}
          {` It leaves out later days${imported > 0 ? `, and ${renderCount(imported)} that were imported without a day` : ""}.`}
        </p>
      )}
    </>
  );
}

interface OfTier {
  readonly name: Tier | "all";
  readonly used: number;
  readonly test: number;
  readonly imported: number;
}

/** The use of the month by tier. */
function ByTier({ use, month, now }: { readonly use: UsageDays; readonly month: Month; readonly now: Date }) {
  const of = (name: OfTier["name"]): OfTier => {
    const days = use.days.filter(({ tier }) => name === "all" || tier === name);
    const imports = use.imported.filter(({ tier }) => name === "all" || tier === name);
    const sum = (rows: readonly { readonly used: number }[]) =>
      rows.reduce((total, { used }) => total + used, 0);
    return {
      name,
      used: sum(days) + sum(imports),
      test: sum([...days, ...imports].filter(({ mode }) => mode === "test")),
      imported: sum(imports),
    };
  };
  return (
    <>
      <h2 id="tiers" tabindex={-1}>{`Tiers in ${toMonthText(month)}`}</h2>
      <Table
        caption="Inferences by the tier that the license had on the day"
        columns={TIER_COLUMNS}
        rows={[...TIERS, "all" as const].map(of)}
      />
      <AsOf at={use.asOf} now={now}>
        {use.filledFrom !== null && use.filledFrom > month.firstDay
          ? `The days before ${use.filledFrom} are still being counted.`
          : `The days before ${use.exactUntil} are exact.`}
      </AsOf>
    </>
  );
}

const TIER_COLUMNS: readonly Column<OfTier>[] = [
  { label: "Tier", cell: ({ name }) => (name === "all" ? <b>all</b> : name) },
  numeric("Inferences", ({ used }) => renderCount(used)),
  numeric("With test keys", ({ test }) => renderCount(test)),
  numeric("Imported", ({ imported }) => renderCount(imported)),
];

/** Twelve months next to each other, by tier. */
function Year({ year, now }: { readonly year: UsageDays; readonly now: Date }) {
  const used = sumByTier([
    ...year.days.map(({ day, ...of }) => ({ column: day.slice(0, 7), ...of })),
    ...year.imported.map(({ month, ...of }) => ({ column: month, ...of })),
  ]);
  const last = monthOf(now.getTime()).index;
  const columns = Array.from({ length: 2 * MONTHS + 1 }, (_, index) => {
    const label = toMonthText(toMonth(last - 2 * MONTHS + index));
    return { label, values: TIERS.map((tier) => used(label, tier)), isOpen: index === 2 * MONTHS };
  });
  const isCounted = year.filledFrom === null || year.filledFrom <= toMonth(last - 2 * MONTHS).firstDay;
  return (
    <Bars
      caption="Inferences per month, the last twelve months"
      columnName="Month"
      parts={TIERS}
      series={columns.slice(-MONTHS)}
      unit="inferences"
      compared={isCounted ? compareYear(columns) : undefined}
      empty="No license used anything in the last twelve months."
    />
  );
}

const CUSTOMERS: readonly Column<MonthOfUse>[] = [
  {
    label: "Customer",
    cell: ({ userId, email, name, organization, externalId }) => (
      <NamedCustomer userId={userId} email={email} names={[organization, name]} more={[externalId ?? ""]} />
    ),
  },
  { label: "License", cell: ({ licenseId }) => <LicenseLink id={licenseId} /> },
  { label: "Tier", cell: ({ tier }) => tier },
  { label: "Mode", cell: ({ mode }) => mode },
  numeric("Used", ({ used, monthlyLimit, over }) => <Used used={used} limit={monthlyLimit} over={over} />),
];
