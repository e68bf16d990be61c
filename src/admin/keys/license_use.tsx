/** @jsxImportSource hono/jsx */
/** What a license used in a month, by day. */
import { type Month, monthOf, toDay, toMonth, toMonthText } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { renderCount } from "../../base/render_count.ts";
import type { LicenseSummary } from "../../licensing/mod.ts";
import { findUsageByDay, type UsageByDay } from "../../usage/mod.ts";
import { Bars } from "../frame/console/components/charts.tsx";
import type { Visit } from "../frame/console/visit.ts";

interface Use {
  readonly month: Month;
  readonly usage: UsageByDay;
  /** Of the month before. */
  readonly before: UsageByDay;
}

/** Reads what a license used in a month, and in the month before. */
export async function readUse(
  { options: { database } }: Visit,
  { of, month }: { readonly of: LicenseSummary; readonly month: Month },
): Promise<Use> {
  const uuid = parseId("lic", of.id) ?? "";
  const [usage, before] = await Promise.all([
    findUsageByDay(database, uuid, month),
    findUsageByDay(database, uuid, toMonth(month.index - 1)),
  ]);
  return { month, usage, before };
}

interface LicenseUseProps extends Use {
  readonly of: LicenseSummary;
  readonly now: Date;
}

/** The use of a month by day. If the license has a limit, a line shows the daily use that would just reach it. */
export function LicenseUse({ of: { id, monthlyLimit: limit }, month, usage, before, now }: LicenseUseProps) {
  const shown = toMonthText(month);
  const isCurrent = month.index === monthOf(now.getTime()).index;
  const today = toDay(now);
  const aDay = limit === null ? 0 : Math.floor(limit / usage.days.length);
  // Without today, which is not over.
  const over = isCurrent ? now.getUTCDate() - 1 : usage.days.length;
  const compared = {
    columns: [before, usage].map(({ days }) => ({ values: days.slice(0, over).map(({ used }) => used) })),
    than: `${isCurrent ? "the same days of " : ""}${toMonthText(toMonth(month.index - 1))}`,
  };
  const link = (index: number, label: string) => (
    <a href={`/console/licenses/${id}?month=${toMonthText(toMonth(index))}#use`}>{label}</a>
  );
  return (
    <section aria-labelledby="use">
      <h2 id="use">{`Use in ${shown}`}</h2>
      <Bars
        caption="Inferences by day"
        columnName="Day"
        parts={["Inferences"]}
        series={usage.days.map(({ day, used }) => ({
          label: day.slice(5),
          title: day,
          values: [used],
          isOpen: day === today,
        }))}
        limit={
          limit === null
            ? undefined
            : { value: aDay, label: `${renderCount(aDay)} every day would use up the limit of the month` }
        }
        unit="inferences"
        compared={over > 0 ? compared : undefined}
        empty="The license was not used on any day of this month."
      />
      {usage.imported > 0 && (
        <p class="hint">
          {`${renderCount(usage.imported)} more were imported without a day: ${renderCount(usage.used)} in all.`}
        </p>
      )}
      {usage.over > 0 && (
        <p class="hint">
          {`${renderCount(usage.over)} more were beyond the limit, as imported reports say: the quota does not count them.`}
        </p>
      )}
      <nav class="pages" aria-label="Months">
        {link(month.index - 1, "Month before")}
        {!isCurrent && link(month.index + 1, "Month after")}
      </nav>
    </section>
  );
}
