/** The program on Bun, which is also the executable: reads the arguments and sets the exit status. */
import { createSurroundings, runCommandLine, takeHandOver } from "./cli/mod.ts";
import { bunPlatform } from "./platform/bun/mod.ts";

const { args, handed } = takeHandOver(process.argv.slice(2));
const surroundings = createSurroundings({ platform: bunPlatform, programName: nameOfProgram(), handed });
process.exit(await runCommandLine(args, surroundings));

/** The executable as the user called it; from source, Bun and this file. */
function nameOfProgram(): string {
  const [, script = ""] = process.argv;
  return script.startsWith("/$bunfs/") ? process.argv0 : `bun ${script}`;
}
