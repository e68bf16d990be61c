/** Root runs the executable on the data folder of an ordinary user, who serves from it and plants traps. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { canActAsBoth, createRootStage, ENDING, type RootStage, USER } from "../cli/as_root.ts";
import { until } from "../support/until.ts";
import { builtExecutable, START_LIMIT_MS } from "./executable.ts";
import { isBuilt, TEST_LIMIT_MS } from "./installed.ts";

const LIMIT_MS = 2_000;
const program = [builtExecutable];

describe.skipIf(!(canActAsBoth && isBuilt))("root, while an ordinary user runs the service", () => {
  let stage: RootStage;
  let usualMs: number;

  beforeAll(async () => {
    stage = createRootStage();
    expect(await stage.asRoot(["migrate"], { program })).toMatchObject({ status: 0, err: "" });
    usualMs = (await stage.asRoot(["keys", "list"], { program })).ms;
  }, TEST_LIMIT_MS);
  afterAll(() => stage.remove());

  test(
    "commands work while it serves, and everything stays the user's",
    async () => {
      const args = ["serve", "--port", "0", "--data-dir", stage.dataDir, "--env-file", "/dev/null"];
      const service = spawn("timeout", [...ENDING, builtExecutable, ...args], {
        ...USER,
        cwd: "/",
        env: { PATH: "/usr/bin:/bin" },
        stdio: ["ignore", "pipe", "ignore"],
      });
      let out = "";
      service.stdout.on("data", (text: Buffer) => {
        out += text.toString();
      });
      try {
        await until(() => out.includes("Its data is in"), { limitMs: START_LIMIT_MS });
        const saved = join(stage.victim, "saved");
        for (const command of [
          ["keys", "issue", "--email", "ada@example.org", "--tier", "free"],
          ["backup", saved, "--with-secret"],
          ["doctor"],
        ]) {
          expect(await stage.asRoot(command, { program })).toMatchObject({ status: 0 });
        }
        const token = await stage.asRoot(["installer", "set-token"], { program, input: "a-token" });
        expect(token).toMatchObject({ status: 0, out: "The repository token is set\n" });
        expect(statSync(saved)).toMatchObject({ uid: 0, mode: 0o100600 });
        const served = await stage.asRoot(["serve"], { program });
        expect(served.err).toContain(`\`sudo -u nobody ${builtExecutable} serve`);
        stage.expectOwnedByUser();
      } finally {
        const ended = new Promise((resolve) => service.once("exit", resolve));
        service.kill("SIGTERM");
        expect(await ended).toBe(0);
      }
    },
    TEST_LIMIT_MS,
  );

  test.each([
    ["a link in the place of the lock", "ln -sf $1/key lock", "rm -f lock"],
    [
      "a pipe in the place of PG_VERSION",
      "mv postgres/PG_VERSION v; mkfifo postgres/PG_VERSION",
      "mv v postgres/PG_VERSION",
    ],
  ])(
    "%s ends the command and changes nothing of root's",
    async (_, plant, undo) => {
      const before = stage.lookAtVictim();
      stage.asUser(plant);
      const ended = await stage.asRoot(["keys", "list"], { program });
      stage.asUser(undo);
      expect(ended).toMatchObject({ status: 1, out: "", err: expect.stringContaining("remove") });
      expect(ended.ms - usualMs).toBeLessThan(LIMIT_MS);
      expect(stage.lookAtVictim()).toEqual(before);
    },
    TEST_LIMIT_MS,
  );

  test(
    "a folder swapped for a link while PostgreSQL is unpacked gains nothing",
    async () => {
      const before = stage.lookAtVictim();
      for (let round = 0; round < 3; round++) {
        stage.asUser("rm -rf postgres-*");
        const loop = stage.loopAsUser(
          "for n in postgres-*.unfinished-*; do [ -d $n ] && mv $n a && ln -s $1 $n && rm $n && mv a $n; done",
        );
        await stage.asRoot(["keys", "list"], { program });
        await loop.end();
        expect(stage.lookAtVictim()).toEqual(before);
      }
    },
    TEST_LIMIT_MS,
  );
});
