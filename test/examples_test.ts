/** The examples of functions (`@example`) compile, and each line that shows a value has this value. */
import { beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createTestDatabase } from "./support/database.ts";
import { ACTOR, BRAND, NOW } from "./support/issue.ts";
import { useFolder } from "./support/use_folder.ts";

const root = join(import.meta.dir, "..");
const BLOCK = /@example\n \* ```ts\n(.*?) \* ```\n.*?export (?:async )?function (\w+)/gs;

/** Where the examples find what they use: the face of a room or of a folder in it, or a file of base/. */
const MODULES = ["answer_fields", "calendar", "clock", "ids", "log", "refusal"].map(
  (name) => `src/base/${name}.ts`,
);
const ROOMS = [
  "audit",
  "database",
  "licensing/keys",
  "licensing",
  "base/rate_limits",
  "base/secrets",
  "wire",
];

/** The values that the examples do not make themselves. */
const GIVEN = "const { address, database, brand, actor, now } = given;";
const GIVEN_TYPE =
  "{ address: DatabaseAddress; database: Database; brand: Brand; actor: Actor; now: Date; show: (shown: unknown) => void }";

interface Example {
  readonly name: string;
  readonly code: string;
  /** The values in the comments, in their order. */
  readonly values: readonly unknown[];
}

const examples: Example[] = [];
for (const path of [...new Bun.Glob("src/**/*.ts").scanSync(root)].sort()) {
  const source = await Bun.file(join(root, path)).text();
  for (const [, block = "", name = ""] of source.matchAll(BLOCK)) examples.push(readExample(name, block));
}

const folder = useFolder();
beforeAll(async () => {
  const paths = [...MODULES, ...ROOMS.map((room) => `src/${room}/mod.ts`)];
  const names = (await Promise.all(paths.map((path) => import(join(root, path))))).map(Object.keys);
  const code = examples.map(({ code }) => code).join("\n");
  const imports = paths.map((path, index) => {
    const used = names[index]?.filter((name) => new RegExp(`\\b${name}\\b`).test(code)) ?? [];
    return `import { ${used.join(", ")} } from "${join(root, path)}";`;
  });
  const types = `
    import type { Actor } from "${root}/src/audit/mod.ts";
    import type { Brand } from "${root}/src/licensing/mod.ts";
    import type { Database, DatabaseAddress } from "${root}/src/database/mod.ts";`;
  const functions = examples.map(
    ({ name, code }) =>
      `export async function ${name}Example(given: ${GIVEN_TYPE}) {${GIVEN}\n{ ${code} }\n}`,
  );
  writeFileSync(join(folder, "examples.ts"), [...imports, types, ...functions].join("\n"));
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { types: [join(root, "node_modules/bun-types")], noUnusedLocals: false },
    include: [join(folder, "examples.ts"), join(root, "src/base/*.d.ts")],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
});

/** Reads the lines of an example. `EXPRESSION; // VALUE` shows the value of the expression. */
function readExample(name: string, block: string): Example {
  const values: unknown[] = [];
  const lines = block.split("\n").map((line) => {
    const code = line.replace(/^ \* ?/, "");
    const [, expression, value] = /^(.+); \/\/ (.+)$/.exec(code) ?? [];
    if (value === undefined) return code;
    values.push(value === "undefined" ? undefined : JSON.parse(value));
    return `given.show(${expression});`;
  });
  return { name, code: lines.join("\n"), values };
}

test("ten functions have an example", () => {
  expect(examples.length).toBeGreaterThanOrEqual(10);
});

test("the examples compile", () => {
  const tsc = [process.execPath, "--bun", join(root, "node_modules/.bin/tsc"), "--project", folder];
  const { stdout } = Bun.spawnSync(tsc, { cwd: root });
  expect(stdout.toString()).toBe("");
});

test.each(examples)("$name() does what its example says", async ({ name, values }) => {
  const module = await import(join(folder, "examples.ts"));
  const shown: unknown[] = [];
  // Its own database, because an example may list what others have made.
  await using own = await createTestDatabase();
  await module[`${name}Example`]({
    address: own.address,
    database: own.database,
    brand: BRAND,
    actor: ACTOR,
    now: NOW,
    show: (value: unknown) => void shown.push(value),
  });
  expect(shown).toStrictEqual([...values]);
  expect(values.length).toBeGreaterThan(0);
});
