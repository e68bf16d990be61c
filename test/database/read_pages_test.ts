import { expect, test } from "bun:test";
import { type PagesOptions, readPages } from "../../src/database/mod.ts";

/** A list of numbers, which notes the limit of every statement. */
function createList(length: number) {
  const limits: number[] = [];
  const list: PagesOptions<number> = {
    async read(after, limit) {
      limits.push(limit);
      const from = after === undefined ? 0 : Number(after) + 1;
      return Array.from({ length: Math.max(0, Math.min(limit, length - from)) }, (_, index) => from + index);
    },
    positionOf: String,
  };
  const readAll = async (options: Partial<PagesOptions<number>> = {}) =>
    (await Array.fromAsync(readPages({ ...list, ...options }))).flat();
  return { limits, list, readAll };
}
const numbers = (from: number, length: number) => Array.from({ length }, (_, index) => from + index);

test("readPages() reads every row once, few before the first page and many after it", async () => {
  const { limits, readAll } = createList(2_500);
  expect(await readAll()).toEqual(numbers(0, 2_500));
  expect(limits).toEqual([200, 1_000, 1_000, 1_000]);
});

test("readPages() begins after a position, and ends after the most rows", async () => {
  const { limits, readAll } = createList(5_000);
  expect(await readAll({ after: "99", most: 201 })).toEqual(numbers(100, 201));
  expect(await readAll({ most: 101 })).toEqual(numbers(0, 101));
  expect(limits).toEqual([200, 1, 101]);
});

test("readPages() has one empty page for a list without rows", async () => {
  expect(await Array.fromAsync(readPages(createList(0).list))).toEqual([[]]);
});

test("readPages() sends no statement before its page is asked for, and none after the reader ends", async () => {
  const { limits, list } = createList(5_000);
  const pages = readPages(list);
  expect(limits).toEqual([]);
  for await (const page of pages) if (page.length > 200) break;
  expect(limits).toEqual([200, 1_000]);
});
