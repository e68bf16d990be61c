/**
 * Builds the program for Node: `bun src/build/node_bundle.ts [--outfile dist/claviger.mjs]`.
 *
 * The result is one file that needs no `node_modules`. It contains everything except Node and PostgreSQL.
 */
import { chmodSync, mkdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { readCommit } from "./commit.ts";
import { CHECKOUT } from "./parts.ts";

const { values } = parseArgs({
  options: {
    outfile: { type: "string", default: join(CHECKOUT, "dist/claviger.mjs") },
    entry: { type: "string", default: join(CHECKOUT, "src/main_node.ts") },
  },
});

const folder = dirname(values.outfile);
mkdirSync(folder, { recursive: true });
const build = await Bun.build({
  entrypoints: [values.entry],
  outdir: folder,
  naming: basename(values.outfile),
  target: "node",
  format: "esm",
  // Names are kept, so that stack traces can be read.
  minify: { syntax: true, whitespace: true },
  // The mode also makes the compiler emit JSX without the file names and lines that help in development.
  define: { "process.env.NODE_ENV": '"production"', CLAVIGER_COMMIT: JSON.stringify(readCommit()) },
  banner: "#!/usr/bin/env node",
  throw: false,
});
if (!build.success) {
  for (const log of build.logs) console.error(String(log));
  process.exit(1);
}
chmodSync(values.outfile, 0o755);
console.log(`${values.outfile}: ${(statSync(values.outfile).size / 1e3).toFixed(0)} kB`);
