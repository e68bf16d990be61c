import { type Actor, auditCte } from "../../audit/mod.ts";
import { newUuid, toId } from "../../base/ids.ts";
import type { Refusal } from "../../base/refusal.ts";
import { constraintOf, type Database, type Sql } from "../../database/mod.ts";
import type { Brand } from "../mod.ts";
import {
  EXTERNAL_ID_UNIQUE,
  isErased,
  type KeyMode,
  type LicenseRequest,
  lacksPlaces,
  licenseCtes,
  mayJoin,
  type Restriction,
  refuseAccount,
  refuseNewKey,
  refusePastExpiry,
  refusePastFeature,
  refuseSeatsWithoutPlaces,
  refuseTakenExternalId,
  UNRESTRICTED,
  withTerms,
} from "../mod.ts";
import { generateApiKey, type NewApiKey } from "./api_key.ts";
import { type StoreAnswer, type StoredAnswer, storedAnswerCte } from "./store_answer.ts";

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
  readonly expiresAt: Date;
}

interface Options {
  readonly brand: Brand;
  readonly actor: Actor;
  readonly restriction?: Restriction | undefined;
  /** Stores the answer in the same statement; {@linkcode repeatIssue} reads it. */
  readonly storeAnswer?: StoreAnswer | undefined;
}

/**
 * Issues a key: creates a license with the requested tier, limits, expiry, features and values, and its first key, under the
 * account with the e-mail address or under a new account. Refuses an expiry that has passed, seat minutes without a machine
 * limit, a feature that has ended, a name or organization that differs from those of an existing account, an erased
 * account, and an external id that another license has. With a restriction, also refuses another tier or mode, a limit or an expiry beyond the
 * tier's defaults, and an existing account, unless the restriction says that the key may join it.
 *
 * @example
 * ```ts
 * const customer = { email: "ann@example.org", tier: "research", expiresAt: oneYearAfter(now) } as const;
 * const issued = await issueKey(database, { ...customer, mode: "live", now }, { brand, actor });
 * if (isRefusal(issued)) throw new Error(issued.sentence);
 * modeOf(issued.apiKey); // "live"
 * ```
 */
export async function issueKey(
  database: Database,
  request: IssueRequest,
  { brand, actor, restriction = UNRESTRICTED, storeAnswer }: Options,
): Promise<IssuedKey | Refusal> {
  // The statement inserts exactly these values, so this needs no further check in SQL.
  const restricted = refuseNewKey(restriction, request);
  if (restricted !== undefined) return restricted;
  if (request.expiresAt <= request.now) return refusePastExpiry("issue key");
  const past = refusePastFeature("issue key", request.ownFeatures, request.now);
  if (past !== undefined) return past;
  if (lacksPlaces(request)) return refuseSeatsWithoutPlaces("issue key");
  // The e-mail alone tells it: the statement makes or finds the account with exactly this e-mail.
  if (isErased(request)) return await refuseAccount(database, request.email, restriction);
  const key = generateApiKey(brand, request.mode);
  const { externalId } = request;
  let row: Row | undefined;
  try {
    [row] = await database.query<Row>((sql) =>
      issueStatement(sql, request, { key, actor, restriction, storeAnswer }),
    );
  } catch (error) {
    if (constraintOf(error) !== EXTERNAL_ID_UNIQUE) throw error;
    return await refuseTakenExternalId(database, "issue key", { externalId, restriction });
  }
  if (row !== undefined) return toIssuedKey(row, key.apiKey);
  const otherwise = await refuseAccount(database, request.email, restriction);
  // An order that was carried out more than 24 hours ago is known by its external id, not by its account.
  return mayJoin(restriction)
    ? otherwise
    : await refuseTakenExternalId(database, "issue key", { externalId, restriction, otherwise });
}

/** Returns what {@linkcode issueKey} returned, from its stored answer. */
export function repeatIssue({ answer, apiKey }: StoredAnswer): IssuedKey {
  return toIssuedKey(answer as unknown as Row, apiKey);
}

interface Row {
  readonly uuid: string;
  readonly accountUuid: string;
  readonly licenseUuid: string;
  /** A text in a stored answer. */
  readonly expiresAt: Date | string;
}

function toIssuedKey({ uuid, accountUuid, licenseUuid, expiresAt }: Row, apiKey: string): IssuedKey {
  const userId = toId("usr", accountUuid);
  return { id: toId("key", uuid), apiKey, userId, licenseUuid, expiresAt: new Date(expiresAt) };
}

function issueStatement(
  sql: Sql,
  request: IssueRequest,
  {
    key,
    actor,
    restriction = UNRESTRICTED,
    storeAnswer,
  }: Omit<Options, "brand"> & { readonly key: NewApiKey },
) {
  return sql<Row[]>`
    with ${licenseCtes(sql, { ...request, joins: mayJoin(restriction) })},
    key as (
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select ${newUuid()}::uuid, license.id, ${`\\x${key.hash}`}::text::bytea, ${key.hint}, ${request.mode},
             ${request.now}::timestamptz
        from license
      returning id
    ),
    made as (
      select account.id as account_id, license.id as license_id, key.id as key_id, null::jsonb as before,
             license.expires_at,
             jsonb_build_object('tier', license.tier, 'mode', ${request.mode}::text,
               'monthly_limit', license.monthly_limit, 'expires_at', license.expires_at)
               ${withTerms(sql, sql`license`)} as after
        from account, license, key
    ),
    logged as (${auditCte(sql, { action: "key.issue", actor, at: request.now, from: sql`made` })})
    ${storedAnswerCte(sql, storeAnswer, {
      from: sql`made`,
      answer: sql`jsonb_build_object('uuid', key_id, 'accountUuid', account_id, 'licenseUuid', license_id,
                    'expiresAt', expires_at)`,
      apiKey: key.apiKey,
    })}
    select key_id as uuid, account_id as "accountUuid", license_id as "licenseUuid", expires_at as "expiresAt"
      from made`;
}
