/**
 * Counts failed logins, and writes them to the audit log when their hour has ended or the service stops: one row for
 * each group of addresses. All processes together write at most a thousand rows for an hour, and each of them one more
 * for the rest of its groups. So an attacker cannot fill the log. The counts of the last hour are lost if the process
 * is killed.
 */
import { auditCte } from "../audit/mod.ts";
import { HOUR_MS, toTimestamp } from "../base/calendar.ts";
import type { Clock } from "../base/clock.ts";
import { createWaitingRows, createWriteBehind, type Database } from "../database/mod.ts";

export type FailedLogins = ReturnType<typeof createFailedLogins>;

interface Failures {
  readonly hourMs: number;
  readonly group: string;
  readonly count: number;
}

const INTERVAL_MS = 60_000;
/** The most rows of an hour, without the rows in which processes add up the groups for which there is no place. */
const MOST_ROWS = 1_000;
/** The most groups that a process remembers, beside the row of the others. */
const MOST_GROUPS = MOST_ROWS - 1;
const OTHERS = "others";

/** Creates the counter. `start` begins to write; `flush` writes the counts of the hours that have ended. */
export function createFailedLogins(database: Pick<Database, "query">, clock: Clock) {
  const rows = createWaitingRows<Failures>({
    idOf: ({ hourMs, group }) => `${hourMs} ${group}`,
    merge: (one, { count }) => ({ ...one, count: one.count + count }),
    write: (due) => insertFailures(database, due, clock.now()),
    most: MOST_GROUPS,
    whenFull: (row) => ({ ...row, group: OTHERS }),
  });
  return {
    ...createWriteBehind({
      intervalMs: INTERVAL_MS,
      pauseMs: () => Math.min(INTERVAL_MS, HOUR_MS - (clock.nowMs() % HOUR_MS)),
      flush: () => rows.flush(({ hourMs }) => hourMs + HOUR_MS <= clock.nowMs()),
      writeAll: () => rows.flush(),
    }),
    /** Counts a login that failed, by the group of addresses that it came from. */
    note(group: string): void {
      rows.add({ hourMs: Math.floor(clock.nowMs() / HOUR_MS) * HOUR_MS, group, count: 1 });
    },
  };
}

async function insertFailures(
  database: Pick<Database, "query">,
  rows: readonly Failures[],
  now: Date,
): Promise<void> {
  const due = rows.map(({ hourMs, ...row }) => ({ ...row, hour: toTimestamp(new Date(hourMs)) }));
  await database.query(
    (sql) => sql`
      with noted as (
        select *, "group" as address, hour::timestamptz as hour_at, count(*) over of_hour as rows,
               row_number() over (of_hour order by count desc) as place
          from jsonb_to_recordset(${JSON.stringify(due)}::text::jsonb) as row ("group" text, count bigint, hour text)
        window of_hour as (partition by hour)
      ),
      -- All processes write when an hour ends. They take turns at the row of the hour, so each knows what the others had.
      counted as (
        insert into failed_login_hours as h (hour, rows)
        select distinct hour_at, rows from noted order by hour_at
        on conflict (hour) do update set rows = h.rows + excluded.rows
        returning hour as hour_at, rows
      ),
      old as (
        delete from failed_login_hours where hour < ${now}::timestamptz - interval '1 day'
      ),
      failed as (
        select null::jsonb as before,
               jsonb_build_object('address', shown.address, 'failed_logins', sum(count), 'hour', hour) as after
          from noted
          join counted using (hour_at)
         cross join lateral (
                 select case when counted.rows - noted.rows + place <= ${MOST_ROWS} then address else ${OTHERS} end
               ) as shown (address)
         group by hour, shown.address
         order by hour, min(place)
      )
      ${auditCte(sql, {
        action: "session.fail",
        // No operator has such a name.
        actor: { kind: "operator", name: "(unknown)" },
        at: now,
        from: sql`failed`,
      })}`,
  );
}
