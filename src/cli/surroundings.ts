/** What a command meets outside: the terminal, the environment and the platform, handed in by the entry. */
import type { Readable, Writable } from "node:stream";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/mod.ts";
import type { Platform } from "../platform/mod.ts";

export type StopSignal = "SIGTERM" | "SIGINT" | "SIGHUP";

/** What root hands over to a process that it starts as another user. */
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

/** How to start this program once more, with the same streams. */
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
  /** How the operator called the program: what a command that we print begins with. */
  readonly programName: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly workingFolder: string;
  readonly isRoot: boolean;
  /** Who runs the command, as the audit log names them. */
  readonly userName: string;
  /** Whether standard error is a terminal: progress is shown there alone. */
  readonly isTerminal: boolean;
  /** Whether a person types at standard input. */
  readonly isTyped: boolean;
  /** Columns of the terminal at standard output; undefined where standard output is none. */
  readonly columns?: number | undefined;
  /** Whether a terminal is to show colours. */
  readonly hasColours: boolean;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Standard input. */
  readonly input: AsyncIterable<Uint8Array>;
  /** Reads standard input to its end, or one line from a terminal after a prompt; undefined above the limit. */
  readonly readInput: (limitBytes: number, prompt?: string) => Promise<string | undefined>;
  /** Resolves at the first SIGTERM, SIGINT or SIGHUP after the call, or of those that are named. */
  readonly untilSignal: (signals?: readonly StopSignal[]) => Promise<string>;
  /** Calls the handler at each such signal from now on; absent where none can come. */
  readonly onSignal?: (signal: StopSignal, handler: () => void) => void;
  /** How to start this program once more; absent where that is not possible. */
  readonly ownProgram?: OwnProgram;
  /** What root handed to this process, where root started it. */
  readonly handed?: HandedOver | undefined;
  /** Ends the process where it stands: only for when an orderly end is refused or takes too long. */
  readonly exitNow?: (status: number) => void;
}
