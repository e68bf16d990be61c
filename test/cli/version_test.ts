import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { readOrigin } from "../../src/base/version.ts";
import { useFolder } from "../support/use_folder.ts";
import { createCommandLine } from "./command_line.ts";

const root = useFolder();
const inside = bunPlatform.postgresInside();

describe("claviger version", () => {
  test("prints the commit, the runtime, the PostgreSQL inside and the schema", async () => {
    using line = createCommandLine();
    const { status, out } = await line.run(["version"]);
    expect(status).toBe(0);
    expect(out).toMatch(
      /^claviger \d+\.\d+\.\d+\ncommit {8}source\ninstalled as {2}the source\nBun {11}\d+\.\d+\.\d+\nPostgreSQL {4}18\.\d+ inside, (built from its source|of an npm package)\nschema {8}\d+ \(\d{4}_\w+\)\n$/,
    );
    const { out: json } = await line.run(["version", "--json"]);
    expect(JSON.parse(json)).toMatchObject({
      commit: "source",
      origin: "source",
      bun: process.versions.bun,
      node: null,
      postgres: inside?.version,
      postgres_from: inside?.origin,
      schema: { number: expect.any(Number), name: expect.stringMatching(/^\d{4}_/) },
    });
    expect((await line.run(["--version"])).out).toMatch(/^claviger \d+\.\d+\.\d+\n$/);
  });
});

test("readOrigin() reads from the file beside the executable how the program came to its host", () => {
  const executable = join(root, "bin/claviger");
  const file = join(root, "lib/claviger/origin");
  const origin = () => readOrigin("0123456789ab", executable);
  expect(origin()).toBe("file");
  mkdirSync(dirname(file), { recursive: true });
  for (const kind of ["image", "package"] as const) {
    writeFileSync(file, `${kind}\n`);
    expect(origin()).toBe(kind);
    expect(readOrigin("0123456789ab", join(root, "bin/node"))).toBe("file");
  }
  writeFileSync(file, "elsewhere\n");
  expect(origin()).toBe("file");
  expect(readOrigin()).toBe("source");
});

test("the program starts from its source in any folder", () => {
  // Bun reads tsconfig.json only in the folder where it starts, so each file of JSX names its library itself.
  const main = join(import.meta.dir, "../../src/main.ts");
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, "version"], { cwd: "/" });
  expect({ exitCode, err: stderr.toString() }).toEqual({ exitCode: 0, err: "" });
});
