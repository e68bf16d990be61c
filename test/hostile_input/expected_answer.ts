/**
 * The expected answer to a request that was not mutated. Without this check, a service that refuses every
 * request would pass.
 */
import type { GeneratedRequest, Template } from "./requests.ts";

const REFUSED_FOR: Readonly<Record<string, string>> = {
  none: "MISSING_KEY",
  malformed: "INVALID_FORMAT",
  unknown: "INVALID_KEY",
  revoked: "INVALID_KEY",
  suspended: "INVALID_KEY",
  expired: "KEY_EXPIRED",
};
const WITHOUT_KEY: readonly Template[] = [
  "health",
  "healthHead",
  "openApi",
  "openApiHead",
  "jwks",
  "jwksHead",
];

/** Returns the fault of a status and a code; undefined if they are right, or if the request was mutated. */
export function checkExpectedAnswer(
  { template, role, mutations }: GeneratedRequest,
  { status, code }: { readonly status: number; readonly code: string | undefined },
): string | undefined {
  if (mutations.length > 0 || code === "RATE_LIMIT_EXCEEDED") return undefined;
  const expect = (isRight: boolean, what: string) =>
    isRight ? undefined : `${template} with the key "${role}" got ${status} ${code ?? ""}, not ${what}`;
  if (WITHOUT_KEY.includes(template)) return expect(status === 200, "200");
  if (template === "elsewhere") return expect(status === 404, "404");
  if (template === "link" || template === "linkHead")
    return expect(status === 200 || status === 401, "200 or 401");
  const refusal = REFUSED_FOR[role];
  if (template === "downloadHead") return expect(refusal === undefined || status >= 400, "a refusal");
  if (template === "revoke") {
    // Of two requests that revoke the same key at once, the second gets KEY_NOT_FOUND.
    if (role === "none" || role === "malformed") return expect(code === refusal, String(refusal));
    return expect(status === 200 || code === "KEY_NOT_FOUND", "200 or KEY_NOT_FOUND");
  }
  if (refusal !== undefined) return expect(code === refusal, refusal);
  switch (template) {
    case "validate":
      if (role === "usedUp") return expect(code === "QUOTA_EXCEEDED", "QUOTA_EXCEEDED");
      return expect(status === 200 || (role === "scarce" && code === "QUOTA_EXCEEDED"), "200");
    case "log":
      // 422: the Idempotency-Key may already be claimed by another event.
      if (code === "QUOTA_EXCEEDED") return expect(role === "usedUp" || role === "scarce", "202");
      return expect(status === 202 || status === 422, "202");
    case "license":
      // A license that counts machines is signed only for a fingerprint that holds a place.
      return expect(
        status === 200 ||
          ["OFFLINE_NOT_ALLOWED", "MACHINE_NOT_FOUND", "INVALID_REQUEST"].includes(code ?? ""),
        "200 or a refusal to sign",
      );
    case "activate":
      return expect(status === 200 || code === "MACHINE_LIMIT_REACHED", "200 or MACHINE_LIMIT_REACHED");
    case "heartbeat":
    case "release":
      return expect(status === 200 || code === "MACHINE_NOT_FOUND", "200 or MACHINE_NOT_FOUND");
    case "download":
      return expect(status === 200 || status === 403 || status === 404, "200, 403 or 404");
    case "getToken":
    case "getTokenByQuery":
    case "postToken":
      return expect(status === 200 || code === "NOT_CONFIGURED", "200");
    default:
      return expect(status === 200, "200");
  }
}
