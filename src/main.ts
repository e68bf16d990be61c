/** The program on Bun, which is also the executable: reads the arguments and sets the exit status. */
import { createSurroundings, runCommandLine } from "./cli/mod.ts";
import { bunPlatform } from "./platform/bun/mod.ts";

const surroundings = createSurroundings({ platform: bunPlatform, programName: nameOfProgram() });
process.exit(await runCommandLine(process.argv.slice(2), surroundings));

/** The executable as the user called it; from source, Bun and this file. */
function nameOfProgram(): string {
  const [, script = ""] = process.argv;
  return script.startsWith("/$bunfs/") ? process.argv0 : `bun ${script}`;
}
