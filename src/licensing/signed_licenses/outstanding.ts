import { toId } from "../../base/ids.ts";
import { type Database, toTextArray } from "../../database/mod.ts";

/** Licenses that were signed and have not expired: those that a client fetched, or one file that was exported. */
export interface OutstandingLicense {
  /** `key_…`. */
  readonly keyId: string;
  readonly email: string;
  readonly kind: "fetched" | "exported";
  /** The latest one. */
  readonly jti: string;
  readonly kid: string;
  readonly signedAt: Date;
  /** The latest expiry. */
  readonly expiresAt: Date;
  /** How many were signed in all; 1 for a file. */
  readonly count: number;
}

/** Lists the licenses that are still valid, the latest expiry first: at most `limit`. */
export async function listOutstanding(
  database: Database,
  {
    now,
    keyUuids,
    licenseUuid,
    limit,
  }: {
    readonly now: Date;
    /** Only the licenses of these keys: as many as an operator can select, so the statement stays small. */
    readonly keyUuids?: readonly string[] | undefined;
    readonly licenseUuid?: string | undefined;
    readonly limit: number;
  },
): Promise<OutstandingLicense[]> {
  const rows = await database.query<Omit<OutstandingLicense, "keyId"> & { readonly keyUuid: string }>(
    (sql) => sql`
      select s.key_id as "keyUuid", a.email, s.kind, s.jti, s.kid, s.signed_at as "signedAt",
             s.expires_at as "expiresAt", s.count
        from (select key_id, kid, jti, signed_at, expires_at, count, 'fetched' as kind from signed_licenses
               union all
              select key_id, kid, jti, exported_at, expires_at, 1, 'exported' from exported_licenses) as s
        join keys k on k.id = s.key_id
        join licenses l on l.id = k.license_id
        join accounts a on a.id = l.account_id
       where s.expires_at > ${now}::timestamptz
         and ${keyUuids === undefined ? sql`true` : sql`s.key_id = any(${toTextArray(keyUuids)}::uuid[])`}
         and ${licenseUuid === undefined ? sql`true` : sql`k.license_id = ${licenseUuid}::uuid`}
       order by s.expires_at desc, s.jti
       limit ${limit}::bigint`,
  );
  return rows.map(({ keyUuid: key, ...rest }) => ({ keyId: toId("key", key), ...rest }));
}
