/** The use per day of all licenses together. `count_use.ts` counts it. */
import type { Database } from "../database/mod.ts";
import type { Tier } from "../licensing/mod.ts";

interface DayOfAll {
  /** `2026-11-20`. */
  readonly day: string;
  /** The tier of the licenses at the end of the day; for today, at the time of use. */
  readonly tier: Tier;
  /** `live`, `test` or `live+test`. */
  readonly mode: string;
  readonly used: number;
}

/** Use that was imported with keys: its day is unknown. */
interface ImportOfAll extends Omit<DayOfAll, "day"> {
  /** `2026-11`. */
  readonly month: string;
}

export interface UsageDays {
  /** All events that were received before this time are counted. */
  readonly asOf: Date;
  /** All days before this day are exact: they equal the export for accounting. `2026-11-20`. */
  readonly exactUntil: string;
  /** The months before this day are not counted yet; null if all months are counted. */
  readonly filledFrom: string | null;
  /** In the order of the days; days, tiers and modes without use are left out. */
  readonly days: readonly DayOfAll[];
  /** The imported use of every month that has a day in the period. It is counted at the end of each day. */
  readonly imported: readonly ImportOfAll[];
}

/**
 * Reads the use of the days from `from` to `to`, both included and written `2026-11-20`. Undefined before the first
 * count, which a service begins some seconds after its start.
 */
export async function readUsageDays(
  database: Database,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<UsageDays | undefined> {
  const [row] = await database.read<UsageDays>(
    (sql) => sql`
      with period as (
        select day, is_imported, tier, mode, used from usage_days
         where day <= ${to}::date
           and day >= case when is_imported then date_trunc('month', ${from}::date) else ${from}::date end
         order by day, tier, mode
      )
      select added_until as "asOf", to_char(exact_until, 'YYYY-MM-DD') as "exactUntil",
             to_char(filled_from, 'YYYY-MM-DD') as "filledFrom",
             coalesce((select json_agg(json_build_object('day', day, 'tier', tier, 'mode', mode, 'used', used))
                         from period where not is_imported), '[]') as days,
             coalesce((select json_agg(json_build_object('month', to_char(day, 'YYYY-MM'), 'tier', tier, 'mode', mode,
                                                         'used', used))
                         from period where is_imported), '[]') as imported
        from usage_days_progress`,
  );
  return row;
}
