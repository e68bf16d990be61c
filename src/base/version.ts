import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };

/** The version of the program, for `claviger version` and the metrics. */
export const VERSION: string = packageJson.version;

/** Inserted by the build; absent when the program runs from source. */
declare const CLAVIGER_COMMIT: string | undefined;

/** The commit of the build, as `build/commit.ts` reads it; `source` when the program runs from source. */
export const COMMIT: string = typeof CLAVIGER_COMMIT === "string" ? CLAVIGER_COMMIT : "source";

/** The PostgreSQL that `make postgres` builds from its source and that a release holds. */
export const BUILT_POSTGRES = "18.6";

/** How a PostgreSQL came inside: `make postgres` built it, or the npm package holds it. */
export const POSTGRES_ORIGINS = { source: "built from its source", package: "of an npm package" } as const;
export type PostgresOrigin = keyof typeof POSTGRES_ORIGINS;

/** How the program came to its host, with the end of a sentence that begins with "installed as". */
export const ORIGINS = {
  source: "the source",
  file: "the plain executable",
  image: "a container image",
  package: "a package",
} as const;
type Origin = keyof typeof ORIGINS;

/**
 * Tells how the program came to its host: as its source, as the plain executable, in a container image, or in a package.
 * Image and package have a file for this beside the executable.
 */
export function readOrigin(commit = COMMIT, executable = process.execPath): Origin {
  if (commit === "source") return "source";
  // The file is about the executable beside it, not about a bundle that Node runs.
  if (basename(executable) === "node") return "file";
  try {
    const text = readFileSync(join(executable, "../../lib/claviger/origin"), "utf8").trim();
    return text === "image" || text === "package" ? text : "file";
  } catch {
    return "file";
  }
}
