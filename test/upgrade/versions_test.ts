/** The upgrade matrix has every released version, and its comparison finds what was lost. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import packageJson from "../../package.json" with { type: "json" };
import { compareRecords } from "./record.ts";
import { VERSIONS } from "./versions.ts";

test("VERSIONS has each version of the page of changes that is older than this one", () => {
  const page = readFileSync("src/cli/guide/changes.md", "utf8");
  const released = [...page.matchAll(/^## (\d+\.\d+\.\d+)$/gm)].map(([, version = ""]) => version);
  expect(released).toContain(packageJson.version);
  expect(VERSIONS.map(({ version }) => version)).toEqual(
    released.filter((version) => version !== packageJson.version).toReversed(),
  );
});

test("compareRecords() reports a lost row, a changed value and a lost record, and accepts more than before", () => {
  const rows = [
    { id: "b", used: 1 },
    { id: "a", used: 2, expires_at: null },
  ];
  const of = (keys: object, audit: object[] = [{ action: "x" }]) =>
    new Map<string, object>([
      ["keys list", keys],
      ["audit", audit],
    ]);
  const before = of(rows);
  expect(compareRecords(before, of(rows.toReversed(), [{ action: "new" }, { action: "x" }]))).toEqual([]);
  expect(compareRecords(before, of(rows.map((row) => ({ ...row, later: 1 }))))).toEqual([]);
  expect(compareRecords(before, of(rows.slice(1)))).toHaveLength(1);
  expect(compareRecords(before, of(rows.map((row) => ({ ...row, used: 2 }))))).toEqual([
    "keys list[1].used: 1 → 2",
  ]);
  expect(compareRecords(before, of(rows, [{ action: "y" }]))).toHaveLength(1);
  expect(compareRecords(before, new Map([["audit", [{ action: "x" }]]]))).toHaveLength(1);
});
