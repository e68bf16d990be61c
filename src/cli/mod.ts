/** The command line for operators. `program.ts` lists the commands. */
export { createInvocation } from "./create_invocation.ts";
export type { Invocation } from "./invocation.ts";
export { runCommandLine } from "./program.ts";
