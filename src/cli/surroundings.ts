/** What a command meets outside: the terminal, the environment and the platform, handed in by the entry. */
import type { Clock } from "../clock.ts";
import type { Platform } from "../platform/mod.ts";

export interface Surroundings {
  readonly platform: Platform;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly workingFolder: string;
  readonly isRoot: boolean;
  /** Who runs the command, as the audit log names them. */
  readonly userName: string;
  /** Whether standard error is a terminal: progress is shown there alone. */
  readonly isTerminal: boolean;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Reads standard input to its end; undefined when it has more than that. */
  readonly readInput: (limitBytes: number) => Promise<string | undefined>;
  /** Resolves at the first SIGTERM or SIGINT after the call. */
  readonly untilSignal: () => Promise<string>;
}
