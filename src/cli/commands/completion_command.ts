/** `claviger completion`: prints the script by which a shell completes the command line. */
import { Argument, type Command } from "commander";
import { renderCompletion, SHELLS, type Shell } from "../completion.ts";
import type { Surroundings } from "../surroundings.ts";

export function addCompletionCommand(program: Command, surroundings: Surroundings): void {
  program
    .command("completion")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .description("print a script that completes commands, options and their values in a shell")
    .action((shell: Shell) => surroundings.out(renderCompletion(program, shell)));
}
