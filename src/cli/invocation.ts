/** How a command was called: arguments, environment, user, terminal, signals and platform. The entry passes it in. */
import type { Clock } from "../base/clock.ts";
import type { Platform } from "../base/platform/mod.ts";

type StopSignal = "SIGTERM" | "SIGINT" | "SIGHUP";

export interface Invocation {
  readonly platform: Platform;
  readonly clock: Clock;
  /** How the operator called the program: the commands that we print begin with it. */
  readonly programName: string;
  /** The arguments of the command that runs. */
  readonly args?: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly workingFolder: string;
  readonly isRoot: boolean;
  /** The name of the user who runs the command, for the audit log. */
  readonly userName: string;
  /** Whether standard error is a terminal: progress is shown only on a terminal. */
  readonly isTerminal: boolean;
  /** Whether a person types at standard input. */
  readonly isTyped: boolean;
  /** Columns of the terminal at standard output; undefined if standard output is not a terminal. */
  readonly columns?: number | undefined;
  /** Whether output to a terminal has colours. */
  readonly hasColours: boolean;
  readonly out: (text: string) => void;
  /** Writes a text to standard output, and resolves when its reader has taken it: a slow reader blocks nothing else. */
  readonly write?: (text: string) => Promise<void>;
  /** Returns the error that kept `out` from writing; undefined if everything was written. */
  readonly outputFault?: () => unknown;
  readonly err: (text: string) => void;
  /** Standard input. */
  readonly input: AsyncIterable<Uint8Array>;
  /** Reads standard input to its end, or one line from a terminal after a prompt; undefined above the limit. */
  readonly readInput: (limitBytes: number, prompt?: string) => Promise<string | undefined>;
  /** Resolves at the first of the signals after the call; by default SIGTERM, SIGINT and SIGHUP. */
  readonly untilSignal: (signals?: readonly StopSignal[]) => Promise<string>;
  /** Calls the handler at each such signal from now on; absent if no signal can come. */
  readonly onSignal?: (signal: StopSignal, handler: () => void) => void;
  /** Ends the process at once: only when a second signal asks for it, or an orderly end takes too long. */
  readonly exitNow?: (status: number) => void;
}
