import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  redactKeys,
  redactKeysInEvent,
  redactQuery,
  renderWithoutKeys,
} from "../../../src/base/secrets/mod.ts";

const digits = "0123456789abcdef".repeat(3);
const key = `svc_live_${digits}`;

describe("redactKeys()", () => {
  test.each([
    ["a live key", `lost ${key} yesterday`, "lost [key] yesterday"],
    ["a test key", `svc_test_${digits}.`, "[key]."],
    ["a key of another brand", `acme2_live_${digits}`, "[key]"],
    ["a key in capitals", key.toUpperCase(), "[key]"],
    ["a key cut short to 8 digits", "key=svc_live_01234567…", "key=[key]…"],
    ["a key without its brand", `_live_${digits}`, "[key]"],
    ["a key that is glued to words", `xx${key}yy`, "[key]yy"],
    ["several keys", `${key},${key} ${key}`, "[key],[key] [key]"],
    ["two keys in one word", `${key}${key}`, "[key][key]"],
    ["a bare run of 48 digits", `it was ${digits}`, "it was [key]"],
    ["a bare run of 40 digits", digits.slice(0, 40), "[key]"],
  ])("redactKeys() blanks %s", (_name, text, expected) => {
    expect(redactKeys(text)).toBe(expected);
  });

  test.each([
    ["an identifier", "key_019a2b3c4d5e6f708192a3b4c5d6e7f8"],
    ["a prefix with seven digits", "svc_live_0123456"],
    ["a run of 39 digits", digits.slice(0, 39)],
    ["a model", "motor_imagery_4class_v1"],
    ["nothing", ""],
  ])("redactKeys() leaves %s", (_name, text) => {
    expect(redactKeys(text)).toBe(text);
  });

  test("redactKeys() leaves no 8 digits of a key, whatever text surrounds it", () => {
    const hex = fc.string({
      unit: fc.constantFrom(..."0123456789abcdefABCDEF"),
      minLength: 8,
      maxLength: 48,
    });
    const brand = fc.string({ unit: fc.constantFrom(..."abcz019"), maxLength: 50 });
    const word = fc.string({ maxLength: 30 });
    fc.assert(
      fc.property(
        word,
        brand,
        fc.constantFrom("live", "test", "LIVE", "op"),
        hex,
        word,
        (a, name, mode, run, b) => {
          expect(redactKeys(`${a}${name}_${mode}_${run}${b}`)).not.toContain(`_${mode}_${run.slice(0, 8)}`);
        },
      ),
    );
  });

  test("redactKeys() takes linear time for hostile text", () => {
    const hostile = ["a".repeat(1e6), "live_".repeat(2e5), `${"a".repeat(39)}g`.repeat(25_000)];
    const before = process.cpuUsage();
    for (const text of hostile) redactKeys(text);
    expect(process.cpuUsage(before).user).toBeLessThan(2e6);
  });
});

describe("redactKeysInEvent()", () => {
  test("redactKeysInEvent() redacts keys with their prefix, in any case or cut short, and the digits of a key alone", () => {
    expect(redactKeysInEvent(`svc_live_ ${digits} or a%${digits}0`)).toBe("svc_live_ [key] or a%[key]");
    expect(redactKeysInEvent(`at https://h/?api_key=${key}&a=b`)).toBe("at https://h/?api_key=[key]&a=b");
    expect(redactKeysInEvent(`${key.toUpperCase()} svc_test_01234567…`)).toBe("[key] [key]…");
  });

  test("redactKeysInEvent() does not change a checksum, or text without a key", () => {
    const checksums = [40, 56, 64, 96, 128].map((length) => `sum:${digits.repeat(3).slice(0, length)}`);
    for (const text of [...checksums, "svc_live_0123456", "out of memory", ""]) {
      expect(redactKeysInEvent(text)).toBe(text);
    }
  });
});

describe("renderWithoutKeys()", () => {
  const rendered = (json: string) => renderWithoutKeys(JSON.parse(json));

  test("renderWithoutKeys() changes nothing in JSON except the keys in texts and names", () => {
    const value = { [key]: [`"${key}"`, { url: `a\\${key}\n` }, null, true], n: 1.5 };
    expect(JSON.parse(renderWithoutKeys(value))).toEqual({
      "[key]": ['"[key]"', { url: "a\\[key]\n" }, null, true],
      n: 1.5,
    });
  });

  test.each(["\n", "\t", "\b", "\f", "\r", "\u0001", "\\", '"', "\u2028"])(
    "renderWithoutKeys() keeps %j before a key, though JSON writes it with an escape",
    (before) => {
      expect(JSON.parse(renderWithoutKeys({ a: `${before}${key}` }))).toEqual({ a: `${before}[key]` });
      expect(JSON.parse(renderWithoutKeys({ [`${before}${key}`]: 1 }))).toEqual({ [`${before}[key]`]: 1 });
      // With the b or f of the escape, the 55 digits would look like 56, which is the length of a checksum.
      const run = `${digits}0123456`;
      expect(JSON.parse(renderWithoutKeys([`${before}${run}`]))).toEqual([`${before}[key]`]);
    },
  );

  test("renderWithoutKeys() keeps digits that are as long as a key only together with an escape", () => {
    const value = { a: `\f${digits.slice(1)}` };
    expect(JSON.parse(renderWithoutKeys(value))).toEqual(value);
  });

  test("renderWithoutKeys() keeps the last property when redacted names become equal", () => {
    expect(rendered(`{"${key}":1,"b":2,"${key}0":3}`)).toBe('{"[key]":3,"b":2}');
  });

  test("renderWithoutKeys() treats __proto__ like any other property", () => {
    const json = `{"__proto__":{"a":"${key}"},"b":{"__proto__":"${key}"}}`;
    expect(rendered(json)).toBe('{"__proto__":{"a":"[key]"},"b":{"__proto__":"[key]"}}');
  });

  test("renderWithoutKeys() returns valid JSON without a key, whatever text surrounds the keys", () => {
    const text = fc
      .tuple(fc.string({ unit: "binary", maxLength: 5 }), fc.constantFrom("", key, digits), fc.string())
      .map((parts) => parts.join(""));
    const value = fc.dictionary(text, fc.oneof(text, fc.array(text), fc.dictionary(text, text)));
    fc.assert(
      fc.property(value, (given) => {
        const json = renderWithoutKeys(given);
        expect(() => JSON.parse(json)).not.toThrow();
        expect(json).not.toContain(key);
      }),
    );
  });
});

describe("redactQuery()", () => {
  test.each([
    ["a path alone", "/v1/auth/validate", "/v1/auth/validate"],
    ["an empty query", "/v1/models/list?", "/v1/models/list?"],
    ["the key", `/v1/models/list?api_key=${key}`, "/v1/models/list?api_key=[hidden]"],
    ["a key that is none", "/a?api_key=hunter2", "/a?api_key=[hidden]"],
    ["harmless filters", "/a?paradigm=p300&type=SvcLDA", "/a?paradigm=p300&type=SvcLDA"],
    ["an empty filter", "/a?paradigm=", "/a?paradigm="],
    ["a key in a filter", `/a?paradigm=${key}`, "/a?paradigm=[key]"],
    ["one of two equal names", `/a?type=x&type=${key}`, "/a?type=x&type=[key]"],
    ["an encoded name", `/a?api%5Fkey=${key}`, "/a?api_key=[hidden]"],
    ["an encoded filter name", "/a?%74ype=SvcLDA", "/a?type=SvcLDA"],
    ["an encoded key in a filter", "/a?type=svc%5Flive%5F01234567", "/a?type=[key]"],
    ["a key that is encoded twice", "/a?type=svc%255Flive%255F01234567", "/a?type=[hidden]"],
    ["a filter that hides a parameter", `/a?type=x;api_key=${key}`, "/a?type=[hidden]"],
    ["a filter that hides a query", `/a?type=x?api_key=hunter2`, "/a?type=[hidden]"],
    ["a line break in a filter", "/a?type=x%0Aforged", "/a?type=[hidden]"],
    ["another case of a filter", "/a?Type=hunter2", "/a?Type=[hidden]"],
    ["a key as a name", `/a?${key}=1`, "/a?[key]=[hidden]"],
    ["a key without a name", `/a?${key}`, "/a?[hidden]"],
    ["a short secret without a name", "/a?hunter2", "/a?[hidden]"],
    ["a name that is no word", "/a?api%20key=hunter2", "/a?[hidden]"],
    ["broken encoding in a name", "/a?%E0%A4%A=hunter2&type=x", "/a?[hidden]&type=x"],
    ["broken encoding in a filter", "/a?type=%zz", "/a?type=[hidden]"],
    ["a key in the path", `/v1/keys/${key}`, "/v1/keys/[key]"],
    ["an encoded key in the path", "/k/svc%5flive%5f01234567", "/k/[key]"],
    ["a key in the path encoded twice", "/k/svc%255Flive%255F01234567", "/k/[key]"],
    ["other encoding in the path", "/v1/models/a%20b", "/v1/models/a%20b"],
    ["broken encoding in the path", "/v1/%zz?type=x", "[unreadable]"],
    ["endless encoding in the path", "/v1/%25252525255F", "[unreadable]"],
    ["no path", "svc?api_key=x", "[unreadable]"],
    ["nothing", "", "[unreadable]"],
    ["a very long path", `/${"a".repeat(1024)}`, "[unreadable]"],
    ["a very long query", `/a?type=${"a&".repeat(3000)}`, "/a?[hidden]"],
  ])("redactQuery() renders %s", (_name, text, expected) => {
    expect(redactQuery(text)).toBe(expected);
  });

  test("redactQuery() shows no key, in any encoding and at any place", () => {
    const escapedKey = [...key].map(toHexEscape).join("");
    const piece = fc.oneof(
      fc.constantFrom("=", "&", "?", "%", "+", ";", "#", "/", "type=", "paradigm=", "api_key=", "%253D"),
      fc.constantFrom(key, escapedKey, escapedKey.replaceAll("%", "%25"), key.toUpperCase()),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const shown = redactQuery(`/v1?x=${pieces.join("")}`);
        expect(shown).not.toContain(digits);
        expect(shown).not.toContain(digits.toUpperCase());
        expect(shown).not.toContain(escapedKey.slice(-60));
      }),
      { numRuns: 5000 },
    );
  });

  test("redactQuery() never throws", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 50 }), (text) => {
        expect(redactQuery(`/${text}`)).toBeString();
      }),
    );
  });
});

function toHexEscape(character: string): string {
  return `%${character.charCodeAt(0).toString(16)}`;
}
