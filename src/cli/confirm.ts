/** For commands that cannot be undone: they ask first at a terminal, and `--dry-run` shows what they would do. */
import { type Command, Option } from "commander";
import { escapeControls } from "../text/mod.ts";
import type { Invocation } from "./invocation.ts";
import type { JsonOptions } from "./options.ts";
import { CommandRefused, type Opened } from "./run.ts";

export interface ConfirmOptions extends JsonOptions {
  readonly yes: boolean;
  readonly dryRun: boolean;
}

/** Adds the options `--yes` and `--dry-run`. At a terminal the command asks before it changes anything. */
export function withConfirmation(command: Command): Command {
  return command
    .addOption(new Option("--yes", "do not ask for confirmation, even at a terminal").default(false))
    .addOption(new Option("--dry-run", "only show what would be done").default(false));
}

const ANSWER_LIMIT_BYTES = 1_024;

/**
 * Asks whether to go on; ends the command for any answer but yes. Without a terminal it does not ask, so that
 * scripts can run the command.
 */
export async function confirm(
  invocation: Invocation,
  question: string,
  { options, stopIfInterrupted }: { readonly options: ConfirmOptions } & Pick<Opened, "stopIfInterrupted">,
): Promise<void> {
  const { isTyped, isTerminal } = invocation;
  if (options.yes || options.dryRun || !isTyped || !isTerminal) return;
  const prompt = `${escapeControls(question)} Type yes to go on: `;
  const answer = await Promise.race([
    invocation.readInput(ANSWER_LIMIT_BYTES, prompt),
    // A read from a terminal does not end at a signal.
    invocation.untilSignal(),
  ]);
  // Ctrl-C and Ctrl-D end the question without ending its line.
  if (!answer?.endsWith("\n")) invocation.err("\n");
  stopIfInterrupted();
  if (answer?.trim().toLowerCase() !== "yes") {
    throw new CommandRefused("Nothing was changed: the answer was not yes");
  }
}
