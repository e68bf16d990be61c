/** The judge of histories finds what it must find. */
import { expect, test } from "bun:test";
import { type Admitted, tooMany } from "./history.ts";

/** Returns requests that were sent at these seconds, each answered 10 ms later. */
const at = (...seconds: number[]): Admitted[] =>
  seconds.map((second) => ({ sentMs: second * 1_000, answeredMs: second * 1_000 + 10 }));

test("tooMany() finds more than the limit in 60 s, and nothing in a full window", () => {
  expect(tooMany(at(0, 30, 60), { limit: 2 })).toEqual([]);
  expect(tooMany(at(0, 30, 59.9), { limit: 2 })).toEqual(at(0));
  expect(tooMany(at(59.9, 0, 30), { limit: 2 })).toEqual(at(0));
});

test("tooMany() allows requests whose 60 s are not certain", () => {
  const last = { sentMs: 59_900, answeredMs: 60_100 };
  expect(tooMany([...at(0, 30), last], { limit: 2 })).toEqual([]);
});

test("tooMany() allows the limit once more for each time that the windows were emptied, and not before", () => {
  const emptied = [{ fromMs: 20_000, toMs: 22_000 }];
  expect(tooMany(at(0, 10, 30, 40), { limit: 2, emptied })).toEqual([]);
  expect(tooMany(at(0, 10, 30, 40, 50), { limit: 2, emptied })).toEqual(at(0, 30));
  expect(tooMany(at(0, 10, 15), { limit: 2, emptied })).toEqual(at(0));
  expect(tooMany(at(30, 40, 50), { limit: 2, emptied })).toEqual(at(30));
});
