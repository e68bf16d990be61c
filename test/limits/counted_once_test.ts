import { expect, test } from "bun:test";
import { CountedOnce, WindowTable } from "../../src/limits/mod.ts";

test("CountedOnce remembers an entry until its time ends, and no longer", () => {
  const counted = new CountedOnce({ ageMs: 1_000, capacity: 10 });
  expect(counted.has("a", 0)).toBe(false);
  counted.add("a", 0);
  expect(counted.has("a", 999)).toBe(true);
  expect(counted.has("a", 1_000)).toBe(false);
  expect(counted.has("b", 0)).toBe(false);
});

test("CountedOnce forgets an entry on request", () => {
  const counted = new CountedOnce({ ageMs: 1_000, capacity: 10 });
  counted.add("a", 0);
  counted.forget("a");
  expect(counted.has("a", 0)).toBe(false);
});

test("CountedOnce holds at most its capacity, and drops the oldest entry", () => {
  const counted = new CountedOnce({ ageMs: 1_000, capacity: 3 });
  for (let index = 0; index < 100_000; index++) counted.add(String(index), index / 1_000);
  expect(counted.size).toBe(3);
  expect(["99996", "99997", "99999"].map((id) => counted.has(id, 100))).toEqual([false, true, true]);
});

test("CountedOnce drops ended entries when an entry is added", () => {
  const counted = new CountedOnce({ ageMs: 1_000, capacity: 100 });
  for (const id of ["a", "b", "c"]) counted.add(id, 0);
  counted.add("d", 1_000);
  expect(counted.size).toBe(1);
});

test("WindowTable.peek() returns the state of the window, and counts nothing", () => {
  const table = new WindowTable(2, 10);
  expect(table.peek("a", 0)).toMatchObject({ allowed: true, limit: 2, remaining: 2, resetAfterMs: 0 });
  table.take("a", 0);
  for (let times = 0; times < 5; times++) expect(table.peek("a", 0)).toMatchObject({ remaining: 1 });
  table.take("a", 0);
  expect(table.peek("a", 1_000)).toMatchObject({ allowed: false, remaining: 0, resetAfterMs: 60_000 });
  expect(table.peek("a", 500_000)).toMatchObject({ allowed: true, remaining: 2, resetAfterMs: 0 });
  expect(new WindowTable(0, 10).peek("a", 0)).toMatchObject({ allowed: true, limit: 0 });
});
