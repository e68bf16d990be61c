/** What a command meets outside: the terminal, the environment and the platform, handed in by the entry. */
import type { Clock } from "../clock.ts";
import type { Platform } from "../platform/mod.ts";

export type StopSignal = "SIGTERM" | "SIGINT" | "SIGHUP";

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
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Reads standard input to its end, from a terminal one line; undefined when it has more than that. */
  readonly readInput: (limitBytes: number) => Promise<string | undefined>;
  /** Resolves at the first SIGTERM, SIGINT or SIGHUP after the call, or of those that are named. */
  readonly untilSignal: (signals?: readonly StopSignal[]) => Promise<string>;
  /** Calls the handler at each such signal from now on; absent where none can come. */
  readonly onSignal?: (signal: StopSignal, handler: () => void) => void;
  /** Ends the process where it stands: only for when an orderly end is refused or takes too long. */
  readonly exitNow?: (status: number) => void;
}
