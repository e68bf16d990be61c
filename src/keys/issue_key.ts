import { type Actor, auditCte } from "../audit/mod.ts";
import type { Brand } from "../brand.ts";
import type { Database } from "../database/mod.ts";
import { newUuid, toId } from "../ids.ts";
import { type LicenseRequest, licenseCtes } from "../licensing/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { generateApiKey, type KeyMode } from "./api_key.ts";

export interface IssueRequest extends LicenseRequest {
  readonly mode: KeyMode;
}

export interface IssuedKey {
  /** `key_…`. */
  readonly id: string;
  /** The key itself. It is not stored, so it cannot be shown again. */
  readonly apiKey: string;
  /** `usr_…`. */
  readonly userId: string;
  readonly licenseUuid: string;
}

/**
 * Issues a key: creates a license with the requested tier, limit and expiry, and its first key, under the account
 * with the e-mail address or under a new account. Refuses an expiry that has passed, and a name or organization
 * that differs from those of an existing account.
 */
export async function issueKey(
  database: Database,
  request: IssueRequest,
  { brand, actor }: { readonly brand: Brand; readonly actor: Actor },
): Promise<IssuedKey | Refusal> {
  if (request.expiresAt <= request.now) {
    return refuse("INVALID_REQUEST", "Cannot issue key: the expiry lies in the past");
  }
  const { apiKey, hash, hint } = generateApiKey(brand, request.mode);
  const [row] = await database.query<{ uuid: string; accountUuid: string; licenseUuid: string }>(
    (sql) => sql`
      with ${licenseCtes(sql, request)},
      key as (
        insert into keys (id, license_id, hash, hint, mode, created_at)
        select ${newUuid()}::uuid, license.id, ${`\\x${hash}`}::text::bytea, ${hint}, ${request.mode},
               ${request.now}::timestamptz
          from license
        returning id
      ),
      made as (
        select account.id as account_id, license.id as license_id, key.id as key_id, null::jsonb as before,
               jsonb_build_object('tier', license.tier, 'mode', ${request.mode}::text,
                 'monthly_limit', license.monthly_limit, 'expires_at', license.expires_at) as after
          from account, license, key
      ),
      logged as (${auditCte(sql, { action: "key.issue", actor, at: request.now, from: sql`made` })})
      select key_id as uuid, account_id as "accountUuid", license_id as "licenseUuid" from made`,
  );
  if (row === undefined) {
    return refuse(
      "CONFLICT",
      `Cannot issue key: the account ${request.email} has another name or organization; leave them out, or ` +
        "change the account first",
    );
  }
  return {
    id: toId("key", row.uuid),
    apiKey,
    userId: toId("usr", row.accountUuid),
    licenseUuid: row.licenseUuid,
  };
}
