import type { Month } from "../calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";

/** Returns the CTE that writes the use of a month for imported keys, from a relation `line (license_id, used)`. */
export function importedUsageCte(sql: Sql, month: Month): Fragment {
  return sql`
    insert into usage (license_id, month, used)
    select license_id, ${month.firstDay}::date, used from line where used > 0`;
}
