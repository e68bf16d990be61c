/** Holds the tables of figures against the kept evidence, and the evidence against the version. */
import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import packageJson from "../../package.json" with { type: "json" };
import { type Evidence, readEvidence } from "./evidence.ts";
import { PAGES, refuseOldFigures, withEvidence } from "./tables.ts";

const pages = PAGES.map((path) => ({ path, text: readFileSync(path, "utf8") }));
const kept = readEvidence();

test.skipIf(kept === undefined)("the tables of the pages are those of the kept evidence", () => {
  expect(kept?.isQuick).toBe(false);
  for (const { path, text } of pages)
    expect({ path, text }).toEqual({ path, text: withEvidence(text, kept as Evidence) });
});

// `make evidence` runs the suite before it has the evidence of the new version.
const isCollecting = process.env.COLLECTING_EVIDENCE === "yes";

test.skipIf(isCollecting)("the front page has the figures of this minor version", () => {
  expect(refuseOldFigures(pages[0]?.text ?? "", packageJson.version)).toBeUndefined();
});

test("refuseOldFigures() says what to run for figures of another minor version, and for none", () => {
  const page = "The figures are of version 0.9.2, commit 0123456, on 2026-11-24.";
  for (const version of ["0.9.0", "0.9.10"]) expect(refuseOldFigures(page, version)).toBeUndefined();
  for (const version of ["0.10.0", "0.8.2", "1.9.2"])
    expect(refuseOldFigures(page, version)).toBe(
      `README.md has the figures of 0.9.2, and this is ${version}: run make evidence on a quiet machine, and commit what it writes`,
    );
  expect(refuseOldFigures("", "0.9.0")).toContain("the figures of no version");
});

const git = (...args: string[]) => spawnSync("git", args, { encoding: "utf8" });
const measured = kept?.machine.commit ?? "";
// An archive has no history, and a shallow clone not all of it.
const hasHistory = git("merge-base", "--is-ancestor", measured, "HEAD").status === 0;

test.skipIf(isCollecting || !hasHistory)(
  "only pages and evidence changed from what was measured until it was kept",
  () => {
    const file = `test/evidence/${kept?.version}.json`;
    // Before it is committed, the files as they are now count.
    const until = git("log", "-1", "--format=%H", "--", file).stdout.trim();
    const changed = git("diff", "--name-only", measured, ...(until === "" ? [] : [until])).stdout;
    const allowed = [...PAGES, file];
    expect(changed.split("\n").filter((path) => path !== "" && !allowed.includes(path))).toEqual([]);
  },
);

test("withEvidence() makes the figures of every page from one file", () => {
  const sample = JSON.parse(readFileSync("test/evidence/fixtures/sample.json", "utf8"));
  const [readme = "", bench = "", faults = ""] = pages.map(({ text }) => withEvidence(text, sample));
  expect(readme).toContain(
    "The figures are of version 0.0.0, commit 0123456, on 2026-11-24: 2 cores of Some CPU, 8 GB.\n\n| Guarantee |",
  );
  expect(readme).toContain("| 2,001 revocations raced by requests at two services, none late |");
  expect(readme).toContain("| 9 clients at each of 3 processes: exactly the quota |");
  expect(readme).toContain("| 300,001 random sequences of commands");
  expect(readme).toContain("| 12 faults, some 3,500 events, none lost |");
  expect(readme).toContain("| the slowest of some 7,900 took 1.2 s |");
  expect(readme).toContain("| 5,000 generated requests, no 500 |");
  expect(bench).toContain("| start, later | 0.24 s | at most 0.20 s | **short** | 2: 0.23 s to 0.25 s |");
  expect(bench).toContain("| Part | 16 clients |\n| --- | --- |\n| Events in a statement | 8 |\n");
  expect(bench).toContain("| **Service** | 60.0 µs |");
  expect(bench).toContain("| what is left of the service | 25.0 µs |");
  expect(bench).toContain("| the rest of the statement | 30.0 µs |");
  expect(bench).toContain("| what is left of PostgreSQL | 15.0 µs |");
  expect(bench).toContain(
    "| keys | 690 | 3.89 ms | 8.15 ms | at most 100 ms | yes | 3: 7.35 ms to 8.24 ms |",
  );
  expect(faults).toContain("| external: stop fast | 12 | 1230 ms |");
  expect(faults).toContain("| 5,000 | 9 s | 0 | 80 ms | 0 of 77 |");
  for (const page of [bench, faults]) expect(page).toContain("commit 0123456789ab, 2026-11-24T12:00:00Z");
  expect(withEvidence(readme, sample)).toBe(readme);
});
