/** The program on Bun, and so the executable: arguments in, exit status out. */
import { createSurroundings, runCommandLine, takeHandOver } from "./cli/mod.ts";
import { bunPlatform } from "./platform/bun/mod.ts";

const { args, handed } = takeHandOver(process.argv.slice(2));
const surroundings = createSurroundings({ platform: bunPlatform, programName: nameOfProgram(), handed });
process.exit(await runCommandLine(args, surroundings));

/** The executable as it was called; from source, Bun and this file. */
function nameOfProgram(): string {
  const [, script = ""] = process.argv;
  return script.startsWith("/$bunfs/") ? process.argv0 : `bun ${script}`;
}
