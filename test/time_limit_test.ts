/** Bun ends a test or a hook after 5 s. On a busy machine, making a database alone may take that long. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const ROOT = import.meta.dir;
const SERVER = join(ROOT, "support/postgres.ts");
/** The functions of `support/use.ts`, and those made of them, set the limit. */
/** At the top of the file, or of the tests in it that use a database. */
const SETS_LIMIT = /^ {0,2}(const .* = )?(setDefaultTimeout|use[A-Z]\w*)\(/m;
const transpiler = new Bun.Transpiler({ loader: "ts" });
const reaches = new Map<string, boolean>();

/** Tells whether a file of the tests imports the tests' PostgreSQL, itself or through other files of the tests. */
function usesServer(path: string): boolean {
  if (path === SERVER) return true;
  const known = reaches.get(path);
  if (known !== undefined) return known;
  reaches.set(path, false);
  const imported = transpiler.scanImports(readFileSync(path, "utf8")).map((each) => each.path);
  const files = imported.filter((each) => /^\..*\.ts$/.test(each)).map((each) => join(dirname(path), each));
  const found = files.some((file) => file.startsWith(ROOT) && usesServer(file));
  reaches.set(path, found);
  return found;
}

test("Every test file that uses a database sets its own time limit", () => {
  // The targets for these two folders give a limit.
  const bare = [...new Bun.Glob("**/*_test.ts").scanSync(ROOT)].filter(
    (path) => !/^(compiled|console)\//.test(path),
  );
  const paths = bare.filter((path) => usesServer(join(ROOT, path)));
  expect(paths.length).toBeGreaterThan(100);
  expect(paths.filter((path) => !SETS_LIMIT.test(readFileSync(join(ROOT, path), "utf8")))).toEqual([]);
});
