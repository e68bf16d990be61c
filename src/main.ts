/** The program on Bun, which is also the executable: reads the arguments and sets the exit status. */

import { bunPlatform } from "./base/platform/bun/mod.ts";
import { createInvocation, runCommandLine } from "./cli/mod.ts";

const [, script = ""] = process.argv;
/** The executable as the user called it; from source, this Bun, which may not be on the PATH, and this file. */
const programName = script.startsWith("/$bunfs/") ? process.argv0 : `${process.execPath} ${script}`;
const invocation = createInvocation({ platform: bunPlatform, programName });
process.exit(await runCommandLine(process.argv.slice(2), invocation));
