/** The packages of the clients, without the programs that install them: `client_packages_proof.ts` installs them. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { strFromU8, unzipSync } from "fflate";
import packageJson from "../../package.json" with { type: "json" };
import { buildClientPackages, type ClientPackage } from "../../src/build/client_packages.ts";
import { CHECKOUT } from "../../src/build/parts.ts";
import { runTool } from "../../src/build/run_tool.ts";
import { renderWheel } from "../../src/build/wheel.ts";
import { findGuidePage } from "../../src/cli/guide/pages.ts";
import { useFolder } from "../support/use_folder.ts";

const { version } = packageJson;
const NPM = `claviger-client-${version}.tgz`;
const WHEEL = `claviger_client-${version}-py3-none-any.whl`;
const SOURCE = `claviger_client-${version}.tar.gz`;
const ABOUT = `claviger_client-${version}.dist-info`;
/** An hour that New York skipped. */
const createdAtSeconds = Date.UTC(2026, 2, 8, 2, 30) / 1000;
const TESTED = `tested with Claviger ${version}`;

const folder = useFolder();
const outdir = join(folder, "packages");
let packages: readonly ClientPackage[];
let npm: ReadonlyMap<string, string>;
let wheel: ReadonlyMap<string, string>;
let source: ReadonlyMap<string, string>;

const readModule = (name: string) => readFileSync(join(CHECKOUT, "src/cli/guide/sdk", name), "utf8");

async function unpackTarball(name: string): Promise<ReadonlyMap<string, string>> {
  const files = await new Bun.Archive(readFileSync(join(outdir, name))).files();
  return new Map(
    await Promise.all([...files].map(async ([path, file]) => [path, await file.text()] as const)),
  );
}

function unpackWheel(bytes: Uint8Array): ReadonlyMap<string, string> {
  return new Map(Object.entries(unzipSync(bytes)).map(([path, content]) => [path, strFromU8(content)]));
}

/** Returns how tar lists an archive: mode, owner, time and name of each entry. */
function listTarball(name: string): string[] {
  const list = runTool(["env", "TZ=UTC", "tar", "--list", "-v", `--file=${name}`, "--numeric-owner"], outdir);
  return list
    .trim()
    .split("\n")
    .map((line) => line.replace(/ +\d+ /, " "));
}

beforeAll(async () => {
  packages = await buildClientPackages({ version, createdAtSeconds }, outdir);
  npm = await unpackTarball(NPM);
  wheel = unpackWheel(readFileSync(join(outdir, WHEEL)));
  source = await unpackTarball(SOURCE);
});

describe("buildClientPackages()", () => {
  test("makes a package for npm, and a wheel and a source archive that need cryptography", () => {
    expect(packages.map(({ path, needs }) => [basename(path), ...needs])).toEqual([
      [NPM],
      [WHEEL, "cryptography"],
      [SOURCE, "cryptography"],
    ]);
    expect(readdirSync(outdir).sort()).toEqual([NPM, WHEEL, SOURCE].sort());
  });

  test("gives the same bytes in another folder, with another umask and time zone", () => {
    const other = join(folder, "another-folder");
    mkdirSync(other);
    const script = join(CHECKOUT, "src/build/client_packages.ts");
    const { exitCode } = Bun.spawnSync(
      ["sh", "-c", 'umask 077 && exec "$0" "$1" --outdir packages', process.execPath, script],
      {
        cwd: other,
        env: { ...process.env, TZ: "America/New_York", SOURCE_DATE_EPOCH: String(createdAtSeconds) },
        stdout: "ignore",
      },
    );
    expect(exitCode).toBe(0);
    for (const name of [NPM, WHEEL, SOURCE]) {
      const isEqual = readFileSync(join(other, "packages", name)).equals(readFileSync(join(outdir, name)));
      expect([name, isEqual]).toEqual([name, true]);
    }
  });
});

describe("the package for npm", () => {
  test("has JavaScript that runs as a program, its types, and the manifest", () => {
    expect(listTarball(NPM)).toEqual([
      "-rw-r--r-- 0/0 2026-03-08 02:30 package/README.md",
      "-rw-r--r-- 0/0 2026-03-08 02:30 package/claviger_client.d.ts",
      "-rwxr-xr-x 0/0 2026-03-08 02:30 package/claviger_client.js",
      "-rw-r--r-- 0/0 2026-03-08 02:30 package/package.json",
    ]);
    const program = npm.get("package/claviger_client.js") ?? "";
    expect(program).toStartWith("#!/usr/bin/env node\n");
    expect(program.match(/^#!/gm)).toHaveLength(1);
  });

  test("has types that need nothing of Bun", () => {
    const types = npm.get("package/claviger_client.d.ts") ?? "";
    expect(types).toMatch(/^export declare class /m);
    expect(types).not.toMatch(/["']bun|\bBun\b/);
  });

  test("has a manifest with program, types and Node, and without dependencies", () => {
    expect(JSON.parse(npm.get("package/package.json") ?? "")).toEqual({
      name: "claviger-client",
      version,
      description: expect.stringContaining(TESTED),
      license: packageJson.license,
      type: "module",
      exports: { ".": { types: "./claviger_client.d.ts", default: "./claviger_client.js" } },
      bin: { "claviger-client": "claviger_client.js" },
      engines: { node: ">=22.18" },
    });
  });
});

describe("the wheel", () => {
  test("has the module as a folder with its types, and ends with RECORD", () => {
    expect([...wheel.keys()]).toEqual([
      "claviger_client/__init__.py",
      "claviger_client/__main__.py",
      "claviger_client/py.typed",
      `${ABOUT}/METADATA`,
      `${ABOUT}/WHEEL`,
      `${ABOUT}/entry_points.txt`,
      `${ABOUT}/RECORD`,
    ]);
    expect(wheel.get("claviger_client/__init__.py")).toBe(readModule("claviger_client.py"));
  });

  test("has the digest and the size of each file in RECORD", () => {
    const lines = [...wheel].map(([path, text]) => {
      if (path === `${ABOUT}/RECORD`) return `${path},,`;
      const digest = createHash("sha256").update(text).digest("base64");
      const safe = digest.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
      return `${path},sha256=${safe},${Buffer.byteLength(text)}`;
    });
    expect(wheel.get(`${ABOUT}/RECORD`)).toBe(`${lines.join("\n")}\n`);
  });

  test("tells pip the oldest Python, what it needs, and the program", () => {
    const [head = ""] = wheel.get(`${ABOUT}/METADATA`)?.split("\n\n") ?? [];
    expect(head.split("\n")).toEqual([
      "Metadata-Version: 2.1",
      "Name: claviger-client",
      `Version: ${version}`,
      expect.stringMatching(new RegExp(`^Summary: .*${TESTED}$`)),
      "Requires-Python: >=3.9",
      "Requires-Dist: cryptography",
      "Description-Content-Type: text/markdown",
    ]);
    expect(wheel.get(`${ABOUT}/WHEEL`)).toMatch(/^Root-Is-Purelib: true\nTag: py3-none-any$/m);
    expect(wheel.get(`${ABOUT}/entry_points.txt`)).toBe(
      "[console_scripts]\nclaviger-client = claviger_client.__main__:main\n",
    );
  });
});

describe("the source archive", () => {
  test("has the files of the wheel, and what builds it", () => {
    const name = `claviger_client-${version}`;
    expect(listTarball(SOURCE)).toEqual(
      [
        "PKG-INFO",
        "README.md",
        "claviger_client/__init__.py",
        "claviger_client/__main__.py",
        "claviger_client/py.typed",
        "pyproject.toml",
      ].map((path) => `-rw-r--r-- 0/0 2026-03-08 02:30 ${name}/${path}`),
    );
    for (const [path, text] of wheel) {
      if (!path.startsWith(ABOUT)) expect([path, source.get(`${name}/${path}`)]).toEqual([path, text]);
    }
    expect(source.get(`${name}/PKG-INFO`)).toBe(wheel.get(`${ABOUT}/METADATA`));
  });

  test("has the same name, version, need and program in pyproject.toml as the wheel", () => {
    const project = Bun.TOML.parse(source.get(`claviger_client-${version}/pyproject.toml`) ?? "");
    expect(project).toMatchObject({
      project: {
        name: "claviger-client",
        version,
        description: expect.stringContaining(TESTED),
        "requires-python": ">=3.9",
        dependencies: ["cryptography"],
        scripts: { "claviger-client": "claviger_client.__main__:main" },
      },
    });
  });
});

test("Each README names its file of the release, the tested version and the page of the manual", () => {
  const readmes = [
    [NPM, npm.get("package/README.md")],
    [WHEEL, wheel.get(`${ABOUT}/METADATA`)],
    [WHEEL, source.get(`claviger_client-${version}/README.md`)],
  ];
  for (const [file = "", text = ""] of readmes)
    for (const words of [`./${file}`, TESTED, "`claviger guide sdk`"]) expect(text).toContain(words);
});

test("The pages verify and sdk name the packages", () => {
  expect(findGuidePage("verify")?.text).toContain(`\`${SOURCE}\``);
  for (const name of [NPM, WHEEL]) {
    expect(findGuidePage("verify")?.text).toContain(`\`${name}\``);
    expect(findGuidePage("sdk")?.text).toContain(` ./${name}\n`);
  }
});

test("renderWheel() works without a commit, whose time is 1970, before the first day of such archives", () => {
  const bytes = renderWheel({ "a.py": "" }, { release: "a-1", about: {}, createdAtSeconds: 0 });
  expect([...unpackWheel(bytes).keys()]).toEqual(["a.py", "a-1.dist-info/RECORD"]);
});
