/**
 * Signs licenses. One statement reads key, license, quota and signing key, and notes what will be signed; the signature
 * is made after it. So every license that exists is noted, and none is signed with a key that was retired.
 */
import type { KeyObject } from "node:crypto";
import { type Actor, auditCte, nameOfActor } from "../audit/mod.ts";
import type { Brand } from "../brand.ts";
import { monthOf, toTimestamp } from "../calendar.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { newUuid, toId } from "../ids.ts";
import {
  allowsRow,
  effectiveLimit,
  featuresOf,
  NEVER_EXPIRES,
  type OfflineDays,
  REVOKED,
  type Restriction,
  refuseRestricted,
  refuseUnknownKey,
  TIERS,
  type Tier,
  UNRESTRICTED,
} from "../licensing/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import type { Secrets } from "../secrets/mod.ts";
import { signClaims } from "./jws.ts";
import { openSigningKey } from "./signing_keys.ts";

export interface LicenseRequest {
  readonly keyUuid: string;
  /** Repeated in the license, so that a client can tell that the answer is the one to its request. */
  readonly nonce?: string | undefined;
  /** The machine, as the client names it. It is signed and never stored. */
  readonly fingerprint?: string | undefined;
  readonly now: Date;
}

export interface ExportRequest extends LicenseRequest {
  /** The days that the operator chose, in place of the tier's. */
  readonly days: number;
  readonly actor: Actor;
  readonly restriction?: Restriction | undefined;
}

export interface SignedLicense {
  /** A compact JWS. */
  readonly license: string;
  readonly claims: LicenseClaims;
  readonly kid: string;
}

/** What a license says. Times are Unix seconds, unless they end in `_at`. */
export interface LicenseClaims {
  readonly iss: string;
  readonly aud: string;
  /** `lic_…`. */
  readonly sub: string;
  readonly jti: string;
  readonly iat: number;
  readonly nbf: number;
  readonly exp: number;
  /** Half-way between `iat` and `exp`. */
  readonly refresh_after: number;
  readonly key_id: string;
  readonly user_id: string;
  readonly mode: "live" | "test";
  readonly license_type: Tier;
  readonly features: readonly string[];
  readonly quota: {
    /** Null means unlimited. */
    readonly monthly_limit: number | null;
    readonly used: number;
    readonly as_of: string;
    readonly resets_at: string;
  };
  /** Absent for a license that never ends. */
  readonly license_expires_at?: string;
  readonly nonce?: string;
  readonly fingerprint?: string;
}

export interface LicenseSigner {
  /**
   * Signs the license of an active key for as many days as its tier allows, but not beyond the end of the key or its
   * license. Refuses a key that is not active (`INVALID_KEY`) or has expired (`KEY_EXPIRED`), and a tier that gets no
   * license (`OFFLINE_NOT_ALLOWED`).
   */
  sign(request: LicenseRequest): Promise<SignedLicense | Refusal>;
  /** Signs like {@linkcode LicenseSigner.sign}, but for the days that an operator chose. The audit log notes it. */
  export(request: ExportRequest): Promise<SignedLicense | Refusal>;
}

export interface LicenseSignerOptions {
  readonly database: Database;
  readonly brand: Brand;
  /** The address at which clients reach the service; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  readonly offlineDays: OfflineDays;
  readonly secrets: Secrets;
}

const NOT_ACTIVE = refuse("INVALID_KEY", "The API key is invalid or inactive");
const EXPIRED = refuse("KEY_EXPIRED", "The API key has expired");
const NOT_OFFLINE = refuse(
  "OFFLINE_NOT_ALLOWED",
  "Licenses of this tier are not signed for use without a network",
);
/** Only within the moment of a rotation or a retirement. */
const NO_SIGNING_KEY = refuse("SERVICE_UNAVAILABLE", "No key can sign the license now; try again");

/** Creates the signer. It keeps the private keys that it has opened. */
export function createLicenseSigner(options: LicenseSignerOptions): LicenseSigner {
  const { database, secrets, offlineDays } = options;
  const opened = new Map<string, KeyObject>();

  function keyOf(row: SignerRow): KeyObject {
    const kept = opened.get(row.kid);
    if (kept !== undefined) return kept;
    const key = openSigningKey(secrets, row);
    if (key === undefined)
      throw new Error(`The signing key ${row.kid} cannot be opened with this root secret`);
    opened.set(row.kid, key);
    return key;
  }

  async function signNoted(
    request: LicenseRequest,
    {
      refuseRow,
      note,
    }: {
      readonly refuseRow: (row: Row | undefined, request: LicenseRequest) => Refusal | undefined;
      readonly note: (sql: Sql, jti: string) => Noting;
    },
  ) {
    const jti = newUuid();
    const [row] = await database.query<Row>((sql) => statementOf(sql, request, note(sql, jti)));
    const refused = refuseRow(row, request);
    if (refused !== undefined) return refused;
    if (row?.exp == null) return EXPIRED;
    if (row.kid === null) return NO_SIGNING_KEY;
    const signer = { kid: row.kid, publicKey: row.publicKey ?? "", sealed: row.sealed ?? "" };
    const claims = toClaims({ ...row, exp: row.exp, jti }, request, options);
    return { license: signClaims(claims, { kid: row.kid, privateKey: keyOf(signer) }), claims, kid: row.kid };
  }

  return {
    sign: (request) =>
      signNoted(request, {
        refuseRow: refuseClient,
        note: (sql, jti) => noteFetched(sql, { jti, offlineDays, ...request }),
      }),
    export: (request) =>
      signNoted(request, {
        refuseRow: refuseExport,
        note: (sql, jti) => noteExported(sql, { jti, ...request }),
      }),
  };
}

function refuseClient(row: Row | undefined, { now }: LicenseRequest): Refusal | undefined {
  if (row === undefined || row.state !== "active") return NOT_ACTIVE;
  if (row.endsAt <= now) return EXPIRED;
  return row.days === 0 ? NOT_OFFLINE : undefined;
}

/** Operators see the state of the key. */
function refuseExport(row: Row | undefined, { keyUuid, now }: LicenseRequest): Refusal | undefined {
  const what = "export license";
  if (row === undefined) return refuseUnknownKey(what, keyUuid);
  if (!row.isAllowed) return refuseRestricted(what);
  if (row.state === "revoked") return refuse("CONFLICT", `Cannot ${what}: ${REVOKED}`);
  if (row.state === "suspended")
    return refuse("CONFLICT", `Cannot ${what}: the key is suspended; resume it first`);
  return row.endsAt <= now
    ? refuse("CONFLICT", `Cannot ${what}: the key has expired; renew its license first`)
    : undefined;
}

/** Notes a license that a client fetches: one row for each key and signing key. */
function noteFetched(
  sql: Sql,
  { jti, now, offlineDays }: LicenseRequest & { readonly jti: string; readonly offlineDays: OfflineDays },
): Noting {
  return {
    days: sql`case l.tier ${TIERS.map((tier) => sql`when ${tier} then ${offlineDays[tier]}::int`)} end`,
    allowed: sql`true`,
    ctes: sql`
      noted as (
        insert into signed_licenses as s (key_id, kid, jti, expires_at, signed_at, count)
        select key_id, kid, ${jti}::uuid, exp, ${now}::timestamptz, 1 from terms, signer
        on conflict (key_id, kid) do update
          set jti = excluded.jti, expires_at = greatest(s.expires_at, excluded.expires_at),
              signed_at = excluded.signed_at, count = s.count + 1
      )`,
  };
}

/** Notes a license that an operator exports, with a row of its own and one of the audit log. */
function noteExported(
  sql: Sql,
  { jti, now, days, actor, restriction = UNRESTRICTED }: ExportRequest & { readonly jti: string },
): Noting {
  return {
    days: sql`${days}::int`,
    allowed: allowsRow(sql, restriction),
    ctes: sql`
      noted as (
        insert into exported_licenses (jti, key_id, kid, expires_at, exported_at, exported_by)
        select ${jti}::uuid, key_id, kid, exp, ${now}::timestamptz, ${nameOfActor(actor)} from terms, signer
        returning key_id, kid, expires_at
      ),
      changed as (
        select subject.account_id, subject.license_id, subject.key_id, null::jsonb as before,
               jsonb_build_object('jti', ${jti}::text, 'signing_key', noted.kid, 'expires_at', noted.expires_at) as after
          from subject join noted using (key_id)
      ),
      logged as (${auditCte(sql, { action: "license.export", actor, at: now, from: sql`changed` })})`,
  };
}

/** What differs between the two ways to sign. */
interface Noting {
  /** The days that the license is valid, of the row `l`. */
  readonly days: Fragment;
  /** The condition that the actor may sign for the rows `k` and `l`. */
  readonly allowed: Fragment;
  /** The CTEs that note the license, from `subject`, `terms` and `signer`. */
  readonly ctes: Fragment;
}

interface SignerRow {
  readonly kid: string;
  readonly publicKey: string;
  readonly sealed: string;
}

interface Row {
  readonly uuid: string;
  readonly licenseUuid: string;
  readonly accountUuid: string;
  readonly mode: "live" | "test";
  readonly state: string;
  readonly tier: Tier;
  readonly monthlyLimit: number | null;
  readonly used: number;
  readonly licenseExpiresAt: Date;
  readonly endsAt: Date;
  readonly days: number;
  /** Whether the actor may sign for this key. */
  readonly isAllowed: boolean;
  /** Null if the license was not noted. */
  readonly exp: Date | null;
  readonly kid: string | null;
  readonly publicKey: string | null;
  readonly sealed: string | null;
}

function statementOf(sql: Sql, { keyUuid, now }: LicenseRequest, { days, allowed, ctes }: Noting) {
  return sql`
    with signer as materialized (
      select kid, public_key, sealed from signing_keys
       where signs_from <= clock_timestamp() and retired_at is null
         and (signs_until is null or signs_until > clock_timestamp())
       order by generation desc limit 1
      -- Whoever retires a key locks it first, so a key that is being retired signs nothing more.
         for key share
    ),
    subject as (
      select k.id as key_id, l.id as license_id, l.account_id, k.mode, k.state, l.tier, ${effectiveLimit(sql)} as monthly_limit,
             coalesce(u.used, 0) as used, l.expires_at as license_expires_at,
             least(l.expires_at, k.own_expires_at) as ends_at, ${days} as days, ${allowed} as is_allowed
        from keys k
        join licenses l on l.id = k.license_id
        left join usage u on u.license_id = l.id and u.month = ${monthOf(now.getTime()).firstDay}::date
       where k.id = ${keyUuid}::uuid
    ),
    terms as (
      select key_id, exp
        from subject,
             date_trunc('second', least(ends_at, ${now}::timestamptz + days * interval '24 hours')) as exp
       where state = 'active' and is_allowed and days > 0 and exp > ${now}::timestamptz
    ),
    ${ctes}
    select subject.key_id as uuid, license_id as "licenseUuid", account_id as "accountUuid", mode, state, tier,
           monthly_limit as "monthlyLimit", used, license_expires_at as "licenseExpiresAt", ends_at as "endsAt", days,
           is_allowed as "isAllowed",
           exp, kid, public_key as "publicKey", sealed
      from subject left join terms using (key_id) left join signer on true`;
}

function toClaims(
  row: Row & { readonly exp: Date; readonly jti: string },
  { nonce, fingerprint, now }: LicenseRequest,
  { brand, publicUrl }: LicenseSignerOptions,
): LicenseClaims {
  const iat = Math.floor(now.getTime() / 1_000);
  const exp = Math.floor(row.exp.getTime() / 1_000);
  return {
    iss: publicUrl ?? brand.name,
    aud: brand.name,
    sub: toId("lic", row.licenseUuid),
    jti: row.jti,
    iat,
    nbf: iat,
    exp,
    refresh_after: iat + Math.floor((exp - iat) / 2),
    key_id: toId("key", row.uuid),
    user_id: toId("usr", row.accountUuid),
    mode: row.mode,
    license_type: row.tier,
    features: featuresOf(row.tier),
    quota: {
      monthly_limit: row.monthlyLimit,
      used: row.used,
      as_of: toTimestamp(now),
      resets_at: monthOf(now.getTime()).resetsAt,
    },
    ...(row.licenseExpiresAt < NEVER_EXPIRES && { license_expires_at: toTimestamp(row.licenseExpiresAt) }),
    ...(nonce !== undefined && { nonce }),
    ...(fingerprint !== undefined && { fingerprint }),
  };
}
