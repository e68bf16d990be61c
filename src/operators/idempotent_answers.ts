/**
 * Answers to requests with an `Idempotency-Key`: for 24 hours the same header from the same token gets the same answer,
 * with its API key.
 *
 * The statement that issues the key also inserts the row of the answer. Of two simultaneous requests, one violates the
 * row's unique constraint: its whole statement is rolled back, and it reads the answer of the other request. The API
 * key is sealed with a key derived from the root secret and the raw `Idempotency-Key`, of which only a hash is stored.
 * So the database and the root secret together are not enough to open an answer.
 */

import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import type { Secrets } from "../base/secrets/mod.ts";
import { constraintOf, type Database, type Fragment, type Sql } from "../database/mod.ts";
import type { MadeKey, StoreAnswer, StoredAnswer } from "../licensing/keys/mod.ts";
import { hashOf } from "./_secret_text.ts";

/** A request that is carried out once, however often it is sent. */
interface RepeatableRequest {
  /** The UUID of the token; renewing the token keeps it. */
  readonly tokenUuid: string;
  /** The header `Idempotency-Key`, as it was sent. */
  readonly key: string;
  /** A text that only equal requests share: method, path, and the fields of the body in a fixed order. */
  readonly request: string;
}

interface OnceOptions<Result> {
  readonly secrets: Secrets;
  readonly now: Date;
  /** Carries the request out, with one statement that stores the answer, too. */
  perform(storeAnswer: StoreAnswer): Promise<Result | Refusal>;
}

const PURPOSE = "idempotent-answer";
/** How long an answer is repeated. */
const ANSWERS_KEPT_HOURS = 24;

/**
 * Carries a request out, or returns its stored answer if it was carried out in the last 24 hours. Refuses an
 * `Idempotency-Key` that was sent with another request (`CLAIM_MISMATCH`).
 */
export async function answerOnce<Result>(
  database: Database,
  request: RepeatableRequest,
  { secrets, now, perform }: OnceOptions<Result>,
): Promise<Result | StoredAnswer | Refusal> {
  const find = () => findAnswer(database, request, { secrets, now });
  const known = await find();
  if (known !== undefined) return known;
  try {
    const result = await perform((sql, made) => answerCte(sql, request, { ...made, secrets, now }));
    // The same request at the same moment can cause the refusal: it rotated the key, or took the external id.
    return isRefusal(result) ? ((await find()) ?? result) : result;
  } catch (error) {
    if (constraintOf(error) !== "idempotent_answers_pkey") throw error;
    const other = await find();
    if (other === undefined) throw error;
    return other;
  }
}

function answerCte(
  sql: Sql,
  { tokenUuid, key, request }: RepeatableRequest,
  { from, answer, apiKey, secrets, now }: MadeKey & { readonly secrets: Secrets; readonly now: Date },
): Fragment {
  return sql`
    insert into idempotent_answers (token_id, key_hash, request_digest, answer, sealed_api_key, created_at)
    select ${tokenUuid}::uuid, ${hashOf(key)}::text::bytea, ${hashOf(request)}::text::bytea, ${answer},
           ${secrets.derive(PURPOSE, key).seal(PURPOSE, apiKey, tokenUuid)}::text, ${now}::timestamptz
      from ${from}`;
}

/** Finds the answer to an equal request. Deletes an older one, whose row would prevent a new answer. */
async function findAnswer(
  database: Database,
  { tokenUuid, key, request }: RepeatableRequest,
  { secrets, now }: { readonly secrets: Secrets; readonly now: Date },
): Promise<StoredAnswer | Refusal | undefined> {
  const [row] = await database.query<{
    answer: StoredAnswer["answer"];
    sealedApiKey: string;
    isSame: boolean;
  }>(
    (sql) => sql`
      with old as (
        delete from idempotent_answers
         where token_id = ${tokenUuid}::uuid and key_hash = ${hashOf(key)}::text::bytea and ${isOldAnswer(sql, now)}
      )
      select answer, sealed_api_key as "sealedApiKey", request_digest = ${hashOf(request)}::text::bytea as "isSame"
        from idempotent_answers
       where token_id = ${tokenUuid}::uuid and key_hash = ${hashOf(key)}::text::bytea and not ${isOldAnswer(sql, now)}`,
  );
  if (row === undefined) return undefined;
  if (!row.isSame) {
    return refuse(
      "CLAIM_MISMATCH",
      "The Idempotency-Key was sent with another request before; use a new one",
    );
  }
  const apiKey = secrets.derive(PURPOSE, key).open(PURPOSE, row.sealedApiKey, tokenUuid);
  if (apiKey === undefined) throw new Error("Cannot open the stored answer to a repeated request");
  return { answer: row.answer, apiKey };
}

/** Returns the condition of an answer that is not repeated any more. */
export function isOldAnswer(sql: Sql, now: Date): Fragment {
  return sql`(created_at <= ${now}::timestamptz - ${ANSWERS_KEPT_HOURS} * interval '1 hour')`;
}
