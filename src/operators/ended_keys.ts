/**
 * How many keys an operator ends in the console, and how many places of machines, counted together. Whoever steals a
 * session can end a few with it, but not those of all customers. The times are in the row of the operator, which each
 * statement locks: so they count for all sessions and all processes together, however many requests race.
 */

import type { Refusal } from "../base/refusal.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { refuseOldProof, type Session } from "./sessions.ts";

/** So many keys and places of machines may be ended within an hour without a fresh proof. */
const MOST_ENDED = 10;

interface Ending {
  /** How many keys or places of machines are to be ended. */
  readonly ends: number;
  readonly now: Date;
}

/**
 * Notes that the operator of a session ends so many keys or places of machines now. Refuses it, and notes nothing, if they
 * are more than {@linkcode MOST_ENDED} with those of the last hour, and the proof of the session is old.
 */
export async function noteEndings(
  database: Database,
  session: Session,
  { ends, now }: Ending,
): Promise<Refusal | undefined> {
  const refusal = refuseOldProof(session, now, WHAT);
  const [noted] = await database.query(
    (sql) => sql`
      update operators o
         set ended_keys_at = array(
               select at from unnest(o.ended_keys_at
                 || array_fill(${now}::timestamptz, array[${Math.min(ends, MOST_ENDED + 1)}::integer])) as at
                where ${isRecent(sql, now)} order by at desc limit ${MOST_ENDED + 1})
       where o.name = ${session.operator}
         and (${refusal === undefined}::boolean or ${countRecent(sql, now)} + ${ends}::bigint <= ${MOST_ENDED})
      returning o.name`,
  );
  return noted === undefined ? refusal : undefined;
}

/** Refuses what {@linkcode noteEndings} would refuse, before the first of several is ended. Notes nothing. */
export async function refuseEndings(
  database: Database,
  session: Session,
  { ends, now }: Ending,
): Promise<Refusal | undefined> {
  const refusal = refuseOldProof(session, now, WHAT);
  if (refusal === undefined) return undefined;
  const [row] = await database.query<{ recent: number }>(
    (sql) =>
      sql`select ${countRecent(sql, now)}::integer as recent from operators o where o.name = ${session.operator}`,
  );
  return (row?.recent ?? 0) + ends > MOST_ENDED ? refusal : undefined;
}

const WHAT = `end more than ${MOST_ENDED} keys and places of machines within an hour`;

function countRecent(sql: Sql, now: Date): Fragment {
  return sql`(select count(*) from unnest(o.ended_keys_at) as at where ${isRecent(sql, now)})`;
}

function isRecent(sql: Sql, now: Date): Fragment {
  return sql`at > ${now}::timestamptz - interval '1 hour'`;
}
