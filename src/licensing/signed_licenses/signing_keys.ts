/**
 * The keys that sign licenses. There are always two: the signing key and its successor. Both public keys are published,
 * so a client that pins today's keys accepts the licenses of the next key, too.
 *
 * A private key is random, not derived, and sealed with the root secret: a change of the derivation must not change
 * the keys that clients have pinned.
 */
import type { KeyObject } from "node:crypto";
import { type Actor, auditCte } from "../../audit/mod.ts";
import { toTimestamp } from "../../base/calendar.ts";
import type { Log } from "../../base/log.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { Remedy } from "../../base/remedy.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import type { Database, DatabaseSession, Fragment, PendingRows, Sql } from "../../database/mod.ts";
import { generateKeyPair, type NewKeyPair, openPrivateKey } from "./jws.ts";

/** The purpose for which private keys are sealed. */
const PURPOSE = "license-signing-key";

type SigningKeyState = "signing" | "successor" | "old" | "retired";

export interface SigningKey {
  readonly kid: string;
  /** 32 bytes as base64url. */
  readonly publicKey: string;
  readonly state: SigningKeyState;
  readonly sealed: string;
}

/** Lists the keys that are not retired, the oldest first. */
export async function listSigningKeys(database: Pick<Database, "read">): Promise<SigningKey[]> {
  return await database.read<SigningKey>(
    (sql) => sql`
      select kid, public_key as "publicKey", sealed, ${stateOf(sql)} as state
        from signing_keys
       where retired_at is null
       order by generation`,
  );
}

/** Opens a private key; undefined if this root secret did not seal it, or if it does not fit its public key. */
export function openSigningKey(
  secrets: Secrets,
  { kid, publicKey, sealed }: Pick<SigningKey, "kid" | "publicKey" | "sealed">,
): KeyObject | undefined {
  const pem = secrets.open(PURPOSE, sealed, kid);
  return pem === undefined ? undefined : openPrivateKey(pem, publicKey);
}

interface SigningKeyChange {
  readonly secrets: Secrets;
  readonly now: Date;
}

/**
 * Makes the signing key and its successor if there are none. Tells whether it made them, and whether there were earlier
 * keys, which a restore left out: then clients that pinned the earlier keys refuse new licenses. Two processes that start
 * at once agree, because the numbers of the keys are unique.
 */
export async function ensureSigningKeys(database: Database, { secrets, now }: SigningKeyChange) {
  const [first, second] = [generateKeyPair(), generateKeyPair()];
  const [made] = await database.query<{ replacesEarlier: boolean }>(
    (sql) => sql`
      insert into signing_keys (kid, generation, public_key, sealed, created_at, signs_from)
      select kid, generation, public_key, sealed, ${now}::timestamptz,
             case when generation = 1 then clock_timestamp() end
        from (values (${first.kid}, 1, ${first.publicKey}, ${sealPrivateKey(secrets, first)}),
                     (${second.kid}, 2, ${second.publicKey}, ${sealPrivateKey(secrets, second)}))
               as made (kid, generation, public_key, sealed)
       where not exists (select from signing_keys)
      on conflict (generation) do nothing
      returning exists (select from signed_licenses) or exists (select from exported_licenses)
        or exists (select from audit where action = 'database.restore' and after ->> 'without_sealed' = 'true')
           as "replacesEarlier"`,
  );
  return { isMade: made !== undefined, replacesEarlier: made?.replacesEarlier ?? false };
}

interface Rotation {
  /** The signing key from now on: the successor until now. */
  readonly kid: string;
  readonly previous: string;
  readonly successor: string;
}

interface ChangeBy extends SigningKeyChange {
  readonly actor: Actor;
}

/**
 * Makes the successor the signing key, and adds a new successor. Refuses if somebody else does it at the same moment.
 */
export async function rotateSigningKey(database: Database, change: ChangeBy): Promise<Rotation | Refusal> {
  return await rotate((build) => database.query<Omit<Rotation, "successor">>(build), change);
}

async function rotate(
  query: (build: (sql: Sql) => PendingRows) => Promise<Omit<Rotation, "successor">[]>,
  { secrets, actor, now }: ChangeBy,
): Promise<Rotation | Refusal> {
  const next = generateKeyPair();
  const [row] = await query(
    (sql) => sql`
      with promoted as (
        -- Both times are that of the transaction, so that at each moment there is one signing key.
        update signing_keys set signs_from = now()
         where signs_from is null and retired_at is null
        returning kid
      ),
      previous as (
        update signing_keys s set signs_until = now()
          from promoted
         where s.signs_from is not null and s.signs_until is null and s.retired_at is null
        returning s.kid
      ),
      added as (
        ${addSuccessor(sql, next, { secrets, now })}
         where exists (select from promoted)
        returning kid
      ),
      changed as (
        select jsonb_build_object('signing_key', previous.kid) as before,
               jsonb_build_object('signing_key', promoted.kid, 'successor', added.kid) as after
          from promoted, previous, added
      ),
      logged as (${auditCte(sql, { action: "signing_key.rotate", actor, at: now, from: sql`changed` })})
      select promoted.kid, previous.kid as previous from promoted, previous`,
  );
  return row === undefined
    ? refuse("CONFLICT", "Cannot rotate signing key: it was rotated at the same moment")
    : { ...row, successor: next.kid };
}

/** How long a retirement may pause between two statements. */
const LONGEST_PAUSE_MS = 2_000;

/**
 * Retires an old key: it is not published any more. Refuses the signing key, its successor, and a key whose licenses
 * are still valid. `isLeaked` retires each of them; for the signing key, the successor is promoted first.
 *
 * Returns `stillValid`, the number of keys with a license that the retired key signed and that is still valid, and
 * `rotation`, the new signing key if the retired key was the signing key.
 *
 * A transaction, so only for commands. It locks the row of the key, so that no process signs with the key while the
 * licenses are counted. The server ends a transaction whose process or connection hangs: signatures wait for it.
 */
export async function retireSigningKey(
  session: DatabaseSession,
  kid: string,
  options: ChangeBy & { readonly isLeaked: boolean; readonly longestPauseMs?: number },
) {
  const { actor, now, isLeaked, secrets, longestPauseMs = LONGEST_PAUSE_MS } = options;
  return await session.transaction(async (sql) => {
    await sql`select set_config('idle_in_transaction_session_timeout', ${`${longestPauseMs}ms`}, true)`;
    const cannot = (why: string, remedy?: Remedy) =>
      refuse("CONFLICT", `Cannot retire signing key: ${why}`, { remedy });
    const [key] = await sql<{ state: SigningKeyState }[]>`
      with locked as (
        -- A rotation changes the successor first and then the signing key: in another order, both would deadlock.
        select * from signing_keys where kid = ${kid} or (signs_from is null and retired_at is null)
         order by generation desc for update
      )
      select ${stateOf(sql)} as state from locked where kid = ${kid}`;
    if (key === undefined) {
      const stem = "Cannot retire signing key: no key has that id";
      return refuse("NOT_FOUND", stem, { remedy: { name: "list_signing_keys" } });
    }
    if (key.state === "retired") return cannot("it is retired already");
    // Counted after the lock was taken, in a statement of its own, which sees licenses that were committed meanwhile.
    const [counted] = await sql<{ stillValid: number; until: Date | null }[]>`
      select count(distinct key_id) as "stillValid", max(expires_at) as until
        from (select key_id, kid, expires_at from signed_licenses
               union all
              select key_id, kid, expires_at from exported_licenses) as signed
      -- The earlier of two clocks counts, this host's and the database's: if this host's clock is ahead, a license that
      -- is still valid would otherwise count as expired.
       where kid = ${kid} and expires_at > least(${now}::timestamptz, clock_timestamp())`;
    const { stillValid = 0, until = null } = counted ?? {};
    if (!isLeaked) {
      if (key.state === "signing") return cannot("it is the signing key", { name: "rotate_signing_key" });
      if (key.state === "successor")
        return cannot("it is the successor of the signing key", { name: "retire_leaked" });
      if (stillValid > 0) {
        const keys = stillValid === 1 ? "1 key has a license" : `${stillValid} keys have licenses`;
        const why = `${keys} that it signed, valid until ${toTimestamp(until ?? now)}`;
        return cannot(why, { name: "retire_later" });
      }
    }
    const query = async (build: (sql: Sql) => PendingRows) => [...(await build(sql))] as Rotation[];
    const rotation = key.state === "signing" ? await rotate(query, { secrets, actor, now }) : undefined;
    if (isRefusal(rotation)) return rotation;
    await sql`
      with changed as (
        update signing_keys set retired_at = ${now}::timestamptz where kid = ${kid}
        returning null::jsonb as before,
                  jsonb_build_object('signing_key', kid, 'licenses_still_valid', ${stillValid}::bigint) as after
      )
      ${auditCte(sql, { action: "signing_key.retire", actor, at: now, from: sql`changed` })}`;
    if (key.state === "successor") await sql`${addSuccessor(sql, generateKeyPair(), { secrets, now })}`;
    return { stillValid, rotation };
  });
}

/** Returns the statement that adds a key as the successor; a `where` may follow. */
function addSuccessor(sql: Sql, key: NewKeyPair, { secrets, now }: SigningKeyChange): Fragment {
  return sql`
    insert into signing_keys (kid, generation, public_key, sealed, created_at)
    select ${key.kid}, (select max(generation) + 1 from signing_keys), ${key.publicKey},
           ${sealPrivateKey(secrets, key)}, ${now}::timestamptz`;
}

function sealPrivateKey(
  secrets: Secrets,
  { kid, privateKey }: { readonly kid: string; readonly privateKey: string },
): string {
  return secrets.seal(PURPOSE, privateKey, kid);
}

/** Returns the state of a row of `signing_keys`, as SQL. */
function stateOf(sql: Sql): Fragment {
  return sql`
    case when retired_at is not null then 'retired' when signs_from is null then 'successor'
         when signs_until is null then 'signing' else 'old' end`;
}

/**
 * Makes the key that signs licenses and its successor if they are missing, and logs that. Warns of a key that cannot be
 * opened: the service starts, because only signed licenses need the key.
 */
export async function prepareSigningKeys(
  database: Database,
  { secrets, now, log }: { readonly secrets: Secrets; readonly now: Date; readonly log: Log },
): Promise<void> {
  const { isMade, replacesEarlier } = await ensureSigningKeys(database, { secrets, now });
  if (isMade && replacesEarlier) {
    log.warn("Made new keys to sign licenses: clients that pinned the earlier keys will refuse new licenses");
  } else if (isMade) log.info("Made the key that signs licenses, and its successor");
  for (const key of await listSigningKeys(database)) {
    const isUsed = key.state === "signing" || key.state === "successor";
    if (isUsed && openSigningKey(secrets, key) === undefined) {
      const { kid, state } = key;
      log.warn("A key that signs licenses cannot be opened: `claviger doctor` says what to do", {
        kid,
        state,
      });
    }
  }
}
