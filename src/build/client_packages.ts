/**
 * Makes packages of the clients that `claviger guide sdk` prints: one for npm, and a wheel and a source archive for pip.
 * `bun src/build/client_packages.ts [--outdir dist/clients]` makes only them, without npm, Node or Python.
 *
 * The texts beside the modules are in `client_packages/`. The same source gives the same bytes.
 */
import { mkdirSync, mkdtempDisposableSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import packageJson from "../../package.json" with { type: "json" };
import { readSourceDate } from "./commit.ts";
import { CHECKOUT } from "./parts.ts";
import { writeTarball } from "./tarball.ts";
import { renderWheel } from "./wheel.ts";

/** A package of a client, as a file of the release. It holds nothing of others. */
export interface ClientPackage {
  readonly path: string;
  /** The names in PyPI of what pip adds at an installation. */
  readonly needs: readonly string[];
}

interface PackageOptions {
  /** The version of the service, which the packages have, too. */
  readonly version: string;
  readonly createdAtSeconds: number;
}

const TEXTS = join(import.meta.dir, "client_packages");
const MODULES = join(CHECKOUT, "src/cli/guide/sdk");

/** Makes the packages in `outdir`. Throws if the client in TypeScript has a wrong type. */
export async function buildClientPackages(
  options: PackageOptions,
  outdir: string,
): Promise<readonly ClientPackage[]> {
  mkdirSync(outdir, { recursive: true });
  const packages = [await buildNpmPackage(options, outdir), ...(await buildPythonPackages(options, outdir))];
  for (const { path } of packages) console.log(`${path}: ${(statSync(path).size / 1e3).toFixed(1)} kB`);
  return packages;
}

async function buildNpmPackage(options: PackageOptions, outdir: string): Promise<ClientPackage> {
  const { version, createdAtSeconds } = options;
  const { program, types } = compileClient();
  const manifest = {
    name: "claviger-client",
    version,
    description: summaryOf(version),
    license: packageJson.license,
    type: "module",
    exports: { ".": { types: "./claviger_client.d.ts", default: "./claviger_client.js" } },
    bin: { "claviger-client": "claviger_client.js" },
    engines: { node: ">=22.18" },
  };
  const texts = {
    "package/README.md": textOf("npm_readme.md", version),
    "package/claviger_client.d.ts": types,
    "package/claviger_client.js": program,
    "package/package.json": `${JSON.stringify(manifest, null, 2)}\n`,
  };
  const path = join(outdir, `claviger-client-${version}.tgz`);
  await writeTarball(path, texts, { createdAtSeconds, program: "package/claviger_client.js" });
  return { path, needs: [] };
}

/** Returns the client as JavaScript, because Node does not run TypeScript below `node_modules`, and its types. */
function compileClient(): { readonly program: string; readonly types: string } {
  using work = mkdtempDisposableSync(join(tmpdir(), "claviger-client-"));
  const compiler = join(CHECKOUT, "node_modules/.bin/tsc");
  const { exitCode, stdout, stderr } = Bun.spawnSync(
    [process.execPath, "--bun", compiler, "--project", TEXTS, "--outDir", work.path],
    { cwd: CHECKOUT, stdin: "ignore", stderr: "pipe" },
  );
  if (exitCode !== 0) throw new Error(`Cannot compile the client in TypeScript: ${stdout}${stderr}`);
  const read = (name: string) => readFileSync(join(work.path, name), "utf8");
  const program = read("claviger_client.js").replace(/^#!.*\n/, "");
  return { program: `#!/usr/bin/env node\n${program}`, types: read("claviger_client.d.ts") };
}

/**
 * Makes the wheel and the source archive. The module is the `__init__.py` of a folder, because only a folder can have
 * `py.typed`, without which type checkers ignore the types. So everything of the module is in `claviger_client` itself,
 * also its settings, which a program may change there.
 */
async function buildPythonPackages(options: PackageOptions, outdir: string): Promise<ClientPackage[]> {
  const { version, createdAtSeconds } = options;
  const release = `claviger_client-${version}`;
  const readme = textOf("python_readme.md", version);
  const project = textOf("pyproject.toml", version);
  const metadata = renderMetadata({ version, readme });
  const modules = {
    "claviger_client/__init__.py": readFileSync(join(MODULES, "claviger_client.py"), "utf8"),
    "claviger_client/__main__.py": textOf("__main__.py", version),
    "claviger_client/py.typed": "",
  };
  const about = {
    METADATA: metadata,
    WHEEL: `Wheel-Version: 1.0\nGenerator: claviger ${version}\nRoot-Is-Purelib: true\nTag: py3-none-any\n`,
    "entry_points.txt": "[console_scripts]\nclaviger-client = claviger_client.__main__:main\n",
  };
  const wheel = join(outdir, `${release}-py3-none-any.whl`);
  writeFileSync(wheel, renderWheel(modules, { release, about, createdAtSeconds }));
  const source = { ...modules, "PKG-INFO": metadata, "README.md": readme, "pyproject.toml": project };
  const archive = join(outdir, `${release}.tar.gz`);
  const inFolder = Object.fromEntries(
    Object.entries(source).map(([name, text]) => [`${release}/${name}`, text]),
  );
  await writeTarball(archive, inFolder, { createdAtSeconds });
  return [wheel, archive].map((path) => ({ path, needs: ["cryptography"] }));
}

/** Returns what pip reads of the package (https://packaging.python.org/specifications/core-metadata/). */
function renderMetadata({ version, readme }: { readonly version: string; readonly readme: string }): string {
  const fields = {
    "Metadata-Version": "2.1",
    Name: "claviger-client",
    Version: version,
    Summary: summaryOf(version),
    "Requires-Python": ">=3.9",
    "Requires-Dist": "cryptography",
    "Description-Content-Type": "text/markdown",
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`);
  return `${lines.join("")}\n${readme}`;
}

function summaryOf(version: string): string {
  return `Client of Claviger, the licensing and model-registry service; tested with Claviger ${version}`;
}

function textOf(name: string, version: string): string {
  return readFileSync(join(TEXTS, name), "utf8")
    .replaceAll("@VERSION@", version)
    .replaceAll("@SUMMARY@", summaryOf(version));
}

if (import.meta.main) {
  const options = { outdir: { type: "string", default: join(CHECKOUT, "dist/clients") } } as const;
  const { values } = parseArgs({ options });
  try {
    const { version } = packageJson;
    await buildClientPackages({ version, createdAtSeconds: readSourceDate() }, values.outdir);
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}
