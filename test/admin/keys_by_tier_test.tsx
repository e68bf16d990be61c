/** @jsxImportSource hono/jsx */
/** The keys by tier and state, on a phone: `widths_test.ts` shows that a matrix stays a table. */
import { expect, test } from "bun:test";
import { KeysByTier } from "../../src/admin/overview/overview_lists.tsx";
import { attributesOf } from "./texts_of.ts";

test.each([
  [999, ["stays matrix counts"]],
  [1_000, ["counts"]],
])("the table of %d keys stays one only if its numbers fit beside each other", (count, classes) => {
  const html = `${<KeysByTier asOf={new Date(0)} rows={[{ tier: "free", state: "active", count }]} />}`;
  expect(attributesOf(html, "table", "class")).toEqual(classes);
});
