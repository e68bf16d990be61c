/** For commands that cannot be undone: they ask first at a terminal, and `--dry-run` shows what they would do. */
import { escapeControls } from "../text/mod.ts";
import type { Invocation } from "./invocation.ts";
import type { CONFIRMATION } from "./options.ts";
import type { ValuesOf } from "./parameter.ts";
import { CommandRefused, type Opened } from "./run.ts";

interface ConfirmOptions extends Pick<Opened, "stopIfInterrupted"> {
  readonly options: ValuesOf<typeof CONFIRMATION>;
}

const ANSWER_LIMIT_BYTES = 1_024;

/**
 * Asks whether to go on; ends the command for any answer but yes. Without a terminal it does not ask, so that
 * scripts can run the command.
 */
export async function confirm(
  invocation: Invocation,
  question: string,
  { options, stopIfInterrupted }: ConfirmOptions,
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
