/**
 * Installs the packages of the clients without a network, as users do it, and runs them. What a machine lacks is left out,
 * with a message.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { buildClientPackages } from "../../src/build/client_packages.ts";
import { CHECKOUT } from "../../src/build/parts.ts";
import { NODE } from "../support/node_process.ts";
import { useFolder } from "../support/use_folder.ts";

const { version } = packageJson;
const TOOLS = join(CHECKOUT, "node_modules/.bin");
const MODULES = join(CHECKOUT, "src/cli/guide/sdk");

const folder = useFolder();
const outdir = join(folder, "packages");
const env = {
  // npm runs on the pinned Node, and so do the programs that it installs.
  PATH: `${TOOLS}:${process.env.PATH}`,
  HOME: folder,
  // Nobody listens there.
  NPM_CONFIG_REGISTRY: "http://127.0.0.1:9/",
  PIP_NO_INDEX: "1",
  PIP_DISABLE_PIP_VERSION_CHECK: "1",
};

/** Runs a command to its end. */
function run(command: string[], cwd: string, more: Readonly<Record<string, string>> = {}) {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, {
    cwd,
    env: { ...env, ...more },
    stdin: "ignore",
  });
  return { status: exitCode, out: stdout.toString(), errors: stderr.toString() };
}

/** Runs a command that must succeed, and returns its output. */
function mustRun(command: string[], cwd: string, more: Readonly<Record<string, string>> = {}): string {
  const { status, out, errors } = run(command, cwd, more);
  if (status !== 0) throw new Error(`${command.join(" ")} ended with ${status}: ${out}${errors}`);
  return out;
}

function makeFolder(name: string): string {
  mkdirSync(join(folder, name));
  return join(folder, name);
}

/** What the client says without a command. It shows that the file knew it was run as a program. */
const USAGE = { status: 2, out: "", errors: expect.stringContaining("activate") };

/** Returns the first Python that can do this, or else undefined. Debian's may have more than the one in the PATH. */
function findPython(statement: string): string | undefined {
  return ["python3", "/usr/bin/python3"].find(
    (python) => Bun.which(python) !== null && run([python, "-c", statement], "/").status === 0,
  );
}

const hasNpm = Bun.which("npm") !== null;
if (!hasNpm) console.warn("Skipped the installation by npm: npm is missing");
const python = findPython("import ensurepip, venv");
if (python === undefined) console.warn("Skipped the installation by pip: python3 with venv is missing");
const builder = findPython("import ensurepip, setuptools, venv, wheel");
if (builder === undefined)
  console.warn("Skipped the source archive: python3 with setuptools and wheel is missing");

beforeAll(async () => {
  await buildClientPackages({ version, createdAtSeconds: 1_800_000_000 }, outdir);
});

const PRINT_NAMES = 'console.log(JSON.stringify(Object.keys(await import("claviger-client")).sort()))';

/** What the module in the checkout exports. */
function namesInCheckout(): string {
  const path = JSON.stringify(join(MODULES, "claviger_client.ts"));
  return mustRun([NODE, "--input-type=module", "-e", PRINT_NAMES.replace('"claviger-client"', path)], folder);
}

describe.skipIf(!hasNpm)("the package, installed by npm", () => {
  let project: string;
  beforeAll(() => {
    project = makeFolder("npm");
    mustRun(["npm", "install", "--offline", join(outdir, `claviger-client-${version}.tgz`)], project);
  });

  test("is imported by Node, with everything that the module exports", () => {
    const names = mustRun([NODE, "--input-type=module", "-e", PRINT_NAMES], project);
    expect(JSON.parse(names)).toContain("Client");
    expect(names).toBe(namesInCheckout());
  });

  test("runs as a program through the link that npm makes", () => {
    expect(run(["node_modules/.bin/claviger-client"], project)).toEqual(USAGE);
  });

  test("has types that a strict compiler accepts, and by which it finds a wrong name", () => {
    const check = (text: string) => {
      writeFileSync(join(project, "program.ts"), text);
      const flags = ["--strict", "--noEmit", "--target", "es2024", "--module", "nodenext", "--types", "node"];
      const roots = ["--typeRoots", join(CHECKOUT, "node_modules/@types"), "--skipLibCheck", "false"];
      const compiler = [process.execPath, "--bun", join(TOOLS, "tsc")];
      return run([...compiler, ...flags, ...roots, "program.ts"], project);
    };
    const use = (name: string) => `import { ${name} } from "claviger-client";\nconsole.log(${name});\n`;
    expect(check(use("Client"))).toEqual({ status: 0, out: "", errors: "" });
    expect(check(use("Kunde")).out).toContain("has no exported member 'Kunde'");
  });
});

describe("the package, installed by Bun", () => {
  test("is imported, and runs as a program", () => {
    const project = makeFolder("bun");
    mustRun([process.execPath, "add", join(outdir, `claviger-client-${version}.tgz`)], project);
    expect(mustRun([process.execPath, "-e", PRINT_NAMES], project)).toBe(namesInCheckout());
    expect(run([process.execPath, "--bun", "node_modules/.bin/claviger-client"], project)).toEqual(USAGE);
  });
});

const PRINT_MODULE = `
import json, claviger_client
print(json.dumps(sorted(vars(claviger_client).keys() - {"__path__", "__cached__"})))`;
const PRINT_ABOUT = `
import importlib.metadata as metadata, json, os, claviger_client
is_typed = os.path.exists(os.path.join(os.path.dirname(claviger_client.__file__), "py.typed"))
print(json.dumps([metadata.version("claviger-client"), metadata.requires("claviger-client"), is_typed]))`;

/**
 * Makes an environment of its own, which sees what else this Python has, and installs a file there: without cryptography,
 * which pip would fetch, and which the client needs only for signed licenses.
 */
function installByPip(interpreter: string, file: string, options: readonly string[] = []): string {
  const place = makeFolder(`pip-${file}`);
  mustRun([interpreter, "-m", "venv", "--system-site-packages", "."], place);
  mustRun(["bin/python3", "-m", "pip", "install", "--no-deps", ...options, join(outdir, file)], place);
  return place;
}

/** Examines an installed client: it is as the module in the checkout, and runs as a program in both ways. */
function expectInstalled(place: string): void {
  const names = mustRun(["bin/python3", "-c", PRINT_MODULE], place);
  expect(JSON.parse(names)).toContain("Client");
  expect(names).toBe(mustRun(["bin/python3", "-B", "-c", PRINT_MODULE], place, { PYTHONPATH: MODULES }));
  expect(JSON.parse(mustRun(["bin/python3", "-c", PRINT_ABOUT], place))).toEqual([
    version,
    ["cryptography"],
    true,
  ]);
  expect(run(["bin/claviger-client"], place)).toEqual(USAGE);
  expect(run(["bin/python3", "-W", "error", "-m", "claviger_client"], place)).toEqual(USAGE);
}

const PRINT_ENTRIES = `
import json, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
entries = {(oct(each.external_attr >> 16), each.date_time) for each in wheel.infolist()}
print(json.dumps([wheel.testzip(), sorted(entries)]))`;

test.skipIf(python === undefined)("The wheel is read by Python: every file has one mode and one time", () => {
  const path = join(outdir, `claviger_client-${version}-py3-none-any.whl`);
  expect(JSON.parse(mustRun([python ?? "", "-c", PRINT_ENTRIES, path], folder))).toEqual([
    null,
    [["0o100644", [2027, 1, 15, 12, 0, 0]]],
  ]);
});

test.skipIf(python === undefined)("The wheel, installed by pip, is the module and its program", () => {
  expectInstalled(installByPip(python ?? "", `claviger_client-${version}-py3-none-any.whl`));
});

test.skipIf(builder === undefined)("The source archive, built by setuptools, is the same", () => {
  const file = `claviger_client-${version}.tar.gz`;
  expectInstalled(installByPip(builder ?? "", file, ["--no-build-isolation"]));
});
