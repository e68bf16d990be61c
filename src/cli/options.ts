/** Options that many commands share, and readers of option values whose errors say which values are allowed. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { type Month, monthOf, parseSpan, parseTimestamp } from "../calendar.ts";
import { type Get, SettingError, settingOf } from "../config/mod.ts";
import { lineOf, type TextRule } from "../database/mod.ts";
import { type IdKind, parseId } from "../ids.ts";
import { parseEmail, parseExpiry, TEXTS } from "../licensing/mod.ts";

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

/** Adds the options of {@linkcode InstallationFlags}. */
export function withInstallationFlags(command: Command): Command {
  return command
    .option("--data-dir <dir>", "the data folder", textOption(1, 4_095))
    .option(
      "--env-file <file>",
      "read settings from this file instead of /etc/claviger/claviger.env",
      textOption(1, 4_095),
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
  return command.option("--reason <text>", "the reason, for the audit log", textOption(0, 2_000));
}

/** Reads an e-mail address, and returns it as it is stored. */
export function emailOption(text: string): string {
  return fieldOption("email")(text).toLowerCase();
}

/** Accepts an account's id or its e-mail. */
export function accountOption(text: string): string {
  if (parseId("usr", text) !== undefined || parseEmail(text) !== undefined) return text;
  throw new InvalidArgumentError("It must be an account's id, usr_ and 32 hexadecimal digits, or its e-mail");
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

/** Accepts a text of accounts and licenses. */
export function fieldOption(field: keyof typeof TEXTS): (text: string) => string {
  return ruledOption(TEXTS[field]);
}

/** Accepts one line of text with `least` to `most` characters. */
export function textOption(least: number, most: number): (text: string) => string {
  return ruledOption(lineOf(least, most));
}

/** Reads a text that meets the rule. */
export function ruledOption({ must, allows }: TextRule): (text: string) => string {
  return (text) => {
    if (allows(text)) return text;
    throw new InvalidArgumentError(`It ${must}`);
  };
}

/** Reads a whole number from `least` to `most`. */
export function wholeNumberOption(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const range = most === Number.MAX_SAFE_INTEGER ? `at least ${least}` : `from ${least} to ${most}`;
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= least && number <= most) return number;
    throw new InvalidArgumentError(`It must be a whole number, ${range}`);
  };
}

/** Reads a number that is not negative. */
export function numberOption(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number) && number >= 0) return number;
  throw new InvalidArgumentError("It must be a number, not negative");
}

/** Reads a timestamp. */
export function timestampOption(text: string): Date {
  const at = parseTimestamp(text);
  if (at !== undefined) return at;
  throw new InvalidArgumentError("It must be an ISO 8601 timestamp, such as 2027-01-31T00:00:00Z");
}

/** Accepts a day, such as `2026-11-20`. */
export function dayOption(text: string): string {
  if (text.length === 10 && parseTimestamp(text) !== undefined) return text;
  throw new InvalidArgumentError("It must be a day, such as 2026-11-20");
}

/** Reads a timestamp, or `never`. */
export function expiryOption(text: string): Date {
  return parseExpiry(text) ?? timestampOption(text);
}

/** Reads whole days or hours, `7d` or `12h`, as milliseconds; at most ten years. */
export function spanOption(text: string): number {
  const ms = parseSpan(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError("It must be whole days or hours, such as 7d or 12h, at most ten years");
}

/** Reads a monthly limit; null for `none`, which means the tier's own limit. */
export function limitOption(text: string): number | null {
  return text === "none" ? null : wholeNumberOption(0)(text);
}

/** Reads a calendar month, `2026-11`. */
export function monthOption(text: string): Month {
  const first = /^\d{4}-\d\d$/.test(text) ? parseTimestamp(`${text}-01`) : undefined;
  if (first !== undefined) return monthOf(first.getTime());
  throw new InvalidArgumentError("It must be a month, such as 2026-11");
}

/** Reads an identifier of the given kind, and returns its UUID. */
export function idOption(kind: IdKind): (text: string) => string {
  return (text) => {
    const uuid = parseId(kind, text);
    if (uuid !== undefined) return uuid;
    throw new InvalidArgumentError(`It must be an identifier such as ${kind}_ and 32 hexadecimal digits`);
  };
}
