/** @jsxImportSource hono/jsx */

import { DAY_MS, toDay } from "../../base/calendar.ts";
import { listProcesses } from "../../database/processes/mod.ts";
import { findMostRefused, hasKeys } from "../../licensing/keys/mod.ts";
import { TIERS } from "../../licensing/mod.ts";
import { completeQuery, findHours } from "../../usage/activity/mod.ts";
import { readFigures } from "../../usage/figures/mod.ts";
import { readUsageDays, type UsageDays } from "../../usage/mod.ts";
import { TOO_MANY } from "../activity/refused_keys.tsx";
import { Bars } from "../frame/console/components/charts.tsx";
import { IssueButton, Notice } from "../frame/console/components/layout.tsx";
import { AsOf, Foreign } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { listExpiries, summarize } from "../health/health_rows.ts";
import { ShowSlow } from "../health/show_slow.tsx";
import { findSlow } from "../health/slow.ts";
import { describeLastNoticeChange } from "../notices/done_notice.tsx";
import { OpenNoticesPanel, readOpenNotices } from "../notices/open_notices.tsx";
import { sumByTier, WHO_REPORTS } from "../usage/use_by_tier.ts";
import { Consumers, KeysByTier, KeysToLookAt, RefusalsOfDay, Unused } from "./overview_lists.tsx";

const DAYS = 90;

/** The first page of an operator: how many keys there are, their use, and what needs attention. */
export async function overviewPage(visit: Visit): Promise<Page> {
  const { options, now, may } = visit;
  const { database } = options;
  options.demandFigures();
  const [{ unusual, slow, counts, refused, ...health }, notices, change, isBegun, figures, use] =
    await Promise.all([
      findHealth(options, now),
      readOpenNotices(visit),
      describeLastNoticeChange(visit),
      hasKeys(database),
      readFigures(database),
      readUsageDays(database, { from: dayBefore(now, 2 * DAYS), to: dayBefore(now, 0) }),
    ]);
  /** When the use and the figures were counted: the page says the earliest time once. */
  const countedAtMs = [use, figures].flatMap((each) => each?.asOf.getTime() ?? []);
  const summary = summarize({ ...health, unusual, slow, now });
  const mayIssue = may("keys:issue");
  return {
    title: "Overview",
    beside: mayIssue && <IssueButton />,
    script: "refresh",
    body: (
      <>
        <Notice kind="done">{change}</Notice>
        <p class={`notice ${summary.tone} health`}>
          <Foreign text={summary.sentence} />{" "}
          {unusual.length > 0 && <a href="/console/activity#rows">Show unusual hours</a>}{" "}
          <ShowSlow slow={slow} /> <a href="/console/health">Show health</a>
        </p>
        {isBegun && figures && <KeysToLookAt />}
        <OpenNoticesPanel {...notices} visit={visit} />
        {!isBegun && <NoKeys mayIssue={mayIssue} />}
        {isBegun && <Use use={use} now={now} />}
        {isBegun && figures === undefined && (
          <Notice kind="warning">
            The figures about keys and customers are computed for the first time now. They appear here within
            a minute.
          </Notice>
        )}
        <div class="columns panels">
          <div>
            {isBegun && figures && (
              <>
                <KeysByTier {...figures.keys} />
                <Consumers {...figures.consumers} />
              </>
            )}
          </div>
          <div>
            {(isBegun || counts.size > 0) && <RefusalsOfDay counts={counts} keys={refused} />}
            {isBegun && figures && <Unused {...figures.unused} />}
          </div>
        </div>
        {isBegun && countedAtMs.length > 0 && <AsOf at={new Date(Math.min(...countedAtMs))} now={now} />}
      </>
    ),
  };
}

/**
 * Finds the sentence of the page Health, without the tokens, whose names only admins see, and the activity of the last
 * day.
 */
async function findHealth({ database, examination, certificateExpiresAt }: Visit["options"], now: Date) {
  const query = completeQuery({}, now);
  const [findings, processes, day, slow] = await Promise.all([
    examination().findings,
    listProcesses(database),
    findHours(database, query, now),
    findSlow(database, now),
  ]);
  const expiries = listExpiries(certificateExpiresAt(), [], now);
  const counts = new Map<string, number>();
  for (const { name, count } of day.counts) counts.set(name, (counts.get(name) ?? 0) + count);
  const lastDay = { from: query.from, to: now, count: counts.get(TOO_MANY) ?? 0 };
  const [refused = []] = await findMostRefused(database, lastDay.count > 0 ? [lastDay] : [], { now });
  return { findings, expiries, processes, unusual: day.unusual, slow, counts, refused };
}

/** Returns a day as `2026-11-22`. */
function dayBefore(now: Date, days: number): string {
  return toDay(new Date(now.getTime() - days * DAY_MS));
}

function NoKeys({ mayIssue }: { readonly mayIssue: boolean }) {
  return (
    <div class="empty">
      <p>
        <b>No key has been issued yet.</b> Keys, customers and their use appear here as soon as there are any.
      </p>
      {mayIssue ? (
        <p>
          <a href="/console/keys/issue">Issue the first key</a>
        </p>
      ) : (
        <p>An editor or an admin can issue the first key.</p>
      )}
      <p class="muted">
        To see the console with invented customers, run <code>claviger serve --demo</code> with an empty data
        folder.
      </p>
    </div>
  );
}

/** Use per day, by tier; undefined before the first count. */
function Use({ use, now }: { readonly use: UsageDays | undefined; readonly now: Date }) {
  if (use === undefined) {
    return (
      <Notice kind="warning">
        The use per day has not been counted yet. A service counts it for the first time some seconds after
        its start.
      </Notice>
    );
  }
  const days = Array.from({ length: 2 * DAYS + 1 }, (_, index) => dayBefore(now, 2 * DAYS - index));
  const used = sumByTier(use.days.map(({ day, ...of }) => ({ column: day, ...of })));
  const columns = days.map((day) => ({
    label: day,
    values: TIERS.map((tier) => used(day, tier)),
    isOpen: day === dayBefore(now, 0),
  }));
  const isCounted = use.filledFrom === null || use.filledFrom <= dayBefore(now, 2 * DAYS);
  return (
    <>
      <Bars
        caption="Inferences per day, last 90 days"
        columnName="Day"
        parts={TIERS}
        series={columns.slice(-DAYS)}
        unit="inferences"
        compared={isCounted ? { columns: columns.slice(0, -1), than: `the ${DAYS} days before` } : undefined}
        empty={`No inference was reported in the last ${DAYS} days. ${WHO_REPORTS}`}
      />
      <p class="as-of">
        <span>
          {use.filledFrom !== null &&
            use.filledFrom > dayBefore(now, DAYS - 1) &&
            `The days before ${use.filledFrom} are still being counted. `}
          {use.imported.length > 0 && "What was imported without a day is on the page Usage alone. "}
          <a href="/console/usage">Show usage by month and customer</a>
        </span>
      </p>
    </>
  );
}
