import { type Verified, verifySignature } from "./jws.ts";

/** How far the signer's clock may be ahead of this clock. */
const TOLERANCE_SECONDS = 300;

/** A verified license; `why` says why it is not valid now. */
export type Checked = Verified & { readonly why?: string };

/**
 * Verifies a license as a client must: signature, audience and times. Returns the license claims and, if the
 * license is not valid now, the reason. It cannot find out whether the key was revoked since.
 */
export function checkLicense(
  jws: string,
  {
    trusted,
    audience,
    now,
  }: { readonly trusted: readonly string[]; readonly audience?: string; readonly now: Date },
): Checked {
  const verified = verifySignature(jws, trusted);
  if (!verified.ok) return verified;
  const { aud, exp, nbf, iat } = verified.claims;
  const seconds = now.getTime() / 1_000;
  if (!isTime(exp) || !isTime(nbf) || !isTime(iat)) return { ...verified, why: "it has no times" };
  if (audience !== undefined && aud !== audience) {
    const why = typeof aud === "string" ? `it is for ${aud}, not for ${audience}` : "its audience is no text";
    return { ...verified, why };
  }
  if (exp <= seconds) return { ...verified, why: "it has expired" };
  if (Math.max(nbf, iat) > seconds + TOLERANCE_SECONDS) return { ...verified, why: "it is not valid yet" };
  return verified;
}

/** Tells whether a value of a license is a time: whole Unix seconds that a `Date` can hold. */
export function isTime(value: unknown): value is number {
  return Number.isInteger(value) && !Number.isNaN(new Date(Number(value) * 1_000).getTime());
}
