/** Options that every command has, and readers of option values that say what is allowed. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { type Month, monthOf, parseTimestamp } from "../calendar.ts";
import { type Get, SettingError, settingOf } from "../config/mod.ts";
import { type IdKind, parseId } from "../ids.ts";
import { NEVER_EXPIRES, parseEmail } from "../licensing/mod.ts";

/** Where the installation is: options of every command that touches it. */
export interface InstallationFlags {
  readonly dataDir?: string;
  readonly envFile?: string;
}

/** Options of a command that prints one JSON document where it is asked to. */
export interface JsonOptions extends InstallationFlags {
  readonly json: boolean;
}

export function withInstallationFlags(command: Command): Command {
  return command
    .option("--data-dir <dir>", "the data folder", textOption(1, 4_095))
    .option(
      "--env-file <file>",
      "read settings from this file instead of /etc/claviger/claviger.env",
      textOption(1, 4_095),
    );
}

export function withJson(command: Command): Command {
  return command.addOption(new Option("--json", "print one JSON document").default(false));
}

export function emailOption(text: string): string {
  const email = parseEmail(text);
  if (email !== undefined) return email;
  throw new InvalidArgumentError("It must be an e-mail address");
}

/** What an account is named by: its id or its e-mail. */
export function accountOption(text: string): string {
  if (parseId("usr", text) !== undefined || parseEmail(text) !== undefined) return text;
  throw new InvalidArgumentError("It must be an account's id, usr_ and 32 hexadecimal digits, or its e-mail");
}

/** A flag that stands for a setting; `read` throws where it is no such value. */
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

/** A text that people will read: one line of so many characters. */
export function textOption(minCharacters: number, maxCharacters: number): (text: string) => string {
  const least = minCharacters === 0 ? "at most" : `${minCharacters} to`;
  return (text) => {
    const isLong = text.length < minCharacters || text.length > maxCharacters;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
    if (!isLong && !/[\u0000-\u001f\u007f\ufffd]/.test(text) && text.isWellFormed()) return text;
    throw new InvalidArgumentError(`It must be one line of ${least} ${maxCharacters} characters`);
  };
}

export function wholeNumberOption(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const range = most === Number.MAX_SAFE_INTEGER ? `at least ${least}` : `from ${least} to ${most}`;
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= least && number <= most) return number;
    throw new InvalidArgumentError(`It must be a whole number, ${range}`);
  };
}

export function numberOption(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number) && number >= 0) return number;
  throw new InvalidArgumentError("It must be a number, not negative");
}

export function timestampOption(text: string): Date {
  const at = parseTimestamp(text);
  if (at !== undefined) return at;
  throw new InvalidArgumentError("It must be an ISO 8601 timestamp, such as 2027-01-31T00:00:00Z");
}

/** A timestamp, or `never`. */
export function expiryOption(text: string): Date {
  return text === "never" ? NEVER_EXPIRES : timestampOption(text);
}

/** A span of whole days or hours, `7d` or `12h`, in milliseconds; at most ten years. */
export function spanOption(text: string): number {
  const match = /^(\d{1,5})([dh])$/.exec(text);
  const ms = Number(match?.[1]) * (match?.[2] === "d" ? 86_400_000 : 3_600_000);
  if (ms <= 3_650 * 86_400_000) return ms;
  throw new InvalidArgumentError("It must be whole days or hours, such as 7d or 12h, at most ten years.");
}

/** A monthly limit, or `none` for the tier's own. */
export function limitOption(text: string): number | null {
  return text === "none" ? null : wholeNumberOption(0)(text);
}

/** A calendar month, `2026-11`. */
export function monthOption(text: string): Month {
  const first = /^\d{4}-\d\d$/.test(text) ? parseTimestamp(`${text}-01`) : undefined;
  if (first !== undefined) return monthOf(first.getTime());
  throw new InvalidArgumentError("It must be a month, such as 2026-11.");
}

/** An identifier of that kind, as a UUID. */
export function idOption(kind: IdKind): (text: string) => string {
  return (text) => {
    const uuid = parseId(kind, text);
    if (uuid !== undefined) return uuid;
    throw new InvalidArgumentError(`It must be an identifier such as ${kind}_ and 32 hexadecimal digits`);
  };
}
