import { afterAll } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { testFolder } from "./postgres.ts";

/**
 * Makes a folder for the tests of a file, at once. It is removed after them. By default it is in the run's folder: in
 * memory if there is room, and closed to other users.
 */
export function useFolder(parent = testFolder()): string {
  const folder = mkdtempSync(join(parent, "claviger-files-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
