/** The handlers of validate, refresh and revoke. */
import * as v from "valibot";
import { monthOf } from "../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { CLIENT_REFUSALS, type KeyRecord, renderKeyHash, revokeKey } from "../licensing/keys/mod.ts";
import { andThen, optionalText, parseFields } from "../wire/mod.ts";
import { type Outcome, reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { isUsedUp, renderRefresh, renderValidate } from "./license_answer.ts";

/** Creates the handler that checks a key and returns its account, tier, features and quota. */
export function validate({ authenticator, clock }: HandlerDeps): Handler {
  const answer = (record: KeyRecord | Refusal): Outcome => {
    if (isRefusal(record)) return record;
    const month = monthOf(clock.nowMs());
    return isUsedUp(record, month)
      ? CLIENT_REFUSALS.quota_used_up
      : { status: 200, body: renderValidate(record, month) };
  };
  return (exchange, body) => andThen(authenticator.authenticate(exchange, "validate", body), answer);
}

/** Creates the handler that returns tier and quota, also when the quota is used up: clients need the reset time. */
export function refresh({ authenticator, clock }: HandlerDeps): Handler {
  const answer = (record: KeyRecord | Refusal): Outcome => {
    if (isRefusal(record)) return record;
    return { status: 200, body: renderRefresh(record, monthOf(clock.nowMs())) };
  };
  return (exchange, body) => andThen(authenticator.authenticate(exchange, "refresh", body), answer);
}

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
    const address = authenticator.addressOf(exchange);
    const actor = {
      kind: "http",
      name: address,
      address,
      request: exchange.id,
      reason: fields.reason ?? undefined,
    } as const;
    const key = { hash: renderKeyHash(found.hash), licenseUuid };
    const revoked = await revokeKey(licenseChanges, key, { actor, now: clock.now() });
    if (isRefusal(revoked)) return revoked;
    return reply({ revoked: true, message: "The API key has been revoked permanently" });
  };
}
