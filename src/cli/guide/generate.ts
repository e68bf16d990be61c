/** Writes the pages that come from tables in the code. `make guide` runs `bun src/cli/guide/generate.ts`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createProgram } from "../program.ts";
import type { Surroundings } from "../surroundings.ts";
import { writeCommandsPage, writeSettingsPage } from "./write_tables.ts";

/** No command runs: only the definitions are read, so the surroundings may be empty. */
const program = createProgram({} as Surroundings);
for (const [name, text] of [
  ["settings.md", writeSettingsPage()],
  ["commands.md", writeCommandsPage(program)],
] as const) {
  writeFileSync(join(import.meta.dirname, name), text);
}
