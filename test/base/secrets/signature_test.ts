import { describe, expect, test } from "bun:test";
import { generateRootSecret, type Signer } from "../../../src/base/secrets/mod.ts";
import { openSecrets } from "../../support/secrets.ts";

function secrets(text = generateRootSecret()) {
  return openSecrets(text);
}

const text = generateRootSecret();
const signer: Signer = secrets(text).signer("download-link");
const FIELDS = ["sha", "name", "1.0.0", "key_1", "1800000000"];

describe("createSigner()", () => {
  test("signs with 43 characters of base64url, and makes the same signature for the same root secret", () => {
    expect(signer.sign(FIELDS)).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(secrets(text).signer("download-link").sign(FIELDS)).toBe(signer.sign(FIELDS));
    expect(signer.verify(FIELDS, signer.sign(FIELDS))).toBe(true);
  });

  for (const [index, field] of FIELDS.entries()) {
    test(`refuses a signature when field ${index} differs`, () => {
      const signature = signer.sign(FIELDS);
      expect(signer.verify(FIELDS.with(index, `${field}0`), signature)).toBe(false);
    });
  }

  test("refuses a signature of the same text divided into other fields", () => {
    const signature = signer.sign(["ab", "c"]);
    expect(signer.verify(["a", "bc"], signature)).toBe(false);
    expect(signer.verify(["ab\nc"], signature)).toBe(false);
    expect(signer.verify(["abc"], signature)).toBe(false);
  });

  test("refuses a signature of another purpose or another root secret", () => {
    expect(signer.verify(FIELDS, secrets(text).signer("other").sign(FIELDS))).toBe(false);
    expect(signer.verify(FIELDS, secrets().signer("download-link").sign(FIELDS))).toBe(false);
  });

  test("refuses a signature with any character changed, added, left out or encoded differently", () => {
    const signature = signer.sign(FIELDS);
    for (let at = 0; at < signature.length; at++) {
      const other = signature[at] === "A" ? "B" : "A";
      expect(signer.verify(FIELDS, signature.slice(0, at) + other + signature.slice(at + 1))).toBe(false);
    }
    for (const wrong of [
      "",
      signature.slice(1),
      `${signature}A`,
      `${signature}=`,
      ` ${signature}`,
      "é".repeat(43),
    ]) {
      expect(signer.verify(FIELDS, wrong)).toBe(false);
    }
  });

  test("has an identifier that depends on the root secret and the purpose", () => {
    expect(signer.id).toMatch(/^[0-9a-f]{8}$/);
    expect(secrets(text).signer("download-link").id).toBe(signer.id);
    expect(secrets(text).signer("other").id).not.toBe(signer.id);
    expect(secrets().signer("download-link").id).not.toBe(signer.id);
  });

  test("refuses a field with a line break, and a purpose that is not a word", () => {
    expect(() => signer.sign(["a\nb"])).toThrow(RangeError);
    expect(() => secrets(text).signer("Download link")).toThrow(RangeError);
  });
});
