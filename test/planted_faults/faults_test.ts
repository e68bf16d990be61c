/** The table fits the checkout, and what judges a run tells its ways to end apart. `make prove-faults` plants the faults. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CHECKOUT } from "../../src/build/parts.ts";
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import { chooseFaults, findStale, type PlantedFault, plant, readFaults, testsOf } from "./faults.ts";
import { judge, runTests, stopRuns } from "./run_tests.ts";

describe("faults.jsonl", () => {
  const faults = readFaults();

  test("has faults that can all be planted in this checkout", () => {
    const stale = faults.map((fault) => ({ id: fault.id, why: findStale(fault, CHECKOUT) }));
    expect(stale.filter(({ why }) => why !== undefined)).toEqual([]);
    expect(faults.length).toBeGreaterThan(100);
  });

  test("has each id and each change once", () => {
    const ids = faults.map(({ id }) => id);
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
    const changes = faults.map(({ file, search, replace }) => JSON.stringify([file, search, replace]));
    expect(changes.filter((change, index) => changes.indexOf(change) !== index)).toEqual([]);
  });
});

describe("a planted fault", () => {
  const root = useFolder();
  mkdirSync(join(root, "test/rooms/inner"), { recursive: true });
  for (const file of ["a_test.ts", "inner/b_test.tsx", "inner/b.ts"])
    writeFileSync(join(root, "test/rooms", file), "");
  writeFileSync(join(root, "a.ts"), "one, two, two, $& three");
  const fault = (more: Partial<PlantedFault>): PlantedFault => {
    return { id: "a1", file: "a.ts", search: "$& three", replace: "$& four", tests: "rooms", ...more };
  };

  test("findStale() says why a fault cannot be planted", () => {
    const reasons = [
      findStale(fault({}), root),
      findStale(fault({ file: "b.ts" }), root),
      findStale(fault({ search: "five" }), root),
      findStale(fault({ search: "two" }), root),
      findStale(fault({ replace: "$& three" }), root),
      findStale(fault({ tests: "rooms rooms/b_test.ts" }), root),
      findStale(fault({ tests: "rooms/inner/b.ts" }), root),
    ];
    expect(reasons).toEqual([
      undefined,
      "b.ts does not exist",
      "a.ts has its text no longer",
      "a.ts has its text 2 times",
      "it changes nothing",
      "there is no test at test/rooms/b_test.ts",
      "there is no test at test/rooms/inner/b.ts",
    ]);
    expect(testsOf(fault({ tests: "rooms/inner rooms" }), root)).toEqual([
      "rooms/inner/b_test.tsx",
      "rooms/a_test.ts",
    ]);
  });

  test("findStale() says that a later migration replaces the function or the trigger", () => {
    mkdirSync(join(root, "sql"));
    const body = (name: string) => `create function ${name}() returns trigger as $$\n  ${name} 1;\n$$;\n`;
    const trigger =
      "create trigger on_one after update on a\n  when (trigger 2)\n  execute function one();\n";
    writeFileSync(
      join(root, "sql/1_a.sql"),
      `${body("one")}${body("two")}create table a (table 3);\n${trigger}`,
    );
    const staleOf = (search: string) => findStale(fault({ file: "sql/1_a.sql", search }), root);
    const stale = () => ["one 1", "two 1", "table 3", "trigger 2"].map(staleOf);
    expect(stale()).toEqual([undefined, undefined, undefined, undefined]);
    writeFileSync(
      join(root, "sql/2_b.sql"),
      "create or replace function two() as $$$$;\ndrop trigger on_one on a;\n",
    );
    expect(stale()).toEqual([
      undefined,
      "sql/2_b.sql replaces the function two of sql/1_a.sql",
      undefined,
      "sql/2_b.sql replaces the trigger on_one of sql/1_a.sql",
    ]);
  });

  test("plant() changes this text alone, as it is written, and what it returns takes the fault out again", () => {
    const remove = plant(fault({}), root);
    expect(readFileSync(join(root, "a.ts"), "utf8")).toBe("one, two, two, $& four");
    remove();
    expect(readFileSync(join(root, "a.ts"), "utf8")).toBe("one, two, two, $& three");
  });

  test("chooseFaults() takes ids and parts of paths, and throws if a word names none", () => {
    const all = [fault({}), fault({ id: "a12", file: "src/b.ts" }), fault({ id: "b1", file: "src/c.ts" })];
    const ids = (...words: string[]) => chooseFaults(all, words).map(({ id }) => id);
    expect([ids(), ids("a1"), ids("a1", "src/c"), ids("src/")]).toEqual([
      ["a1", "a12", "b1"],
      ["a1"],
      ["a1", "b1"],
      ["a12", "b1"],
    ]);
    expect(() => ids("a1", "a13")).toThrow("No planted fault is named by a13");
  });
});

describe("a run of tests", () => {
  const folder = useFolder();
  const pass = "\ntest/a_test.ts:\n(pass) works [1.00ms]\n";
  const fail = "\ntest/keys/b_test.ts:\nerror: expect(received).toBe(expected)\n(fail) a > b [1.20ms]\n";
  const late = "\ntest/c_test.ts:\n(fail) waits [30001.10ms]\n  ^ this test timed out after 30000ms.\n";
  const broken =
    "\ntest/d_test.ts:\n\n# Unhandled error between tests\n-----\nerror: Cannot find module 'x'\n";
  const NO_MODULE = "error: Cannot find module 'x'";
  const before = `${pass}error: no\n(fail) a room > (unnamed) [2.00ms]\n`;
  test.each([
    ["passes", pass, 0, { outcome: "passed", reason: "", failed: {} }],
    [
      "fails",
      pass + fail,
      1,
      { outcome: "failed", reason: "keys/b_test.ts: a > b", failed: { "keys/b_test.ts": "a > b" } },
    ],
    [
      "fails after a time-out",
      late + fail,
      1,
      {
        outcome: "failed",
        reason: "keys/b_test.ts: a > b",
        failed: { "c_test.ts": "waits", "keys/b_test.ts": "a > b" },
      },
    ],
    [
      "has a test that hangs",
      pass + late,
      1,
      { outcome: "hung", reason: "c_test.ts: waits", failed: { "c_test.ts": "waits" } },
    ],
    [
      "cannot load a file",
      broken,
      1,
      { outcome: "crashed", reason: NO_MODULE, failed: { "d_test.ts": "# Unhandled error between tests" } },
    ],
    [
      "fails before its first test",
      before,
      1,
      { outcome: "crashed", reason: "error: no", failed: { "a_test.ts": "a room > (unnamed)" } },
    ],
    ["stops without a word", pass, 137, { outcome: "crashed", reason: "", failed: {} }],
  ] as const)("judge() tells how a run ends that %s", (_, output, status, expected) => {
    expect(judge(output, { status })).toEqual(expected);
  });

  /** A checkout whose run of the suite starts a process, notes its id, and hangs. */
  function makeHanging(name: string): { readonly root: string; readonly id: () => number } {
    const [root, note] = [join(folder, name), join(folder, `${name}.pid`)];
    mkdirSync(join(root, "test/support"), { recursive: true });
    const lines = [
      'const child = Bun.spawn(["sleep", "600"]);',
      `await Bun.write(${JSON.stringify(note)}, String(child.pid));`,
      "await child.exited;",
    ];
    writeFileSync(join(root, "test/support/run_suite.ts"), lines.join("\n"));
    return { root, id: () => (existsSync(note) ? Number(readFileSync(note, "utf8")) : 0) };
  }

  test("hangs if it takes longer than its limit", async () => {
    const { root } = makeHanging("late");
    expect(await runTests(root, [], { limitMs: 10 })).toEqual({
      outcome: "hung",
      reason: "the whole run",
      failed: {},
    });
  });

  test("is ended by stopRuns() with the processes that it started", async () => {
    const { root, id } = makeHanging("stopped");
    const run = runTests(root, []);
    const started = await until(id);
    expect(isRunning(started)).toBe(true);
    await stopRuns();
    expect(await run).toMatchObject({ outcome: "crashed" });
    await until(() => !isRunning(started));
  });
});

function isRunning(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch {
    return false;
  }
}
