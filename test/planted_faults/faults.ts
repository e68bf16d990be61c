/**
 * The planted faults: each is one change of one file, from which somebody would suffer, with the tests that must notice it.
 *
 * `faults.jsonl` has a fault in each line. `search` is a text that the file has exactly once, and `replace` stands there
 * instead. `tests` are files and folders below `test/`, separated by blanks.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface PlantedFault {
  readonly id: string;
  /** Its path in the checkout. */
  readonly file: string;
  readonly search: string;
  readonly replace: string;
  readonly tests: string;
}

/** Returns the rows of the table, in its order. */
export function readFaults(): readonly PlantedFault[] {
  const lines = readFileSync(join(import.meta.dir, "faults.jsonl"), "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
}

/**
 * Returns the faults whose id is one of the words, or whose file's path contains one of them; all without words. Throws
 * if a word names none.
 */
export function chooseFaults(faults: readonly PlantedFault[], words: readonly string[]): PlantedFault[] {
  const isNamed = ({ id, file }: PlantedFault, word: string) => id === word || file.includes(word);
  for (const word of words) {
    if (!faults.some((fault) => isNamed(fault, word)))
      throw new Error(`No planted fault is named by ${word}`);
  }
  return faults.filter((fault) => words.length === 0 || words.some((word) => isNamed(fault, word)));
}

/** Returns the paths of the test files below `test/` that must notice a fault. Throws if one of the names has none. */
export function testsOf({ tests }: Pick<PlantedFault, "tests">, root: string): string[] {
  const files = tests.split(" ").flatMap((path) => {
    if (existsSync(join(root, "test", path)) && /_test\.tsx?$/.test(path)) return path;
    const found = [...new Bun.Glob(`test/${path}/**/*_test.{ts,tsx}`).scanSync(root)].sort();
    if (found.length === 0) throw new Error(`there is no test at test/${path}`);
    return found.map((file) => file.slice("test/".length));
  });
  return [...new Set(files)];
}

/** Returns what is wrong with a row in the checkout below `root`; undefined if the fault can be planted. */
export function findStale(fault: PlantedFault, root: string): string | undefined {
  const { file, search, replace } = fault;
  if (!existsSync(join(root, file))) return `${file} does not exist`;
  const [before = "", ...after] = readFileSync(join(root, file), "utf8").split(search);
  const times = after.length;
  if (times !== 1) return `${file} has its text ${times === 0 ? "no longer" : `${times} times`}`;
  if (search === replace) return "it changes nothing";
  const replaced = file.startsWith("sql/") ? findReplaced(before, file, root) : undefined;
  if (replaced !== undefined) return replaced;
  try {
    testsOf(fault, root);
    return undefined;
  } catch (error) {
    return String((error as Error).message);
  }
}

/** Says that a later migration replaces what this text of a migration begins to define; undefined if none does. */
function findReplaced(text: string, file: string, root: string): string | undefined {
  const begun = text.match(/^create (?:or replace )?(?:function|trigger) \w+/gm)?.at(-1);
  if (begun === undefined) return undefined;
  const isOver = /^\$\$;|^ +execute .*;/m.test(text.slice(text.lastIndexOf(begun)));
  if (isOver) return undefined;
  const name = begun.replace(/^create (?:or replace )?/, "");
  const later = readdirSync(join(root, "sql")).filter((each) => `sql/${each}` > file);
  const again = new RegExp(`^\\s*(?:create or replace|drop) ${name}\\b`, "m");
  const found = later.find((each) => again.test(readFileSync(join(root, "sql", each), "utf8")));
  return found && `sql/${found} replaces the ${name} of ${file}`;
}

/** Plants a fault that is not stale. Returns what takes it out again. */
export function plant({ file, search, replace }: PlantedFault, root: string): () => void {
  const path = join(root, file);
  const sound = readFileSync(path, "utf8");
  writeFileSync(path, sound.split(search).join(replace));
  return () => writeFileSync(path, sound);
}
