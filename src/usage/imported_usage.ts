import type { Month } from "../base/calendar.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";

/** Returns the CTE that writes the use of a month for imported keys, from a relation `line (license_id, used)`. */
export function importedUsageCte(sql: Sql, month: Month): Fragment {
  return sql`
    insert into usage (license_id, month, used)
    select license_id, ${month.firstDay}::date, used from line where used > 0`;
}

/** Deletes the use of all licenses of accounts. Only for the accounts of a demo, because nobody pays for their use. */
export async function deleteUsage(database: Database, accountUuids: readonly string[]): Promise<void> {
  await database.query(
    (sql) => sql`
      delete from usage
       where license_id in (select id from licenses where account_id = any(${toTextArray(accountUuids)}::uuid[]))`,
  );
}
