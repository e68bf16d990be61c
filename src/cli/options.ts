/** Options that many commands share, and readers of option values whose errors say which values are allowed. */
import { type Argument, type Command, InvalidArgumentError, Option } from "commander";
import { REASON_TEXT } from "../audit/mod.ts";
import { MONTH, TIMESTAMP } from "../calendar.ts";
import { type Get, SettingError, settingOf } from "../config/mod.ts";
import { lineOf } from "../database/mod.ts";
import { type IdKind, idRule } from "../ids.ts";
import { ACCOUNT, EXPIRY, MONTHLY_LIMIT } from "../licensing/mod.ts";
import { oneOf, type Rule, wholeNumber } from "../rule.ts";

/** The options that say where the installation is: every command that opens it has them. */
export interface InstallationFlags {
  readonly dataDir?: string;
  readonly envFile?: string;
}

/** The options of a command that prints one JSON document with `--json`. */
export interface JsonOptions extends InstallationFlags {
  readonly json: boolean;
}

/** The options of a command that makes a change. */
export interface ChangeOptions extends JsonOptions {
  readonly reason?: string;
}

const PATH = lineOf(1, 4_095);

/** Adds the options of {@linkcode InstallationFlags}. */
export function withInstallationFlags(command: Command): Command {
  return command
    .option("--data-dir <dir>", "the data folder", parsedOption(PATH))
    .option(
      "--env-file <file>",
      "read settings from this file instead of /etc/claviger/claviger.env",
      parsedOption(PATH),
    );
}

/** Adds the option `--json`. */
export function withJson(command: Command): Command {
  return command.addOption(new Option("--json", "print one JSON document").default(false));
}

/** Adds the options of {@linkcode JsonOptions}. */
export function withJsonOptions(command: Command): Command {
  return withInstallationFlags(withJson(command));
}

/** Adds the option `--reason`; {@linkcode withDatabase} adds the reason to the actor. */
export function withReason(command: Command): Command {
  return command.option("--reason <text>", "the reason, for the audit log", parsedOption(REASON_TEXT));
}

/** Accepts a value of the setting `name`; `read` is the setting's own reader, which throws for a wrong value. */
export function settingOption(
  name: string,
  read: (get: Get, name: string) => unknown,
): (text: string) => string {
  return (text) => {
    try {
      read(() => text, name);
      return text;
    } catch (error) {
      if (!(error instanceof SettingError)) throw error;
      throw new InvalidArgumentError(`It must be ${settingOf(name).allowed}`);
    }
  };
}

/** Reads the value of a text that meets the rule. */
export function parsedOption<Value>({ must, parse }: Rule<Value>): (text: string) => Value {
  return (text) => {
    const value = parse(text);
    if (value !== undefined) return value;
    throw new InvalidArgumentError(`It ${must}`);
  };
}

/** Makes an option or an argument accept only these words, which its help and the completion name. */
export function withWords<Target extends Option | Argument>(
  target: Target,
  words: readonly string[],
): Target {
  target.choices(words).argParser(parsedOption(oneOf(words)));
  return target;
}

/** Accepts an account's id or its e-mail. */
export const accountOption = parsedOption(ACCOUNT);

/** Reads a timestamp. */
export const timestampOption = parsedOption(TIMESTAMP);

/** Reads a timestamp, or `never`. */
export const expiryOption = parsedOption(EXPIRY);

/** Reads a calendar month, `2026-11`. */
export const monthOption = parsedOption(MONTH);

/** Reads an identifier of the given kind, and returns its UUID. */
export function idOption(kind: IdKind): (text: string) => string {
  return parsedOption(idRule(kind));
}

/** Reads a whole number from `least` to `most`. */
export function wholeNumberOption(least: number, most?: number): (text: string) => number {
  return parsedOption(wholeNumber(least, most));
}

/** Reads a number that is not negative. */
export function numberOption(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number) && number >= 0) return number;
  throw new InvalidArgumentError("It must be a number, not negative");
}

/** Reads a monthly limit; null for `none`, which means the tier's own limit. */
export function limitOption(text: string): number | null {
  return text === "none" ? null : parsedOption(MONTHLY_LIMIT)(text);
}
