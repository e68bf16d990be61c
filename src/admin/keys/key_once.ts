/**
 * Makes a key once for each `Idempotency-Key`: a repeated request gets the stored answer if the token may still receive
 * this key.
 */

import { parseId } from "../../ids.ts";
import { findKey, type StoreAnswer } from "../../keys/mod.ts";
import { refuseRestricted } from "../../licensing/mod.ts";
import { answerOnce, type StoredAnswer } from "../../operators/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { pathOf } from "../../wire/mod.ts";
import type { Call } from "../frame/api/operation.ts";
import type { AdminOptions } from "../frame/options.ts";

interface Making<Made> {
  /** The action for the refusal if the token may not have the key any more, such as `issue key`. */
  readonly what: string;
  /** Makes the key with one statement, which stores the answer, too. */
  perform(storeAnswer: StoreAnswer): Promise<Made | Refusal>;
  repeat(stored: StoredAnswer): Made | Refusal;
}

/**
 * Makes a key, or repeats the answer. If the token was restricted or the license got another tier since the first
 * answer, the key is not given out again.
 */
export async function answerKeyOnce<Made extends { readonly id: string }>(
  { database, secrets }: AdminOptions,
  { token, now, restriction, request, idempotencyKey, ...call }: Call & { readonly body: object },
  { what, perform, repeat }: Making<Made>,
): Promise<Made | Refusal> {
  let isRepeated = false;
  const made = await answerOnce<Made>(
    database,
    {
      tokenUuid: token.uuid,
      key: idempotencyKey,
      request: JSON.stringify([request.method, pathOf(request), Object.entries(call.body).sort()]),
    },
    {
      secrets,
      now,
      perform,
      repeat(stored) {
        isRepeated = true;
        return repeat(stored);
      },
    },
  );
  if (isRefusal(made) || !isRepeated) return made;
  const key = await findKey(database, { uuid: parseId("key", made.id) ?? "" }, { now, restriction });
  return key === undefined ? refuseRestricted(what) : made;
}
