/**
 * Sealed boxes: text that only the holder of the root secret can read, and nobody can change.
 *
 * Each purpose has its own key, derived with HKDF-SHA256, so a box sealed for one purpose cannot be opened for
 * another. A box is base64url text of
 *
 *     version (1 byte, 0x01) · nonce (12 random bytes) · ciphertext (AES-256-GCM) · tag (16 bytes)
 *
 * Version, purpose and the caller's associated data are authenticated too. Associated data binds a box to its
 * row, for example by the row's identifier, so that nobody can exchange two boxes. Random nonces are safe for
 * four billion boxes for each purpose.
 */

import type { KeyObject } from "node:crypto";
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes } from "node:crypto";
import type { RootSecret } from "./root_secret.ts";
import { checkPurpose, createSigner, type Signer } from "./signature.ts";

export interface Secrets {
  /**
   * Seals text for a purpose, bound to `associatedData` ("" by default).
   *
   * A purpose is a constant of the program, never input: 1 to 64 characters of `a-z`, `0-9`, `_`, `-`; at
   * most 64 purposes. Throws a RangeError for any other purpose and for text with an unpaired surrogate.
   */
  seal(purpose: string, plaintext: string, associatedData?: string): string;

  /**
   * Opens a box; undefined if it was sealed with another root secret, purpose or associated data, was changed,
   * or is not a box. Throws a RangeError only for a bad purpose.
   */
  open(purpose: string, sealed: string, associatedData?: string): string | undefined;

  /** Creates a signer for a purpose; keep and reuse it. Throws a RangeError for a bad purpose. */
  signer(purpose: string): Signer;

  /**
   * Derives other secrets from the root secret and a text that is not stored: without the text nobody can open their
   * boxes, not even the holder of the root secret. Throws a RangeError for a bad purpose, and for a text that is longer
   * than 900 bytes or has an unpaired surrogate.
   */
  derive(purpose: string, text: string): Secrets;
}

const ALGORITHM = "aes-256-gcm";
const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const HEADER_BYTES = 1 + NONCE_BYTES;
const MAX_PURPOSES = 64;
/** HKDF takes at most 1,024 bytes with the purpose. */
const MAX_TEXT_BYTES = 900;

/** Creates the functions that seal, open and sign with keys that are derived from the root secret. */
export function createSecrets(rootSecret: RootSecret): Secrets {
  const keys = new Map<string, KeyObject>();

  const keyOf = (purpose: string): KeyObject => {
    const known = keys.get(purpose);
    if (known !== undefined) return known;
    checkPurpose(purpose);
    if (keys.size >= MAX_PURPOSES) {
      throw new RangeError(`Cannot derive a key: there are ${MAX_PURPOSES} purposes already`);
    }
    const derived = hkdfSync("sha256", rootSecret, "claviger", `sealed-box/${purpose}`, KEY_BYTES);
    const key = createSecretKey(new Uint8Array(derived));
    keys.set(purpose, key);
    return key;
  };

  return {
    seal(purpose, plaintext, associatedData = "") {
      const key = keyOf(purpose);
      if (!plaintext.isWellFormed() || !associatedData.isWellFormed()) {
        throw new RangeError("Cannot seal: the text has an unpaired surrogate");
      }
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(toBoundData(purpose, associatedData));
      const ciphertext = Buffer.concat([cipher.update(plaintext, "utf8"), cipher.final()]);
      const box = [Buffer.of(VERSION), nonce, ciphertext, cipher.getAuthTag()];
      return Buffer.concat(box).toString("base64url");
    },

    open(purpose, sealed, associatedData = "") {
      const key = keyOf(purpose);
      const box = decodeBox(sealed);
      if (box === undefined || !associatedData.isWellFormed()) return undefined;
      const nonce = box.subarray(1, HEADER_BYTES);
      const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(toBoundData(purpose, associatedData));
      decipher.setAuthTag(box.subarray(-TAG_BYTES));
      const text = decipher.update(box.subarray(HEADER_BYTES, -TAG_BYTES));
      try {
        return Buffer.concat([text, decipher.final()]).toString("utf8");
      } catch {
        // `final` throws only if the tag does not match.
        return undefined;
      }
    },

    signer: (purpose) => createSigner(rootSecret, purpose),

    derive(purpose, text) {
      checkPurpose(purpose);
      if (!text.isWellFormed() || Buffer.byteLength(text) > MAX_TEXT_BYTES) {
        throw new RangeError("Cannot derive secrets: the text is too long or has an unpaired surrogate");
      }
      // A purpose has no slash, so no two pairs of purpose and text give the same secrets.
      const derived = hkdfSync("sha256", rootSecret, "claviger", `secrets/${purpose}/${text}`, KEY_BYTES);
      return createSecrets(createSecretKey(new Uint8Array(derived)));
    },
  };
}

function decodeBox(sealed: string): Buffer | undefined {
  const box = Buffer.from(sealed, "base64url");
  // The decoder skips unknown characters, and the last character can contain unused bits: accept one spelling only.
  if (box.toString("base64url") !== sealed) return undefined;
  if (box.length < HEADER_BYTES + TAG_BYTES || box[0] !== VERSION) return undefined;
  return box;
}

/** A purpose has no colon, so no two pairs of purpose and data give the same bytes. */
function toBoundData(purpose: string, associatedData: string): Buffer {
  return Buffer.from(`${VERSION}:${purpose}:${associatedData}`, "utf8");
}
