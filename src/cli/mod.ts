/** The command line for operators. `program.ts` lists the commands. */
export { takeHandOver } from "./as_owner.ts";
export { createSurroundings } from "./process_surroundings.ts";
export { runCommandLine } from "./program.ts";
export type { Surroundings } from "./surroundings.ts";
