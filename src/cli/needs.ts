/**
 * The files that each command needs besides its data folder, so that root can open them before another user does the
 * work.
 */
import type { Command } from "commander";

/** The files and streams that a command needs besides its data folder. */
export interface Needs {
  /** Paths of regular files, as the operator gave them. */
  readonly files?: readonly (string | undefined)[];
  /** Paths of files that may be pipes. */
  readonly streams?: readonly string[];
  /** Whether the command reads standard input. */
  readonly input?: boolean;
  /** Whether the command asks a question: it gets standard input only if a person types there. */
  readonly answer?: boolean;
  /** The file that the command writes; `-` is standard output. */
  readonly output?: { readonly file: string; readonly replace: boolean };
  /** The command examines the files that the settings name, and reports a data folder that others can change. */
  readonly examines?: boolean;
  /**
   * Why the command keeps the user who started it: `serve` must be started by the owner of the data folder, and
   * `no_data` does nothing in the data folder.
   */
  readonly keepsUser?: "serve" | "no_data";
}

const needsOfCommands = new WeakMap<Command, (command: Command) => Needs>();

/** Registers a function that returns the needs of a command, from its arguments and options. */
export function withNeeds(command: Command, needs: (command: Command) => Needs): Command {
  needsOfCommands.set(command, needs);
  return command;
}

/** Returns the needs of a command. */
export function needsOf(command: Command): Needs {
  return needsOfCommands.get(command)?.(command) ?? {};
}
