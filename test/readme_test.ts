/** Compares the README with the code that it describes. `compiled/guide_test.ts` runs its console blocks. */
import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../package.json" with { type: "json" };
import { BUILT_POSTGRES } from "../src/base/version.ts";
import { listPackages } from "../src/build/parts.ts";
import { readme } from "./compiled/console_blocks.ts";

const root = join(import.meta.dir, "..");
/** The pages outside the manual: the text of each, and the folder to which its links are relative. */
const PAGES = [
  "README.md",
  "src/README.md",
  "test/README.md",
  "test/bench/README.md",
  "test/crash_test/README.md",
].map((path) => ({ path, folder: join(root, path, ".."), text: readFileSync(join(root, path), "utf8") }));

test("README.md begins with who needs this, what works without internet, and where it runs", () => {
  const [title = "", who = "", without = "", systems = ""] = readme.split("\n\n");
  expect(title).toBe("# Claviger");
  expect(who).toStartWith("Claviger is for ");
  expect(without).toStartWith("The host needs no internet");
  expect(systems).toStartWith("It runs on Linux, ");
});

test("README.md has at most 170 lines, two pictures below 150 kB, and a commit and a day for its figures", () => {
  expect(readme.trimEnd().split("\n").length).toBeLessThanOrEqual(170);
  const pictures = [...readme.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map(([, path = ""]) => path);
  expect(pictures).toHaveLength(2);
  for (const path of pictures) expect(statSync(join(root, path)).size).toBeWithin(10_000, 150_000);
  expect(sectionOf(readme, "What it guarantees")).toMatch(/\b[0-9a-f]{7}, on 20\d\d-\d\d-\d\d\b/);
});

test("README.md lists the packages that are in the executable, with their versions", () => {
  const section = sectionOf(readme, "What is in the executable");
  const inside = listPackages("bun").map(({ name, version }) => [name, version]);
  expect(versionsIn(section)).toEqual(Object.fromEntries(inside));
  expect(section).toContain(`Bun ${packageJson.engines.bun}`);
  expect(section).toContain(`PostgreSQL ${BUILT_POSTGRES}`);
  const onlyOnNode = listPackages("node").filter(({ name }) => !inside.some(([other]) => other === name));
  for (const { name, version } of onlyOnNode) expect(section).toContain(`\`${name}\` ${version}`);
});

test("test/README.md lists every other dependency with its version and purpose", () => {
  const text = PAGES.find(({ path }) => path === "test/README.md")?.text ?? "";
  const { dependencies, optionalDependencies, devDependencies } = packageJson;
  const inside = versionsIn(sectionOf(readme, "What is in the executable"));
  const others = Object.entries(dependencies).filter(([name]) => !(name in inside));
  expect(versionsIn(sectionOf(text, "What the tests need"))).toEqual({
    ...Object.fromEntries(others),
    ...optionalDependencies,
    ...devDependencies,
  });
});

function sectionOf(page: string, title: string): string {
  return page.split(/^## /m).find((text) => text.startsWith(`${title}\n`)) ?? "";
}

/** Returns the versions in a table of packages, by their names. Each row says what the package is for. */
function versionsIn(section: string) {
  const rows = section.matchAll(/^\| `([^`]+)` \| (\S+) \| (.+) \|$/gm);
  return Object.fromEntries([...rows].map(([, name = "", version = ""]) => [name, version]));
}

test("README.md names only targets that the Makefile has", () => {
  const makefile = readFileSync(join(root, "Makefile"), "utf8");
  const named = PAGES.flatMap(({ text }) => [...text.matchAll(/\bmake ([a-z]+(?:-[a-z]+)*)/g)]).map(
    ([, name = ""]) => name,
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => !new RegExp(`^${name}:`, "m").test(makefile))).toEqual([]);
});

test("make run names one data folder, and another one if ARGS has it", () => {
  const folderOf = (args: string) => {
    const env = { PATH: process.env.PATH ?? "" };
    const { stdout } = spawnSync("make", ["--dry-run", "run", `ARGS=${args}`], { cwd: root, env });
    const [, line = ""] = / src\/main\.ts serve (.*)/.exec(stdout.toString()) ?? [];
    return [...line.matchAll(/--data-dir[ =](\S+)/g)].map(([, folder = ""]) => folder);
  };
  const own = [expect.stringContaining("claviger-d")];
  expect(folderOf("")).toEqual(own);
  expect(folderOf("--port 9000")).toEqual(own);
  expect(folderOf("--port 9000 --data-dir ./mine")).toEqual(["./mine"]);
  expect(folderOf("--data-dir=./mine")).toEqual(["./mine"]);
});

for (const { path, folder, text } of PAGES) {
  test(`${path} names only files and folders that exist`, () => {
    const inRoot = [...text.matchAll(/`((?:src|test|sql)\/[\w/.-]*)`/g)].map(([, name = ""]) =>
      join(root, name),
    );
    const linked = [...text.matchAll(/\]\(((?!https?:|#)[^)#]+)(?:#[^)]+)?\)/g)].map(([, name = ""]) =>
      join(folder, name),
    );
    expect([...inRoot, ...linked].filter((name) => !existsSync(name))).toEqual([]);
  });
}

test("src/README.md has a line for each file of base/, and names only files and folders that exist", () => {
  const text = PAGES.find(({ path }) => path === "src/README.md")?.text ?? "";
  const base = readdirSync(join(root, "src/base"), { withFileTypes: true });
  const rows = text.split("\n").filter((line) => /^\| `\w+\.(d\.)?ts`/.test(line));
  const named = rows.flatMap((row) =>
    [...(row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name),
  );
  const files = base.filter((entry) => entry.isFile()).map(({ name }) => name);
  expect(named.toSorted()).toEqual(files.toSorted());
  const paths = [...text.matchAll(/`([a-z_]+\/(?:[\w.]+\/?)*)`/g)]
    .map(([, path = ""]) => path)
    .filter(
      (path) => !/^(src|test|sql)\//.test(path) && existsSync(join(root, "src", path.split("/")[0] ?? "")),
    );
  expect(paths.length).toBeGreaterThan(20);
  expect(paths.filter((path) => !existsSync(join(root, "src", path)))).toEqual([]);
});

test("test/README.md names only folders of tests that exist", () => {
  const text = PAGES.find(({ path }) => path === "test/README.md")?.text ?? "";
  const named = [...text.matchAll(/^\| `([\w/]+\/)`/gm)].map(([, folder = ""]) =>
    join(import.meta.dir, folder),
  );
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((name) => !existsSync(name))).toEqual([]);
});
