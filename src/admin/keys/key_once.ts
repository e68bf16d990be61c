/**
 * A key is made once for each `Idempotency-Key`, in this order: `answerOnce` looks for a stored answer; without one it
 * calls `perform`, whose statement makes the key and stores the answer; if an equal request was faster, the statement
 * takes no effect and `answerOnce` looks again. A stored answer goes through `repeat`, and is checked for this token.
 */
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { findKey, type StoreAnswer, type StoredAnswer } from "../../licensing/keys/mod.ts";
import { refuseRestricted } from "../../licensing/mod.ts";
import { answerOnce } from "../../operators/mod.ts";
import { pathOf } from "../../wire/mod.ts";
import type { Call } from "../frame/api/route.ts";
import type { AdminOptions } from "../frame/options.ts";

interface Making<Made> {
  /** The action for the refusal if the token may not have the key any more, such as `issue key`. */
  readonly what: string;
  /** Makes the key with one statement, which stores the answer, too. */
  perform(storeAnswer: StoreAnswer): Promise<Made | Refusal>;
  /** Returns what `perform` returned; refuses a token that could not make the key now. */
  repeat(stored: StoredAnswer): Made | Refusal;
}

/**
 * Makes a key once for each `Idempotency-Key`. A repeated request gets the stored answer if the token may still receive
 * this key: it may have been restricted since the first answer, or the license may have got another tier.
 */
export async function answerKeyOnce<Made extends { readonly id: string }>(
  { database, secrets }: AdminOptions,
  { token, now, restriction, request, idempotencyKey, body }: Call & { readonly body: object },
  { what, perform, repeat }: Making<Made>,
): Promise<Made | Refusal> {
  const order = {
    tokenUuid: token.uuid,
    key: idempotencyKey,
    request: JSON.stringify([request.method, pathOf(request), Object.entries(body).sort()]),
  };
  const answer = await answerOnce(database, order, { secrets, now, perform });
  if (isRefusal(answer) || !("answer" in answer)) return answer;
  const repeated = repeat(answer);
  if (isRefusal(repeated)) return repeated;
  const key = await findKey(database, { uuid: parseId("key", repeated.id) ?? "" }, { now, restriction });
  return key === undefined ? refuseRestricted(what) : repeated;
}
