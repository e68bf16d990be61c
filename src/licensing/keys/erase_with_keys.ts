/**
 * Erases an account with keys that are in use: revokes them in batches, then erases the person. The first batch marks the
 * account, so it gets no new key in between. After a crash, a repetition goes on with the keys that are left.
 * `sql/0032_erasures.sql` knows this file by its former name, src/keys/revoke_and_erase.ts.
 */
import { auditCte, type By } from "../../audit/mod.ts";
import { isRefusal } from "../../base/refusal.ts";
import { countRows, type Database, type Fragment, type Sql } from "../../database/mod.ts";
import { eraseAccount, type LicenseChanges, markErasing } from "../mod.ts";

/** The keys of one statement: it takes some 0.1 s, and much less than its deadline on a busy host. */
const BATCH_KEYS = 500;
/** An older program beside this one does not know the mark: a key that it issues meanwhile is revoked, too. */
const MOST_ROUNDS = 3;
/** For how long one request revokes keys, because its connection is closed after 30 s: some 100,000 keys. */
export const ERASURE_REQUEST_MS = 20_000;

interface Options extends By {
  /** Without it an account with a key that is not revoked is refused. */
  readonly revokesKeys: boolean;
  /** For how long it revokes keys; by default until none is left. */
  readonly mostMs?: number;
}

/**
 * Revokes every key of an account, each with its row of the audit log, and erases the person; `isPersonal` tells whether
 * there was one. If keys are left because the time was over, it is not erased, and the same call goes on. Refuses an
 * unknown account.
 */
export async function eraseWithKeys(
  changes: LicenseChanges,
  accountUuid: string,
  { revokesKeys, mostMs = Number.POSITIVE_INFINITY, ...by }: Options,
) {
  const endMs = performance.now() + mostMs;
  let revoked = 0;
  for (let round = 1; ; round++) {
    for (let last = revokesKeys ? BATCH_KEYS : 0; last === BATCH_KEYS; revoked += last) {
      if (performance.now() > endMs) return { revoked, isErased: false, isPersonal: true };
      last = await revokeBatch(changes, accountUuid, by);
    }
    const erased = await eraseAccount(changes.database, accountUuid, by);
    if (!isRefusal(erased)) return { revoked, isErased: true, ...erased };
    if (erased.code !== "CONFLICT" || !revokesKeys || round === MOST_ROUNDS) return erased;
  }
}

/** Marks the account, revokes some of its keys, and removes the external ids of their licenses. Returns how many keys. */
async function revokeBatch(changes: LicenseChanges, accountUuid: string, { actor, now }: By) {
  const rows = await changes.change<{ licenseUuid: string }>(
    (sql) => sql`
      with marked as (${markErasing(sql, accountUuid)}),
      old as (
        select k.id, k.license_id, k.state, l.account_id
          from marked
          -- Its index has the keys of an account in their order, with their states.
          join listed_keys listed on listed.account_id = marked.id and listed.state <> 'revoked'
          join keys k on k.id = listed.key_id
          -- Compared again after a lock: a license that moved away meanwhile is not the person's any more.
          join licenses l on l.id = k.license_id and l.account_id = marked.id
         where k.state <> 'revoked'
         order by listed.key_id
         limit ${BATCH_KEYS}
           for update of k for share of l
      ),
      changed as (
        update keys k set state = 'revoked', revoked_at = ${now}::timestamptz
          from old where k.id = old.id
        returning old.account_id, k.license_id, k.id as key_id,
                  jsonb_build_object('state', old.state) as before,
                  jsonb_build_object('state', k.state) as after
      ),
      nameless as (
        update licenses l set external_id = null
          from old where l.id = old.license_id and l.external_id is not null
      ),
      logged as (${auditCte(sql, { action: "key.revoke", actor, at: now, from: sql`changed` })})
      select license_id as "licenseUuid" from changed`,
  );
  return rows.length;
}

/** What an erasure removes from an account, and what it keeps. */
export type ErasureEffect = Readonly<Awaited<ReturnType<typeof findErasureEffect>>>;

/** Counts what an erasure of an account removes and keeps, each up to `MOST_COUNTED`. */
export async function findErasureEffect(database: Database, accountUuid: string) {
  const count = (rows: (sql: Sql) => Fragment) =>
    countRows(database, (sql) => sql`${rows(sql)} and account_id = ${accountUuid}::uuid`);
  const [keysInUse, licenses, externalIds, formerEmails, machines, auditRows] = await Promise.all([
    count((sql) => sql`select from listed_keys where state <> 'revoked'`),
    count((sql) => sql`select from licenses where true`),
    count((sql) => sql`select from licenses where external_id is not null`),
    count((sql) => sql`select from former_emails where true`),
    count((sql) => sql`select from machines where coalesce(name, platform) is not null`),
    count((sql) => sql`select from audit where true`),
  ]);
  return { keysInUse, licenses, externalIds, formerEmails, machines, auditRows };
}
