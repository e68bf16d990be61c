import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { POSTGRES_INSIDE } from "../../src/version.ts";
import { createCommandLine } from "./command_line.ts";

setDefaultTimeout(30_000);

describe("claviger version", () => {
  test("prints the commit, the runtime, the PostgreSQL inside and the schema", async () => {
    const line = createCommandLine();
    const { status, out } = await line.run(["version"]);
    expect(status).toBe(0);
    expect(out).toMatch(
      /^claviger \d+\.\d+\.\d+\ncommit {6}source\nBun {9}\d+\.\d+\.\d+\nPostgreSQL {2}18\.\d+ inside\nschema {6}\d+ \(\d{4}_\w+\)\n$/,
    );
    const { out: json } = await line.run(["version", "--json"]);
    expect(JSON.parse(json)).toMatchObject({
      commit: "source",
      bun: process.versions.bun,
      node: null,
      postgres: POSTGRES_INSIDE,
      schema: { number: expect.any(Number), name: expect.stringMatching(/^\d{4}_/) },
    });
    expect((await line.run(["--version"])).out).toMatch(/^claviger \d+\.\d+\.\d+\n$/);
    line.remove();
  });
});

test("the program starts from its source in any folder", () => {
  // Bun reads tsconfig.json only in the folder where it starts, so each file of JSX names its library itself.
  const main = join(import.meta.dir, "../../src/main.ts");
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, "version"], { cwd: "/" });
  expect({ exitCode, err: stderr.toString() }).toEqual({ exitCode: 0, err: "" });
});
