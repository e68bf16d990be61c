/**
 * Compiles the program, a PostgreSQL archive and a Bun runtime into one executable. By default such an executable reads
 * `.env` and `bunfig.toml` in the folder where it is started. Two options of the build switch that off.
 */
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { type FoundPostgres, packPostgres } from "../base/platform/bun/pack_postgres.ts";
import type { PostgresOrigin } from "../base/version.ts";
import { readCommit } from "./commit.ts";
import { glibcNeededBy, type Machine } from "./elf.ts";
import { CHECKOUT } from "./parts.ts";

interface CompileOptions {
  readonly outfile: string;
  readonly entry: string;
  /** The path that `packPostgres` returned. */
  readonly archive: string;
  readonly origin: PostgresOrigin;
  /** The oldest glibc that can run the binaries in the archive, such as `2.27`. */
  readonly glibc: string | undefined;
  /** The Bun inside the executable; by default the Bun that builds. */
  readonly runtime?: { readonly target: string; readonly path: string };
}

/** Builds the executable; returns false if that failed, with the reason on standard error. */
export function compileExecutable({
  outfile,
  entry,
  archive,
  origin,
  glibc,
  runtime,
}: CompileOptions): boolean {
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
      "--define",
      `CLAVIGER_POSTGRES_ORIGIN=${JSON.stringify(origin)}`,
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

/** Packs a PostgreSQL, and returns what {@linkcode compileExecutable} needs to know of it. */
export async function preparePostgres({ folder, origin }: FoundPostgres, machine: Machine) {
  // Above level 19 the size falls only little. Packing takes some seconds once; then the archive is in `.cache`.
  const archive = await packPostgres({ level: 19, from: folder });
  if (archive === undefined) throw new Error(`Cannot pack ${folder}: it holds no PostgreSQL`);
  return { archive, origin, glibc: glibcOfPostgres(folder, machine) };
}

/** Returns the glibc that the PostgreSQL in a folder needs; throws if one of its binaries is of another machine. */
export function glibcOfPostgres(folder: string, machine: Machine): string | undefined {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return glibcNeededBy(
    files.map(({ parentPath, name }) => join(parentPath, name)),
    machine,
  );
}
