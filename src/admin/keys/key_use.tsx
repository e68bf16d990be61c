/** @jsxImportSource hono/jsx */
import { type Month, monthOf, toMonth, toMonthText } from "../../calendar.ts";
import type { KeySummary } from "../../keys/mod.ts";
import { renderCount } from "../../render_count.ts";
import type { UsageByDay } from "../../usage/mod.ts";
import { Bars } from "../frame/console/components/charts.tsx";

interface KeyUseProps {
  readonly of: KeySummary;
  readonly month: Month;
  readonly usage: UsageByDay;
  /** Of the month before. */
  readonly before: UsageByDay;
  readonly now: Date;
}

/** The use of a month by day. If the license has a limit, a line shows the daily use that would just reach it. */
export function KeyUse({ of: { id, monthlyLimit: limit }, month, usage, before, now }: KeyUseProps) {
  const shown = toMonthText(month);
  const isCurrent = month.index === monthOf(now.getTime()).index;
  const aDay = limit === null ? 0 : Math.floor(limit / usage.days.length);
  // Without today, which is not over.
  const over = isCurrent ? now.getUTCDate() - 1 : usage.days.length;
  const compared = {
    columns: [before, usage].map(({ days }) => ({ values: days.slice(0, over).map(({ used }) => used) })),
    than: `${isCurrent ? "the same days of " : ""}${toMonthText(toMonth(month.index - 1))}`,
  };
  const link = (index: number, label: string) => (
    <a href={`/console/keys/${id}?month=${toMonthText(toMonth(index))}#use`}>{label}</a>
  );
  return (
    <section aria-labelledby="use">
      <h2 id="use">{`Use in ${shown}`}</h2>
      <Bars
        caption="Inferences of the license by day"
        columnName="Day"
        parts={["Inferences"]}
        series={usage.days.map(({ day, used }) => ({
          label: day.slice(5),
          title: day,
          values: [used],
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
      <nav class="pages" aria-label="Months">
        {link(month.index - 1, "Month before")}
        {!isCurrent && link(month.index + 1, "Month after")}
      </nav>
    </section>
  );
}
