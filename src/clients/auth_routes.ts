/** Validate, refresh and revoke. */
import * as v from "valibot";
import { monthOf } from "../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { type KeyRecord, OBSTACLE_REFUSALS, renderKeyHash, revokeKey } from "../licensing/keys/mod.ts";
import { type Eventually, optionalText, parseFields } from "../wire/mod.ts";
import type { Authenticator } from "./authenticate.ts";
import { type Exchange, type Outcome, reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { isUsedUp, renderRefresh, renderValidate } from "./license_answer.ts";
import {
  type EndpointOperation,
  EXAMPLE_LICENSE,
  jsonBody,
  WITH_BODY,
  WITH_GOOD_KEY,
  WITH_KEY,
} from "./operation.ts";

/** What validate does. */
export const VALIDATE: EndpointOperation = {
  id: "validateKey",
  summary: "Check a key",
  description: "Returns its account, tier, features and quota.",
  request: jsonBody("KeyRequest", {}),
  success: {
    schema: "Validation",
    description: "The key is valid",
    example: {
      valid: true,
      user_id: "usr_019a0000000070008000000000000000",
      email: "ada@example.org",
      name: "Ada",
      organization: "Example Laboratory",
      ...EXAMPLE_LICENSE,
    },
  },
  codes: [...WITH_GOOD_KEY, ...WITH_BODY, "QUOTA_EXCEEDED"],
};

/** Creates the handler that checks a key and returns its account, tier, features and quota. */
export function validate({ authenticator, clock }: HandlerDeps): Handler {
  const answer = (record: KeyRecord | Refusal): Outcome => {
    if (isRefusal(record)) return record;
    const month = monthOf(clock.nowMs());
    return isUsedUp(record, month)
      ? OBSTACLE_REFUSALS.quota_used_up
      : { status: 200, body: renderValidate(record, month) };
  };
  return answersWith(authenticator, "validate", answer);
}

type FoundRecord = KeyRecord | Refusal;
type Answer = (record: FoundRecord) => Outcome;

/** Returns the handler that answers with the record of the key, whose term has begun. */
function answersWith(
  authenticator: Authenticator,
  endpoint: "validate" | "refresh",
  answer: Answer,
): Handler {
  return (exchange, body) => {
    const found = authenticator.authenticate(exchange, endpoint, body);
    return isFinal(exchange, found)
      ? answer(found)
      : startAndAnswer(authenticator, exchange, { found, answer });
  };
}

/** Tells whether the record is known, and the term of its license has begun. */
function isFinal({ record }: Exchange, found: Eventually<FoundRecord>): found is FoundRecord {
  return !(found instanceof Promise) && record?.state !== "unstarted";
}

/** Answers when the record is known. If it would be accepted and its license is unstarted, the term starts first. */
async function startAndAnswer(
  authenticator: Authenticator,
  exchange: Exchange,
  { found, answer }: { readonly found: Eventually<FoundRecord>; readonly answer: Answer },
): Promise<Outcome> {
  const record = await found;
  const outcome = answer(record);
  if (isRefusal(record) || isRefusal(outcome) || record.state !== "unstarted") return outcome;
  return answer(await authenticator.startTerm(exchange, record));
}

/** What refresh does. */
export const REFRESH: EndpointOperation = {
  id: "refreshKey",
  summary: "Get a key's license and quota again",
  description: "Also works when the quota is used up.",
  request: jsonBody("KeyRequest", {}),
  success: {
    schema: "Refresh",
    description: "The key is valid",
    example: { valid: true, ...EXAMPLE_LICENSE },
  },
  codes: [...WITH_GOOD_KEY, ...WITH_BODY],
};

/** Creates the handler that returns tier and quota, also when the quota is used up: clients need the reset time. */
export function refresh({ authenticator, clock }: HandlerDeps): Handler {
  const answer = (record: KeyRecord | Refusal): Outcome => {
    if (isRefusal(record)) return record;
    return { status: 200, body: renderRefresh(record, monthOf(clock.nowMs())) };
  };
  return answersWith(authenticator, "refresh", answer);
}

/** What revoke does. */
export const REVOKE: EndpointOperation = {
  id: "revokeKey",
  summary: "Revoke a key permanently",
  description: "A suspended or expired key can be revoked too. A revocation cannot be undone.",
  request: jsonBody("RevocationRequest", { reason: "A laptop was lost" }),
  success: {
    schema: "Revocation",
    description: "From now on the key is refused",
    example: { revoked: true, message: "The API key has been revoked permanently" },
  },
  codes: [...WITH_KEY, ...WITH_BODY, "KEY_NOT_FOUND"],
};

/** The fields of a revocation besides the key. */
export const revocation = v.object({ reason: optionalText(2_000) });

const NOT_FOUND = "API key not found or already revoked";
const UNKNOWN_KEY = refuse("KEY_NOT_FOUND", NOT_FOUND, { reason: "unknown" });
const REVOKED_KEY = refuse("KEY_NOT_FOUND", NOT_FOUND, { reason: "revoked" });

/** Creates the handler that revokes a key permanently. */
export function revoke({ authenticator, licenseChanges, clock }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const found = await authenticator.identify(exchange, "revoke", body);
    if (isRefusal(found)) return found;
    if (found.record === null) return UNKNOWN_KEY;
    if (found.record.state === "revoked") return REVOKED_KEY;
    const fields = parseFields(revocation, body);
    if (isRefusal(fields)) return fields;
    const { licenseUuid } = found.record;
    const actor = { ...authenticator.actorOf(exchange), reason: fields.reason ?? undefined };
    const key = { hash: renderKeyHash(found.hash), licenseUuid };
    const revoked = await revokeKey(licenseChanges, key, { actor, now: clock.now() });
    if (isRefusal(revoked)) return revoked;
    return reply({ revoked: true, message: "The API key has been revoked permanently" });
  };
}
