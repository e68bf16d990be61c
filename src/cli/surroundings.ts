/** The surroundings of a command, which the entry passes in: the terminal, the environment and the platform. */
import type { Readable, Writable } from "node:stream";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/mod.ts";
import type { Platform } from "../platform/mod.ts";

export type StopSignal = "SIGTERM" | "SIGINT" | "SIGHUP";

/** The data that root hands over to a process that it starts as another user. */
export interface HandedOver {
  readonly config: Config;
  readonly userName: string;
  readonly programName: string;
  readonly workingFolder: string;
  readonly isTerminal: boolean;
  /** Whether a person types at standard input. */
  readonly isTyped: boolean;
  readonly columns?: number | undefined;
  readonly hasColours: boolean;
  /** The descriptor for the file that the command writes; undefined when the command opens the file itself. */
  readonly output?: number | undefined;
}

/** The command that starts this program once more, with the same streams. */
export interface OwnProgram {
  readonly file: string;
  /** The arguments before those of the command. */
  readonly args: readonly string[];
  readonly input: Readable;
  readonly output: Writable;
  readonly errors: Writable;
}

export interface Surroundings {
  readonly platform: Platform;
  readonly clock: Clock;
  /** How the operator called the program: the commands that we print begin with it. */
  readonly programName: string;
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
  /** The command that starts this program once more; absent if that is not possible. */
  readonly ownProgram?: OwnProgram;
  /** The data that root handed to this process, if root started it as another user. */
  readonly handed?: HandedOver | undefined;
  /** Ends the process at once: only when a second signal asks for it, or an orderly end takes too long. */
  readonly exitNow?: (status: number) => void;
}
