/**
 * The start of a term that begins with the first use of its license. Until then the license ends with its latest start
 * and the days of its term. The first use sets its start and its end, once and for all keys of the license.
 */
import { type Actor, auditCte, type By } from "../audit/mod.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { keyEnd } from "./key_states.ts";
import type { LicenseChanges } from "./license_changes.ts";

/** Returns the condition, as SQL, that the term of the license `l` has not begun. */
export function isUnstartedSql(sql: Sql): Fragment {
  return sql`(l.term_days is not null and l.started_at is null)`;
}

/**
 * Returns the query that locks the license of a key until the end of the transaction, if the key works and the term has
 * not begun. Its row has `started_at` and `ends_at`, which the license gets if it starts now. Without a row, another
 * process may have started the term.
 */
export function lockUnstarted(
  sql: Sql,
  { keyUuid, now }: { readonly keyUuid: string; readonly now: Date },
): Fragment {
  return sql`
    select key_id, license_id, account_id, expires_at, started_at,
           started_at + term_days * interval '24 hours' as ends_at
      from (select k.id as key_id, l.id as license_id, l.account_id, l.expires_at, l.term_days, l.latest_start
              from keys k join licenses l on l.id = k.license_id
             where k.id = ${keyUuid}::uuid and k.state = 'active' and ${keyEnd(sql)} > ${now}::timestamptz
               and ${isUnstartedSql(sql)}
            -- A change of the key locks the key first and then its license: in another order, both would deadlock.
               for key share of k for no key update of l) as locked,
           date_trunc('second', least(${now}::timestamptz, latest_start)) as started_at`;
}

/**
 * Returns the CTEs that start the term of the licenses of `from`, rows of {@linkcode lockUnstarted}, and note that in the
 * audit log. `started` has a row for each license that was started.
 */
export function startCtes(
  sql: Sql,
  { from, actor, now }: { readonly from: Fragment; readonly actor: Actor; readonly now: Date },
): Fragment {
  return sql`
    started as (
      update licenses l set started_at = unstarted.started_at, expires_at = unstarted.ends_at
        from ${from} as unstarted
       where l.id = unstarted.license_id
      returning l.account_id, l.id as license_id, unstarted.key_id,
                jsonb_build_object('expires_at', unstarted.expires_at, 'started_at', null) as before,
                jsonb_build_object('expires_at', l.expires_at, 'started_at', l.started_at) as after
    ),
    start_logged as (${auditCte(sql, { action: "license.start", actor, at: now, from: sql`started` })})`;
}

/**
 * Starts the term of a key's license. Returns when the key ends then; undefined if the term has begun, the key is not active
 * or it has expired: of several first uses one starts the term, and the others read the key again. Throws
 * `DatabaseUnavailable`.
 */
export async function startTerm(
  changes: LicenseChanges,
  key: { readonly uuid: string; readonly licenseUuid: string },
  { actor, now }: By,
): Promise<Date | undefined> {
  // It always has its row, so that the cache forgets the license also if another process has started the term.
  const [row] = await changes.change<{ licenseUuid: string; endsAt: Date | null }>(
    (sql) => sql`
      with unstarted as materialized (${lockUnstarted(sql, { keyUuid: key.uuid, now })}),
      ${startCtes(sql, { from: sql`unstarted`, actor, now })}
      select ${key.licenseUuid}::uuid as "licenseUuid",
             (select least((started.after ->> 'expires_at')::timestamptz, k.own_expires_at)
                from started join keys k on k.id = started.key_id) as "endsAt"`,
    key,
  );
  return row?.endsAt ?? undefined;
}
