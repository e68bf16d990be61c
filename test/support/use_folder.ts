import { afterAll } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Makes a folder for the tests of a file, at once. It is removed after them. */
export function useFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "claviger-test-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
