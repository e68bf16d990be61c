/**
 * Stores how many requests were answered, by hour and by day. Every process adds to the same rows, and both tables get
 * the same counts in one statement, so a day is always the sum of its hours.
 */
import type { Database } from "../../database/mod.ts";

/** How many requests were answered in one way. */
export interface AnswerCount {
  readonly endpoint: string;
  /** `OK` for an answer without an error. */
  readonly code: string;
  /** Why a key was refused; empty if the code says it all. */
  readonly reason: string;
  readonly count: number;
}

/** How many requests were answered in one way in an hour. */
export interface HourOfActivity extends AnswerCount {
  readonly hourMs: number;
}

/** Adds counts to the rows of their hours and days. No two counts may have the same hour, endpoint, code and reason. */
export async function addActivity(
  database: Pick<Database, "query">,
  rows: readonly HourOfActivity[],
): Promise<void> {
  await database.query(
    (sql) => sql`
      with counted as (
        select to_timestamp("hourMs" / 1000) as hour, endpoint, code, reason, count
          from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb)
               as rows ("hourMs" double precision, endpoint text, code text, reason text, count bigint)
      ),
      hours as (
        insert into activity_hours as a (hour, endpoint, code, reason, count)
        select hour, endpoint, code, reason, count from counted
         -- Every writer locks rows in this order, so two processes never wait for each other.
         order by hour, endpoint collate "C", code collate "C", reason collate "C"
        on conflict (hour, endpoint, code, reason) do update set count = a.count + excluded.count
        returning 1
      )
      insert into activity_days as a (day, endpoint, code, reason, count)
      select (hour at time zone 'UTC')::date, endpoint, code, reason, sum(count)
        from counted
       -- This condition is always true. It makes the statement lock the hours before the days.
       where (select count(*) from hours) > 0
       group by 1, 2, 3, 4
       order by 1, endpoint collate "C", code collate "C", reason collate "C"
      on conflict (day, endpoint, code, reason) do update set count = a.count + excluded.count`,
  );
}
