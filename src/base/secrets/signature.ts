/**
 * Signatures that only the holder of the root secret can make: HMAC-SHA256 over a list of fields, with a key
 * for one purpose, derived with HKDF-SHA256. A signature for one purpose is not valid for another.
 *
 * A signer has an identifier, which is derived from the root secret and reveals nothing of it. A signed text
 * contains the identifier, so that the root secret can be replaced while older signatures are still in use.
 */
import { createHmac, createSecretKey, hkdfSync, timingSafeEqual } from "node:crypto";
import type { RootSecret } from "./root_secret.ts";

export type Signer = ReturnType<typeof createSigner>;

const KEY_BYTES = 32;
const ID_BYTES = 4;

/** Throws a RangeError for a bad purpose. It is a constant of the program, never input. */
export function checkPurpose(purpose: string): void {
  if (/^[a-z0-9_-]{1,64}$/.test(purpose)) return;
  throw new RangeError("Cannot derive a key: purpose must be 1 to 64 of a-z, 0-9, _ and -");
}

/** Creates a signer for a purpose; see {@linkcode checkPurpose}. */
export function createSigner(rootSecret: RootSecret, purpose: string) {
  checkPurpose(purpose);
  const derive = (info: string, bytes: number) =>
    new Uint8Array(hkdfSync("sha256", rootSecret, "claviger", `${info}/${purpose}`, bytes));
  const key = createSecretKey(derive("signature", KEY_BYTES));

  /**
   * Signs the fields in their order: 43 characters of base64url. Throws a RangeError for a field with a newline,
   * because a newline separates the fields.
   */
  function sign(fields: readonly string[]): string {
    if (fields.some((field) => field.includes("\n"))) {
      throw new RangeError("Cannot sign: a field has a newline");
    }
    return createHmac("sha256", key).update(fields.join("\n")).digest("base64url");
  }

  return {
    /** 8 hexadecimal digits. */
    id: Buffer.from(derive("signature-id", ID_BYTES)).toString("hex"),
    sign,
    /** Returns true for the signature of these fields. The time is the same for every text of that length. */
    verify(fields: readonly string[], signature: string): boolean {
      if (fields.some((field) => field.includes("\n"))) return false;
      // Compares text, not decoded bytes, so that a signature has one spelling.
      const expected = Buffer.from(sign(fields));
      const given = Buffer.from(signature);
      return given.length === expected.length && timingSafeEqual(given, expected);
    },
  };
}
