/** Signed licenses: the license of a key, and the public keys that verify it. */
import * as v from "valibot";
import { toTimestamp } from "../base/calendar.ts";
import { isRefusal } from "../base/refusal.ts";
import { numberField, parsedField } from "../base/rule.ts";
import { NONCE, SIGNED_DAYS, SIGNED_FINGERPRINT } from "../licensing/signed_licenses/mod.ts";
import { checkTag, parseFields } from "../wire/mod.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import {
  type EndpointOperation,
  jsonBody,
  type Operations,
  WITH_BODY,
  WITH_GOOD_KEY,
  withHead,
} from "./operation.ts";

/** The fields of a request for a license besides the key. */
export const licenseFields = v.object({
  nonce: v.nullish(parsedField(NONCE)),
  fingerprint: v.nullish(parsedField(SIGNED_FINGERPRINT)),
  days: v.nullish(numberField(SIGNED_DAYS)),
});

/** What the request for a signed license does. */
export const LICENSE: EndpointOperation = {
  id: "getLicense",
  summary: "Get a signed license, to be verified without a network",
  description:
    "A compact JWS (EdDSA). Verify it with the keys of `/.well-known/jwks.json`, which a client should pin. Also " +
    "works when the quota is used up. It is valid for `days`, at most as many as the license allows, or without them for as " +
    "many as that. If the license counts machines, it is signed only for an active one (`fingerprint` of " +
    "8 to 200 characters), whose place is then taken until the end of the signed license, also if it is released.",
  request: jsonBody("LicenseRequest", { fingerprint: "workstation-7" }),
  success: {
    schema: "License",
    description: "The license",
    example: {
      license: "eyJhbGciOiJFZERTQSIsInR5cCI6ImxpY2Vuc2Urand0Iiwia2lkIjoi….….…",
      expires_at: "2026-11-27T00:00:00Z",
      refresh_after: "2026-11-23T12:00:00Z",
      kid: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
    },
  },
  codes: [...WITH_GOOD_KEY, ...WITH_BODY, "OFFLINE_NOT_ALLOWED", "MACHINE_NOT_FOUND"],
};

/** Creates the handler that signs the license of a key. It also answers when the quota is used up. */
export function license({ authenticator, clock, licenseSigner }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "license", body);
    if (isRefusal(record)) return record;
    const fields = parseFields(licenseFields, body);
    if (isRefusal(fields)) return fields;
    const signed = await licenseSigner.sign({
      keyUuid: record.uuid,
      licenseUuid: record.licenseUuid,
      nonce: fields.nonce ?? undefined,
      fingerprint: fields.fingerprint ?? undefined,
      days: fields.days ?? undefined,
      actor: authenticator.actorOf(exchange),
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

/** What the request for the public keys does. */
export const PUBLIC_KEYS: Operations = withHead(
  {
    id: "getPublicKeys",
    summary: "Get the public keys that verify signed licenses",
    description: "The signing key, its successor, and older keys whose licenses may still be in use.",
    success: { schema: "PublicKeys", description: "A JWK set", headers: ["ETag"] },
    others: [{ status: 304, description: "The keys have not changed", headers: ["ETag"] }],
    codes: ["PRECONDITION_FAILED", "SERVICE_UNAVAILABLE"],
  },
  "The headers alone",
);

/** How long a client may keep the public keys. */
const MAX_AGE_SECONDS = 3_600;

/** Creates the handler of the public keys. It needs no key and has no limit, so it reads the table once a second at most. */
export function publicKeys({ publishedKeys }: HandlerDeps): Handler {
  return async ({ request }) => {
    const { body, etag } = await publishedKeys();
    const checked = checkTag(request.headers, etag);
    if (isRefusal(checked)) return checked;
    const status = checked === "known" ? 304 : 200;
    return { status, body, headers: { ETag: etag, "Cache-Control": `max-age=${MAX_AGE_SECONDS}` } };
  };
}
