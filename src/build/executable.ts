/**
 * Builds the executable: `bun src/build/executable.ts [--outfile dist/claviger] [--entry src/main.ts]`.
 *
 * PostgreSQL is packed at a high level and embedded under the name of its archive: the one that `make postgres` built, or
 * else that of the npm package. `compile.ts` does the rest.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findPostgres } from "../base/platform/bun/pack_postgres.ts";
import { POSTGRES_ORIGINS } from "../base/version.ts";
import { compileExecutable, preparePostgres } from "./compile.ts";
import { CHECKOUT } from "./parts.ts";

const { values } = parseArgs({
  options: {
    outfile: { type: "string", default: join(CHECKOUT, "dist/claviger") },
    entry: { type: "string", default: join(CHECKOUT, "src/main.ts") },
  },
});

const machine = process.arch === "arm64" ? "arm64" : "x64";
const postgres = findPostgres();
if (postgres === undefined) {
  console.error("Cannot build: there is no PostgreSQL for this platform; run bun install, or make postgres");
  process.exit(1);
}
if (!compileExecutable({ ...values, ...(await preparePostgres(postgres, machine)) })) process.exit(1);
const MEGABYTES = statSync(values.outfile).size / 1e6;
console.log(
  `${values.outfile}: ${MEGABYTES.toFixed(1)} MB, with PostgreSQL ${postgres.version} ${POSTGRES_ORIGINS[postgres.origin]}`,
);
