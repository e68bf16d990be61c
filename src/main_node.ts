/** The program on Node, `dist/claviger.mjs`: reads the arguments and sets the exit status. */

import { nodePlatform } from "./base/platform/node/mod.ts";
import { createInvocation, runCommandLine } from "./cli/mod.ts";

/** The oldest version with long-term support that the suite runs on. */
const OLDEST_MAJOR = 24;

if (Number.parseInt(process.versions.node, 10) < OLDEST_MAJOR) {
  process.stderr.write(
    `claviger: Cannot run on Node ${process.versions.node}: Node ${OLDEST_MAJOR} or newer is needed\n`,
  );
  process.exit(1);
}
const PROGRAM_NAME = `node ${process.argv[1] ?? ""}`;
const invocation = createInvocation({ platform: nodePlatform, programName: PROGRAM_NAME });
process.exit(await runCommandLine(process.argv.slice(2), invocation));
