/**
 * A command is one record: its name and description, its arguments and options, and the function that runs it with their
 * values. The order of a record's options is their order in the help.
 */
import type { Command } from "commander";
import { escapeControls } from "../base/text/mod.ts";
import type { Invocation } from "./invocation.ts";
import { type CONFIRMATION, JSON_OPTIONS } from "./options.ts";
import { type Parameters, toArgument, toOption, type ValuesOf } from "./parameter.ts";
import { createPrinter, type Printer } from "./print.ts";
import { type CommandContext, CommandRefused, type Opened, withDatabase } from "./run.ts";

/** Adds a command, or a group of commands, to the program or to a group. */
type Definition = (parent: Command, invocation: Invocation) => void;

interface Specification<Arguments extends Parameters, Options extends Parameters, Values, Context> {
  readonly name: string;
  readonly description: string;
  readonly arguments?: Arguments;
  readonly options?: Options;
  /** Returns why the values do not fit together; the command then ends with status 2 and a line that names its help. */
  check?(values: ValuesOf<Arguments> & Values): string | undefined;
  run(values: ValuesOf<Arguments> & Values, context: Context): Promise<void> | void;
}

/** What every command works with. */
export interface CommandCall {
  readonly invocation: Invocation;
  readonly program: Command;
  readonly print: Printer;
}

/** What a command on the database works with. */
export interface DatabaseCall extends CommandCall, CommandContext {
  /** Asks a person at a terminal, unless `--yes` or `--dry-run` is given; ends the command for any answer but yes. */
  confirm(question: string): Promise<void>;
}

/** Defines a command. */
export function command<
  Arguments extends Parameters = Record<never, never>,
  Options extends Parameters = Record<never, never>,
>(specification: Specification<Arguments, Options, ValuesOf<Options>, CommandCall>): Definition {
  const { name, description } = specification;
  const args: Parameters = specification.arguments ?? {};
  const options: Parameters = specification.options ?? {};
  return (parent, invocation) => {
    const defined = parent.command(name).description(description);
    for (const [key, parameter] of Object.entries(args)) defined.addArgument(toArgument(key, parameter));
    for (const [key, parameter] of Object.entries(options)) defined.addOption(toOption(key, parameter));
    defined.action(async () => {
      const given = Object.keys(args).map((key, index) => [key, defined.processedArgs[index]]);
      const values = { ...Object.fromEntries(given), ...defined.opts() };
      const why = specification.check?.(values);
      if (why !== undefined) defined.error(`error: ${why}`);
      await specification.run(values, {
        invocation,
        // The parent is the program itself, or a group of the program.
        program: parent.parent ?? parent,
        print: createPrinter(invocation, values.json),
      });
    });
  };
}

/** Defines a command on the database, with the options of {@linkcode JSON_OPTIONS}. */
export function databaseCommand<
  Arguments extends Parameters = Record<never, never>,
  Options extends Parameters = Record<never, never>,
>(
  specification: Specification<
    Arguments,
    Options,
    ValuesOf<Options> & ValuesOf<typeof JSON_OPTIONS>,
    DatabaseCall
  > & { readonly ifStopped?: string },
): Definition {
  return command({
    ...specification,
    options: { ...JSON_OPTIONS, ...specification.options },
    run(values: object, call) {
      const options = values as never;
      const { ifStopped } = specification;
      return withDatabase(call.invocation, { ...values, ifStopped }, async (context) => {
        const ask = (question: string) => confirm(call.invocation, question, { ...context, options });
        await specification.run(options, { ...call, ...context, confirm: ask });
      });
    },
  });
}

/** Defines a group of commands. */
export function group(name: string, description: string, commands: readonly Definition[]): Definition {
  return (parent, invocation) => {
    const defined = parent.command(name).description(description);
    for (const define of commands) define(defined, invocation);
  };
}

interface ConfirmOptions extends Pick<Opened, "stopIfInterrupted"> {
  readonly options: ValuesOf<typeof CONFIRMATION>;
}

const ANSWER_LIMIT_BYTES = 1_024;

/**
 * Asks whether to go on; ends the command for any answer but yes. Without a terminal it does not ask, so that
 * scripts can run the command.
 */
async function confirm(
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
