import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isStorableJson, isStorableText, toTextArray } from "../../src/database/mod.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase({ empty: true });

async function throughDatabase(values: readonly (string | null)[]): Promise<(string | null)[]> {
  const rows = await server.database.query<{ value: string | null }>(
    (sql) => sql`
      select value from unnest(${toTextArray(values)}::text[]) with ordinality as list (value, position)
       order by position`,
  );
  return rows.map(({ value }) => value);
}

describe("toTextArray()", () => {
  const hard: (string | null)[] = [
    "",
    " ",
    '"',
    "\\",
    '\\"',
    "a,b",
    "{}",
    "{a,{b}}",
    "NULL",
    "null",
    null,
    "line\nbreak\r\ttab",
    "ünï…💡",
    "\\x00",
    "'; drop table keys; --",
    "$1",
    "\u0001\u007f",
  ];

  test("toTextArray() returns every text unchanged from the database", async () => {
    expect(await throughDatabase(hard)).toEqual(hard);
    for (const value of hard) expect(await throughDatabase([value])).toEqual([value]);
  });

  test("toTextArray() renders no values as an empty array", async () => {
    expect(await throughDatabase([])).toEqual([]);
  });

  test("toTextArray() returns random texts unchanged from the database", async () => {
    const texts = fc.array(fc.option(fc.string({ unit: "binary" }).filter(isStorableText)), {
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(texts, async (values) => {
        expect(await throughDatabase(values)).toEqual(values);
      }),
      { numRuns: 200 },
    );
  });

  test("toTextArray() lets the SQL cast convert numbers and booleans", async () => {
    const numbers = toTextArray([0, -1.5, 1e-7, 9007199254740991, null]);
    const [row] = await server.database.query<{ numbers: number[]; truths: boolean[] }>(
      (sql) => sql`
        select to_json(${numbers}::double precision[]) as numbers,
               to_json(${toTextArray([true, false, null])}::boolean[]) as truths`,
    );
    expect(row).toEqual({
      numbers: [0, -1.5, 1e-7, 9007199254740991, null] as number[],
      truths: [true, false, null] as boolean[],
    });
  });
});

describe("isStorableText()", () => {
  test.each(["a\u0000b", "\ud800", "x\udc00", "\ufffd"])("isStorableText() refuses %j", (text) => {
    expect(isStorableText(text)).toBe(false);
    expect(isStorableJson({ deep: [{ [text]: 1 }] }, 5)).toBe(false);
    expect(isStorableJson({ deep: [text] }, 5)).toBe(false);
  });

  test("isStorableText() accepts whole surrogate pairs", () => {
    expect(isStorableText("💡")).toBe(true);
  });
});

test("isStorableJson() counts the value itself as the first level, and refuses numbers that are not finite", () => {
  expect(isStorableJson({ a: { b: 1 } }, 2)).toBe(true);
  expect(isStorableJson({ a: { b: [] } }, 2)).toBe(false);
  expect(isStorableJson({ a: JSON.parse("1e400") }, 2)).toBe(false);
});
