/** Chooses the program under the crash test. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { SOURCE } from "../support/service_process.ts";

export interface Program {
  readonly command: readonly string[];
  /** For output to people: the executable, or the source. */
  readonly name: string;
}

const root = join(import.meta.dir, "../..");
const executable = join(root, "dist/claviger");
const fromSource: Program = { command: SOURCE, name: "bun src/main.ts" };

/** Returns the executable if it is not older than its sources; otherwise the source on Bun. */
export function findProgram(options: { readonly fromSource?: boolean } = {}): Program {
  if (options.fromSource || !existsSync(executable)) return fromSource;
  const builtMs = statSync(executable).mtimeMs;
  const isOlder = ["src", "sql"].some((folder) => newestMs(join(root, folder)) > builtMs);
  return isOlder ? fromSource : { command: [executable], name: "dist/claviger" };
}

function newestMs(folder: string): number {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  return Math.max(...entries.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs));
}
