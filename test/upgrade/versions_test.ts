/** The upgrade matrix has every released version, and its comparison finds what was lost. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import packageJson from "../../package.json" with { type: "json" };
import { compareRecords } from "./record.ts";
import { VERSIONS } from "./versions.ts";

test("VERSIONS has each version of the page of changes; only the one of package.json may be missing", () => {
  const page = readFileSync("src/cli/guide/changes.md", "utf8");
  const [, first = ""] = /^## Before (\d+\.\d+\.\d+)$/m.exec(page) ?? [];
  const known = VERSIONS.map(({ version }) => version);
  const shown = known.filter((version) => version.localeCompare(first, "en", { numeric: true }) >= 0);
  const released = [...page.matchAll(/^## (\d+\.\d+\.\d+)$/gm)].map(([, version = ""]) => version);
  expect(released).toContain(packageJson.version);
  const older = released.filter((version) => version !== packageJson.version).toReversed();
  expect([older, [...older, packageJson.version]]).toContainEqual(shown);
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
  const erased = (at: string | null) => of([{ id: "a", erasure: { events_erased_at: at } }]);
  expect(compareRecords(erased(null), erased("2026-11-28T00:00:00Z"))).toEqual([]);
  expect(compareRecords(erased("2026-11-28T00:00:00Z"), erased(null))).toHaveLength(1);
  expect(compareRecords(before, new Map([["audit", [{ action: "x" }]]]))).toHaveLength(1);
});
