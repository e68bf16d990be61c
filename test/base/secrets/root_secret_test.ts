import { describe, expect, test } from "bun:test";
import { inspect } from "node:util";
import { generateRootSecret, parseRootSecret } from "../../../src/base/secrets/mod.ts";

const random = Buffer.from("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "hex");

function refusal(text: string): string {
  const parsed = parseRootSecret(text);
  if (parsed.ok) throw new Error("It was not refused");
  return parsed.error;
}

function exported(text: string): Buffer {
  const parsed = parseRootSecret(text);
  if (!parsed.ok) throw new Error(parsed.error);
  return parsed.rootSecret.export();
}

describe("parseRootSecret()", () => {
  test("parseRootSecret() reads the same bytes from hexadecimal, base64 and base64url", () => {
    for (const text of [
      random.toString("hex"),
      random.toString("hex").toUpperCase(),
      random.toString("base64"),
      random.toString("base64").replace("=", ""),
      random.toString("base64url"),
    ]) {
      expect(exported(text)).toEqual(random);
    }
  });

  test("parseRootSecret() drops white space around the secret", () => {
    expect(exported(`\uFEFF \t${random.toString("hex")}\r\n\n`)).toEqual(random);
  });

  test("parseRootSecret() reads all bytes of a secret longer than 32 bytes", () => {
    const long = Buffer.concat([random, Buffer.from([1, 2, 3])]);
    expect(exported(long.toString("hex"))).toEqual(long);
    expect(exported(long.toString("base64"))).toEqual(long);
  });

  test.each([
    ["nothing", "", "it is empty"],
    ["white space alone", " \n", "it is empty"],
    ["62 hexadecimal digits", random.toString("hex").slice(2), "fewer than 32 bytes"],
    ["65 hexadecimal digits", `${random.toString("hex")}a`, "odd number"],
    ["31 bytes of base64", random.subarray(1).toString("base64"), "fewer than 32 bytes"],
    ["a short word", "changeme", "fewer than 32 bytes"],
    ["two lines", `${random.toString("base64")}\n${random.toString("base64")}`, "one line"],
    ["a letter outside the alphabets", `${random.toString("base64url")}!`, "neither"],
    ["both base64 alphabets at once", `+_${random.toString("base64url").slice(2)}`, "neither"],
    ["wrong padding", `${random.toString("base64url")}==`, "neither"],
    ["hidden bits in the last character", random.toString("base64url").replace(/.$/, "h"), "neither"],
    ["1,025 characters", "a".repeat(1025), "more than 1024"],
    ["zeros", "0".repeat(64), "too regular"],
    ["counting bytes", Buffer.from(Array.from({ length: 32 }, (_, i) => i)).toString("hex"), "too regular"],
    ["counting digits", "0123456789abcdef".repeat(4), "too regular"],
    [
      "bytes of eight values only",
      Buffer.from(random.map((byte) => byte & 0x49)).toString("hex"),
      "too regular",
    ],
    ["half a secret twice", random.toString("hex").slice(0, 32).repeat(2), "too regular"],
    ["a phrase in small letters", "correct-horse-battery-staple-with-a-hay-barn", "too regular"],
    [
      "a phrase in base64",
      Buffer.from("The quick brown fox jumps over the lazy dog").toString("base64"),
      "readable text",
    ],
  ])("parseRootSecret() refuses %s", (_name, text, reason) => {
    const error = refusal(text);
    expect(error).toStartWith("it ");
    expect(error).toContain(reason);
    expect(error).not.toEndWith(".");
  });

  test("parseRootSecret() never repeats the text in an error", () => {
    for (const text of [random.toString("hex").slice(2), `${random.toString("base64")}?`, "s3cr3t phrase"]) {
      const error = refusal(text);
      for (let i = 0; i + 8 <= text.length; i++) expect(error).not.toContain(text.slice(i, i + 8));
    }
  });

  test("parseRootSecret() returns a secret that stays hidden when it is printed", () => {
    const parsed = parseRootSecret(random.toString("hex"));
    const shown = `${inspect(parsed, { depth: 9, showHidden: true })}${JSON.stringify(parsed)}`;
    expect(shown).not.toContain(random.toString("hex").slice(0, 8));
    expect(shown).not.toContain("159, 134");
  });
});

describe("generateRootSecret()", () => {
  test("generateRootSecret() makes a valid line, different each time", () => {
    const made = Array.from({ length: 2000 }, generateRootSecret);
    for (const text of made) {
      expect(text).toMatch(/^[0-9a-f]{64}\n$/);
      expect(parseRootSecret(text).ok).toBe(true);
      const base64 = Buffer.from(text.trim(), "hex").toString("base64");
      expect(parseRootSecret(base64).ok).toBe(true);
    }
    expect(new Set(made).size).toBe(made.length);
  });
});
