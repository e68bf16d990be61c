/**
 * An attacker takes over the process that works for root. The attacker can neither delay root nor write to
 * its terminal.
 */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { canActAsBoth, createRootStage, type Ended, type RootStage } from "./as_root.ts";

setDefaultTimeout(30_000);

/** A hijacked process holds its pipes for 8 s. The limit is below that, and far above the time of a busy machine. */
const LIMIT_MS = 5_000;
const PROGRAM = join(import.meta.dir, "hijacked.ts");

describe.skipIf(!canActAsBoth)("a command of root whose other process is hijacked", () => {
  let stage: RootStage;
  let usualMs: number;

  beforeAll(async () => {
    stage = createRootStage();
    mkdirSync(stage.dataDir);
    stage.give(stage.dataDir);
    usualMs = (await run("exit 3", ["keys", "list"])).ms;
  });
  afterEach(() => rmSync(join(stage.folder, "saved"), { force: true }));
  afterAll(() => stage.remove());

  function run(line: string, args: readonly string[]): Promise<Ended> {
    writeFileSync(join(stage.home, "hijack"), line, { mode: 0o644 });
    const [bun = ""] = stage.program;
    return stage.asRoot(args, { program: [bun, PROGRAM] });
  }

  const holders: readonly (readonly [string, string])[] = [
    ["held open", "timeout 8 sleep 8 & exit 0"],
    ["flooded", "timeout 8 cat /dev/zero >&4 & timeout 8 cat /dev/zero & exit 0"],
    [
      "written to by and by",
      "timeout 8 bash -c 'while sleep .3; do echo .; echo . >&2; echo . >&4; done' & exit 0",
    ],
  ];

  test.each(holders)("ends on time although its pipes are %s beyond its end", async (_, line) => {
    const listed = await run(line, ["keys", "list"]);
    expect(listed).toMatchObject({ status: 0 });
    expect(listed.ms - usualMs).toBeLessThan(LIMIT_MS);
    const saved = await run(line, ["backup", join(stage.folder, "saved")]);
    expect(saved).toMatchObject({
      status: 1,
      err: expect.stringContaining(
        "claviger: Cannot keep the file: a process of user nobody still writes it",
      ),
    });
    expect(saved.ms - usualMs).toBeLessThan(LIMIT_MS);
    expect(readdirSync(stage.folder).filter((name) => name.startsWith("saved"))).toEqual([]);
  });

  test("ends on time in spite of errors without end", async () => {
    for (const args of [
      ["keys", "list"],
      ["backup", join(stage.folder, "saved")],
    ]) {
      const { ms, status } = await run("timeout 8 cat /dev/zero >&2 & exit 5", args);
      expect(status).toBe(5);
      expect(ms - usualMs).toBeLessThan(LIMIT_MS);
    }
  });

  test("returns the status and keeps no file if the other process wrote no backup", async () => {
    expect(await run("exec 4>&-; exit 7", ["backup", join(stage.folder, "saved")])).toMatchObject({
      status: 7,
    });
    expect(existsSync(join(stage.folder, "saved"))).toBe(false);
  });

  test("sends the whole backup to a slow reader", async () => {
    writeFileSync(join(stage.home, "hijack"), "head -c 400000 /dev/zero >&4; exit 0", { mode: 0o644 });
    const [bun = ""] = stage.program;
    const reads = ["bash", "-c", '"$@" | { sleep 3; wc -c; }', "bash", bun, PROGRAM];
    expect(await stage.asRoot(["backup", "-"], { program: reads })).toMatchObject({ out: "400000\n" });
  });

  test("escapes sequences that a terminal would obey", async () => {
    const line =
      "printf '\\033]0;x\\007\\033[2J\\rok \\302\\233 \\342\\200\\256ü\\n' | tee >(cat >&2); exit 0";
    const shown = "\\u001b]0;x\\u0007\\u001b[2J\\rok \\u009b \\u202eü\n";
    const listed = await run(line, ["keys", "list"]);
    expect({ ...listed, out: Buffer.from(listed.out, "latin1").toString() }).toMatchObject({
      out: shown,
      err: shown,
    });
    const saved = await run(line, ["backup", join(stage.folder, "saved")]);
    expect({ ...saved, out: Buffer.from(saved.out, "latin1").toString() }).toMatchObject({
      out: shown,
      err: shown,
    });
  });
});
