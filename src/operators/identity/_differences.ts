/** Finds the two values that differ in an answer of the provider, which its administrator has to compare. */
import { escapeControls } from "../../base/text/mod.ts";

/** What the causes of errors of `openid-client` have. None of it is documented, so any of it may be missing. */
interface Cause {
  readonly expected?: unknown;
  readonly header?: { readonly alg?: unknown };
  readonly alg?: unknown;
  readonly claim?: unknown;
  readonly claims?: { readonly iss?: unknown };
  readonly parameters?: URLSearchParams;
  readonly attribute?: unknown;
  readonly body?: { readonly issuer?: unknown };
  readonly cause?: unknown;
}

const MOST_CHARACTERS = 200;
/**
 * The algorithms that providers offer, of those that the library takes. HS256 is not among them: whoever knows the secret
 * of the client could sign with it.
 */
const OFFERED = "RS256, PS256, ES256 and EdDSA";

/** Shows a value of the provider: an issuer, or the name of an algorithm. */
export function showValue(value: unknown): string {
  return escapeControls(String(value).slice(0, MOST_CHARACTERS));
}

/** Says which two algorithms or issuers differ; undefined if the fault is another one. */
export function differenceIn(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { expected, header, alg, claim, claims, parameters, cause }: Cause = error;
  const announced = showValue([expected].flat().join(" or "));
  if (header?.alg !== undefined && expected !== undefined)
    return `it signed its ID token with ${showValue(header.alg)}, but announces ${announced}`;
  if (alg !== undefined)
    return `it signed its ID token with ${showValue(alg)}, but this service takes ${OFFERED}`;
  const issuer = claim === "iss" ? claims?.iss : parameters?.get("iss");
  // If the state is the fault, `expected` is the state.
  const isIssuer = typeof expected === "string" && URL.canParse(expected);
  if (typeof issuer === "string" && isIssuer && issuer !== expected)
    return `it is ${showValue(issuer)} in its answer, but announces the issuer ${announced}`;
  return differenceIn(cause);
}

/** Returns the issuer that the provider announces, out of the error that it is another one. */
export function issuerIn(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { attribute, body, cause }: Cause = error;
  if (attribute === "issuer" && typeof body?.issuer === "string") return body.issuer;
  return issuerIn(cause);
}
