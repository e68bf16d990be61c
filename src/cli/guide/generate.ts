/** Writes the pages that come from tables in the code. `make guide` runs `bun src/cli/guide/generate.ts`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Invocation } from "../invocation.ts";
import { createProgram } from "../program.ts";
import { writeCommandsPage, writeSettingsPage } from "./write_tables.ts";

/** No command runs: only the definitions are read, so the invocation may be empty. */
const program = createProgram({} as Invocation);
for (const [name, text] of [
  ["settings.md", writeSettingsPage()],
  ["commands.md", writeCommandsPage(program)],
] as const) {
  writeFileSync(join(import.meta.dirname, name), text);
}
