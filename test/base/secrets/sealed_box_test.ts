import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { generateRootSecret, opensCanary, sealCanary } from "../../../src/base/secrets/mod.ts";
import { openSecrets } from "../../support/secrets.ts";

function newSecrets(text = generateRootSecret()) {
  return openSecrets(text);
}

const secrets = newSecrets();
const fixedRoot = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

describe("seal() and open()", () => {
  test("open() returns any sealed text, given its associated data", () => {
    const text = fc.string({ unit: "grapheme", maxLength: 300 });
    fc.assert(
      fc.property(text, text, (plaintext, data) => {
        expect(secrets.open("installer-token", secrets.seal("installer-token", plaintext, data), data)).toBe(
          plaintext,
        );
      }),
    );
  });

  test("open() opens a box after a restart with the same root secret", () => {
    const sealed = newSecrets(fixedRoot).seal("installer-token", "token");
    expect(newSecrets(`${fixedRoot}\n`).open("installer-token", sealed)).toBe("token");
  });

  test("open() still opens a box of version 1 that was made when the format was fixed", () => {
    expect(newSecrets(fixedRoot).open("installer-token", oldBox, "row 1")).toBe("an old token");
  });

  test("open() refuses a box of another root secret", () => {
    expect(newSecrets().open("installer-token", secrets.seal("installer-token", "token"))).toBeUndefined();
  });

  test("open() refuses a box of another purpose", () => {
    expect(secrets.open("canary", secrets.seal("installer-token", "token"))).toBeUndefined();
  });

  test("open() refuses a box with other associated data", () => {
    const sealed = secrets.seal("installer-token", "token", "row 1");
    expect(secrets.open("installer-token", sealed, "row 2")).toBeUndefined();
    expect(secrets.open("installer-token", sealed)).toBeUndefined();
    expect(secrets.open("installer-token", sealed, "\ud800")).toBeUndefined();
  });

  test("open() refuses a box with any single bit changed", () => {
    const box = Buffer.from(secrets.seal("installer-token", "token"), "base64url");
    for (let bit = 0; bit < box.length * 8; bit++) {
      const changed = Buffer.from(box);
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      expect(secrets.open("installer-token", changed.toString("base64url"))).toBeUndefined();
    }
  });

  test("open() refuses a box with any character changed, added or left out", () => {
    const sealed = secrets.seal("installer-token", "token");
    for (let i = 0; i <= sealed.length; i++) {
      for (const inserted of ["", "A", "B", "-", "=", " ", "\n", "é"]) {
        for (const after of [i, i + 1]) {
          const changed = sealed.slice(0, i) + inserted + sealed.slice(after);
          if (changed === sealed) continue;
          expect(secrets.open("installer-token", changed)).toBeUndefined();
        }
      }
    }
  });

  test("open() refuses a text that is not a box", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (text) => {
        expect(secrets.open("installer-token", text)).toBeUndefined();
      }),
    );
    for (let length = 0; length <= 29; length++) {
      expect(secrets.open("installer-token", Buffer.alloc(length, 1).toString("base64url"))).toBeUndefined();
    }
  });

  test("seal() makes a different box each time, which shows nothing of the text", () => {
    const boxes = Array.from({ length: 1000 }, () => secrets.seal("installer-token", "hidden text"));
    expect(new Set(boxes).size).toBe(1000);
    const nonces = boxes.map((box) => Buffer.from(box, "base64url").toString("hex", 1, 13));
    expect(new Set(nonces).size).toBe(1000);
    for (const box of boxes) {
      expect(box).toMatch(/^A[Q-Za-f][\w-]+$/);
      expect(Buffer.from(box, "base64url").includes("hidden")).toBe(false);
    }
  });

  test("seal() throws for a purpose that is not a word", () => {
    for (const purpose of ["", "Installer", "a:b", "a b", "a".repeat(65)]) {
      expect(() => secrets.seal(purpose, "text")).toThrow("Cannot derive a key: purpose must be");
      expect(() => secrets.open(purpose, "text")).toThrow("Cannot derive a key: purpose must be");
    }
  });

  test("seal() throws for text that would not be opened unchanged", () => {
    expect(() => secrets.seal("installer-token", "\ud800")).toThrow("Cannot seal: ");
    expect(() => secrets.seal("installer-token", "text", "\udc00")).toThrow("Cannot seal: ");
  });

  test("seal() keeps at most 64 derived keys", () => {
    const many = newSecrets();
    for (let i = 0; i < 64; i++) many.seal(`purpose-${i}`, "text");
    expect(() => many.seal("one-more", "text")).toThrow("there are 64 purposes already");
    expect(many.open("purpose-0", many.seal("purpose-0", "text"))).toBe("text");
  });
});

describe("derive()", () => {
  test("derive() gives secrets that only the same root secret, purpose and text give again", () => {
    const sealed = newSecrets(fixedRoot).derive("answer", "text").seal("answer", "hidden");
    expect(newSecrets(fixedRoot).derive("answer", "text").open("answer", sealed)).toBe("hidden");
    for (const other of [
      newSecrets(fixedRoot),
      newSecrets(fixedRoot).derive("answer", "text "),
      newSecrets(fixedRoot).derive("answer", ""),
      newSecrets(fixedRoot).derive("other", "text"),
      newSecrets().derive("answer", "text"),
    ]) {
      expect(other.open("answer", sealed)).toBeUndefined();
    }
  });

  test("derive() throws for a bad purpose, and for a text that cannot be kept apart from others", () => {
    expect(() => secrets.derive("a/b", "text")).toThrow("Cannot derive a key: purpose must be");
    expect(() => secrets.derive("answer", "\ud800")).toThrow("Cannot derive secrets");
    expect(() => secrets.derive("answer", "x".repeat(901))).toThrow("Cannot derive secrets");
    secrets.derive("a".repeat(64), "x".repeat(900));
  });
});

describe("opensCanary()", () => {
  test("opensCanary() is true for the root secret that sealed it, after a restart too", () => {
    expect(opensCanary(newSecrets(fixedRoot), sealCanary(newSecrets(fixedRoot)))).toBe(true);
  });

  test("opensCanary() is false for another root secret, a changed canary or none", () => {
    const sealed = sealCanary(secrets);
    expect(opensCanary(newSecrets(), sealed)).toBe(false);
    expect(opensCanary(secrets, `${sealed}A`)).toBe(false);
    expect(opensCanary(secrets, "")).toBe(false);
  });

  test("opensCanary() is false for a box of the same secret with another text", () => {
    expect(opensCanary(secrets, secrets.seal("canary", "something else"))).toBe(false);
    expect(opensCanary(secrets, secrets.seal("installer-token", "the secret is the right one"))).toBe(false);
  });
});

/** A box sealed with `fixedRoot` for `installer-token` and "row 1": it detects changes of format and derivation. */
const oldBox = "AZPKiAMp8PRy1JTB9Ue2qp-T0EJJKF8wIIgZqeKsL2cjYtv0Px1evqA";
