import { expect, test } from "bun:test";
import { isRefusal } from "../../src/base/refusal.ts";
import { isRangeWanted, parseRange } from "../../src/clients/byte_ranges.ts";
import { checkTag } from "../../src/wire/mod.ts";

const ranges: readonly (readonly [header: string | null, expected: ReturnType<typeof parseRange>])[] = [
  [null, "all"],
  ["", "all"],
  ["bytes=0-0", { first: 0, last: 0 }],
  ["bytes=0-", { first: 0, last: 99 }],
  ["bytes=10-19", { first: 10, last: 19 }],
  ["bytes=99-99", { first: 99, last: 99 }],
  ["bytes=99-", { first: 99, last: 99 }],
  ["bytes=90-1000", { first: 90, last: 99 }],
  ["bytes=5-99999999999999999999999", { first: 5, last: 99 }],
  ["bytes=-1", { first: 99, last: 99 }],
  ["bytes=-100", { first: 0, last: 99 }],
  ["bytes=-5000", { first: 0, last: 99 }],
  ["BYTES=1-2", { first: 1, last: 2 }],
  ["bytes=01-002", { first: 1, last: 2 }],
  [" bytes = 1 - 2 ", { first: 1, last: 2 }],
  ["bytes=100-", "none"],
  ["bytes=100-200", "none"],
  ["bytes=99999999999999999999-", "none"],
  ["bytes=-0", "none"],
  ["bytes=2-1", "all"],
  ["bytes=-", "all"],
  ["bytes=", "all"],
  ["bytes", "all"],
  ["bytes=0-1,3-4", "all"],
  ["bytes=0-1,", "all"],
  ["bytes=,0-1", "all"],
  ["bytes=a-b", "all"],
  ["bytes=+1-2", "all"],
  ["bytes=1.5-2", "all"],
  ["bytes=0x1-2", "all"],
  ["bytes=1-2;q=1", "all"],
  ["items=1-2", "all"],
];

for (const [header, expected] of ranges) {
  test(`parseRange() reads ${JSON.stringify(header)} for 100 bytes as ${JSON.stringify(expected)}`, () => {
    expect(parseRange(header, 100)).toEqual(expected);
  });
}

test("parseRange() finds no range in a file without bytes", () => {
  expect(parseRange("bytes=0-", 0)).toBe("none");
  expect(parseRange("bytes=-1", 0)).toBe("none");
  expect(parseRange(null, 0)).toBe("all");
});

test("parseRange() is exact beyond 4 GB", () => {
  expect(parseRange("bytes=6442450000-", 6_442_450_944)).toEqual({
    first: 6_442_450_000,
    last: 6_442_450_943,
  });
});

test("isRangeWanted() accepts only the same strong tag", () => {
  expect(isRangeWanted(null, '"x"')).toBe(true);
  expect(isRangeWanted('"x"', '"x"')).toBe(true);
  for (const other of ['W/"x"', '"y"', "x", "*", "", "Fri, 20 Nov 2026 21:38:58 GMT", '"x", "y"']) {
    expect(isRangeWanted(other, '"x"')).toBe(false);
  }
});

test("checkTag() knows any tag in If-None-Match, weak tags too, and *", () => {
  const check = (tags: string) => checkTag(new Headers({ "If-None-Match": tags }), '"x"');
  for (const known of ['"x"', 'W/"x"', '"y", "x"', '"y",W/"x"', "*"]) expect(check(known)).toBe("known");
  for (const other of ["", '"y"', "x", '"x', '"W/x"']) expect(check(other)).toBe("wanted");
  expect(checkTag(new Headers(), '"x"')).toBe("wanted");
});

test("checkTag() refuses an If-Match without the same strong tag and without *, before If-None-Match", () => {
  const check = (tags: string, more = {}) => checkTag(new Headers({ "If-Match": tags, ...more }), '"x"');
  for (const own of ['"x"', '"y", "x"', 'W/"x","x"', "*"]) {
    expect(check(own)).toBe("wanted");
    expect(check(own, { "If-None-Match": '"x"' })).toBe("known");
  }
  for (const other of ["", '"y"', 'W/"x"', "x", '"x']) {
    expect(isRefusal(check(other))).toBe(true);
    expect(isRefusal(check(other, { "If-None-Match": '"x"' }))).toBe(true);
  }
});
