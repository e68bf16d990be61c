/** The command line for operators. `program.ts` lists the commands. */
export { createSurroundings } from "./process_surroundings.ts";
export { runCommandLine } from "./program.ts";
export type { Surroundings } from "./surroundings.ts";
