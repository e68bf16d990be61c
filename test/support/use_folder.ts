import { afterAll } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { testFolder } from "./postgres.ts";

/** Makes a folder for the tests of a file, at once, in memory if there is room. It is removed after them. */
export function useFolder(): string {
  const folder = mkdtempSync(join(testFolder(), "files-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
