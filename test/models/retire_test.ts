/** `claviger models retire` and `models purge` while a service runs. */
import { beforeEach, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { existsSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { refusalOf } from "../cli/command_line.ts";
import { testBytes } from "../support/hosted.ts";
import { SHA256, useModelStage } from "./model_stage.ts";

const { line, file, get, storedPath, add, listed } = useModelStage();

describe("claviger models retire and purge", () => {
  const bytes = testBytes(54_321);
  const sha256 = hash("sha256", bytes);
  const load = async (name: string, version = "1.0.0") =>
    (await get(`/v1/models/download/${name}/${version}`)).status;
  const inADay = { clock: { ...systemClock, now: () => new Date(Date.now() + 86_500_000) } };

  // `purge` counts all files of the installation that no version needs: delete those of other tests.
  beforeEach(() => line.json(["models", "purge"], inADay));

  test("end the downloads of one version and free its file a day later", async () => {
    const path = join(line.folder, "retired.onnx");
    writeFileSync(path, bytes);
    expect((await add({ name: "retiring", file: path })).status).toBe(0);
    expect((await add({ name: "retiring", file, version: "2.0.0" })).status).toBe(0);
    const retired = await line.here(["models", "retire", "retiring", "1.0.0"]);
    expect(retired.out).toBe("Retired retiring 1.0.0: its downloads end within a minute\n");
    // No client has loaded the file before, so the service keeps nothing of it in memory.
    expect(await load("retiring")).toBe(404);
    expect(await load("retiring", "2.0.0")).toBe(200);
    expect(await listed("retiring")).toMatchObject({ version: "2.0.0" });

    // The day counts from the retirement, however old the file is.
    utimesSync(storedPath(sha256), 0, 0);
    expect(await line.json(["models", "purge"])).toEqual({ files: 0, bytes: 0, waiting: 1 });
    expect(existsSync(storedPath(sha256))).toBe(true);
    expect(await line.json(["models", "purge"], inADay)).toEqual({ files: 1, bytes: 54_321, waiting: 0 });
    expect(existsSync(storedPath(sha256))).toBe(false);
    expect(existsSync(storedPath(SHA256))).toBe(true);
    // `verify` does not miss the deleted file.
    expect((await line.here(["models", "verify"])).status).toBe(0);
    expect((await add({ name: "retiring", file: path })).err).toContain("a version never changes");
  });

  test("keep a file that another version needs, and a file that is added again", async () => {
    const path = join(line.folder, "shared.onnx");
    writeFileSync(path, testBytes(12_345));
    const shared = storedPath(hash("sha256", testBytes(12_345)));
    await add({ name: "one", file: path });
    await add({ name: "two", file: path });
    await line.here(["models", "retire", "one", "1.0.0"]);
    expect(await line.json(["models", "purge"], inADay)).toMatchObject({ files: 0, waiting: 0 });
    await line.here(["models", "retire", "two", "1.0.0"]);
    expect(await listed("two")).toBeUndefined();
    await add({ name: "three", file: path });
    expect(await line.json(["models", "purge"], inADay)).toMatchObject({ files: 0, waiting: 0 });
    expect(existsSync(shared)).toBe(true);
    expect(await load("three")).toBe(200);
  });

  test("delete the file of an interrupted add a day later, and no file that is not the registry's", async () => {
    const left = storedPath("ab".repeat(32));
    const others = [join(dirname(left), "notes.txt"), join(line.dataDir, "models", "cd".repeat(32))];
    mkdirSync(dirname(left), { recursive: true });
    for (const path of [left, ...others]) writeFileSync(path, "left");
    expect(await line.json(["models", "purge"])).toEqual({ files: 0, bytes: 0, waiting: 1 });
    expect(existsSync(left)).toBe(true);
    expect(await line.json(["models", "purge"], inADay)).toEqual({ files: 1, bytes: 4, waiting: 0 });
    expect([left, ...others].map((path) => existsSync(path))).toEqual([false, true, true]);
  });

  test("remove and retire ask at a terminal, and change nothing unless the answer is yes", async () => {
    await add({ name: "asked", file });
    await line.json(["models", "retire", "asked", "1.0.0", "--dry-run"]);
    expect(await listed("asked")).toMatchObject({ version: "1.0.0" });
    const terminal = { isTyped: true, isTerminal: true, env: { NO_COLOR: "1" } };
    for (const [command, question, done] of [
      [
        ["remove", "asked"],
        /^Take asked 1.0.0 off the list\? No command lists this version again/,
        "Removed",
      ],
      [["retire", "asked", "1.0.0"], /^Retire asked 1.0.0\? Its downloads end, and no command/, "Retired"],
    ] as const) {
      const run = (...more: string[]) => line.here(["models", ...command, ...more], terminal);
      const typed = (input: string) => line.here(["models", ...command], { ...terminal, input });
      for (const input of ["", "no\n", "y\n"]) {
        const { status, out, err } = await typed(input);
        expect([status, out]).toEqual([1, ""]);
        expect(err).toMatch(question);
        expect(err).toEndWith("claviger: Nothing was changed: the answer was not yes\n");
      }
      expect((await run("--dry-run")).out).toMatch(/^Would re(move|tire) asked 1.0.0/);
      expect(await line.json(["models", ...command, "--dry-run"])).toMatchObject({
        version: "1.0.0",
        [command[0] === "remove" ? "listed" : "retired"]: command[0] === "remove",
        dry_run: true,
      });
      expect(await line.json(["audit"])).not.toContainEqual(
        expect.objectContaining({
          action: `model.${command[0]}`,
          [command[0] === "remove" ? "before" : "after"]: expect.objectContaining({ name: "asked" }),
        }),
      );
      expect(await typed("yes\n")).toMatchObject({
        status: 0,
        out: expect.stringContaining(`${done} asked`),
      });
    }
    expect(await load("asked")).toBe(404);
    expect(await line.here(["models", "retire", "asked", "1.0.0", "--dry-run"])).toMatchObject({ status: 1 });
  });

  test("refuse a version that does not exist, and a version that is retired already", async () => {
    const retire = async (...args: string[]) => refusalOf(await line.here(["models", "retire", ...args]));
    expect(await retire("nothing", "1")).toBe("Cannot retire model: there is no nothing 1");
    for (const version of ["1.0.0", "2.0.0"]) await add({ name: "gone", file, version });
    await line.here(["models", "retire", "gone", "1.0.0"]);
    expect(await retire("gone", "1.0.0")).toBe("Cannot retire model: gone 1.0.0 is retired already");
  });
});
