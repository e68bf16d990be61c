/** `claviger completion`: prints the script by which a shell completes the command line. */
import { Argument, type Command } from "commander";
import { renderCompletion, SHELLS, type Shell } from "../completion.ts";
import type { Invocation } from "../invocation.ts";

export function addCompletionCommand(program: Command, invocation: Invocation): void {
  program
    .command("completion")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .description("print a script that completes commands, options and their values in a shell")
    .action((shell: Shell) => invocation.out(renderCompletion(program, shell)));
}
