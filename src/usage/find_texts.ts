/** Finds how much of the room for texts of events is used today, and for which licenses texts are left out. */
import type { Database } from "../database/mod.ts";
import { dayOf, isOfDay } from "./_text_room.ts";

/** The texts of the events of a license today. */
export interface TextsToday {
  /** How many bytes were stored, or would have been. */
  readonly bytes: number;
  /** Since when texts are left out; null if all were stored. */
  readonly leftOutAt: Date | null;
}

/** Finds the texts that the events of a license stored on the day of `now`. */
export async function findTextsToday(
  database: Database,
  licenseUuid: string,
  now: Date,
): Promise<TextsToday> {
  const [row] = await database.read<TextsToday>(
    (sql) => sql`
      select bytes, left_out_at as "leftOutAt" from event_texts
       where license_id = ${licenseUuid}::uuid and ${isOfDay(sql, dayOf(sql, now.getTime()))}`,
  );
  return row ?? { bytes: 0, leftOutAt: null };
}

/** Finds the texts that all licenses stored on the day of `now`, and the licenses whose texts are left out: three of them. */
export async function findTextsLeftOut(database: Database, now: Date) {
  const [row] = await database.read<{
    bytes: number;
    count: number;
    leftOutAt: Date | null;
    licenses: readonly string[];
  }>(
    (sql) => sql`
      with left_out as (
        select license_id, left_out_at from event_texts
         where ${isOfDay(sql, dayOf(sql, now.getTime()))} and left_out_at is not null
      )
      select (select coalesce(sum(bytes), 0)::bigint from installation_texts
               where ${isOfDay(sql, dayOf(sql, now.getTime()))}) as bytes,
             (select count(*) from left_out) as count,
             (select min(left_out_at) from left_out) as "leftOutAt",
             (select coalesce(json_agg(license_id), '[]')
                from (select license_id from left_out order by left_out_at, license_id limit 3) as first) as licenses`,
  );
  return row ?? { bytes: 0, count: 0, leftOutAt: null, licenses: [] };
}
