/** `claviger completion`: prints the script by which a shell completes the command line. */
import { Argument, type Command } from "commander";
import { renderCompletion, SHELLS, type Shell } from "../completion.ts";
import type { Invocation } from "../invocation.ts";
import { withWords } from "../options.ts";

export function addCompletionCommand(program: Command, invocation: Invocation): void {
  program
    .command("completion")
    .addArgument(withWords(new Argument("<shell>", "the shell"), SHELLS))
    .description("print a script that completes commands, options and their values in a shell")
    .action((shell: Shell) => invocation.out(renderCompletion(program, shell)));
}
