/** The handlers of signed licenses: the license of a key, and the public keys that verify it. */
import * as v from "valibot";
import { toTimestamp } from "../base/calendar.ts";
import { isRefusal } from "../base/refusal.ts";
import { parsedField } from "../base/rule.ts";
import { NONCE, NOT_OFFLINE, SIGNED_FINGERPRINT } from "../licensing/signed_licenses/mod.ts";
import { isKnown, parseFields } from "../wire/mod.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";

/** The fields of a request for a license besides the key. */
export const licenseFields = v.object({
  nonce: v.nullish(parsedField(NONCE)),
  fingerprint: v.nullish(parsedField(SIGNED_FINGERPRINT)),
});

/** Creates the handler that signs the license of a key. It also answers when the quota is used up. */
export function license({ authenticator, clock, licenseSigner, offlineDays }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "license", body);
    if (isRefusal(record)) return record;
    const fields = parseFields(licenseFields, body);
    if (isRefusal(fields)) return fields;
    if (offlineDays[record.tier] === 0) return NOT_OFFLINE;
    const signed = await licenseSigner.sign({
      keyUuid: record.uuid,
      licenseUuid: record.licenseUuid,
      nonce: fields.nonce ?? undefined,
      fingerprint: fields.fingerprint ?? undefined,
      now: clock.now(),
    });
    if (isRefusal(signed)) return signed;
    const { claims, kid } = signed;
    return reply({
      license: signed.license,
      expires_at: toTimestamp(new Date(claims.exp * 1_000)),
      refresh_after: toTimestamp(new Date(claims.refresh_after * 1_000)),
      kid,
    });
  };
}

/** How long a client may keep the public keys. */
const MAX_AGE_SECONDS = 3_600;

/** Creates the handler of the public keys. It needs no key and has no limit, so it reads the table once a second at most. */
export function publicKeys({ publishedKeys }: HandlerDeps): Handler {
  return async ({ request }) => {
    const { body, etag } = await publishedKeys();
    const status = isKnown(request.headers.get("if-none-match"), etag) ? 304 : 200;
    return { status, body, headers: { ETag: etag, "Cache-Control": `max-age=${MAX_AGE_SECONDS}` } };
  };
}
