import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { findSetting } from "../../../src/installation/config/mod.ts";

const SOURCE = join(import.meta.dir, "../../../src");
/** These are compiled into the executable. */
const OF_BUILD = ["CLAVIGER_COMMIT", "CLAVIGER_NEEDS_GLIBC", "CLAVIGER_POSTGRES_ORIGIN"];
/** Names settings of earlier versions, too. */
const CHANGES = "cli/guide/changes.md";

test("every name of a setting in a message, a page or a comment is in the table of settings", () => {
  const paths = readdirSync(SOURCE, { recursive: true, encoding: "utf8", withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.endsWith(CHANGES));
  const unknown = paths.flatMap((path) => {
    const names = readFileSync(path, "utf8").match(/\bCLAVIGER_[A-Z0-9_]*[A-Z0-9]\b/g) ?? [];
    const wrong = names.filter((name) => findSetting(name) === undefined && !OF_BUILD.includes(name));
    return wrong.map((name) => `${path}: ${name}`);
  });
  expect(unknown).toEqual([]);
});
