/** Options that every command has, and readers of option values that say what is allowed. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { parseTimestamp } from "../calendar.ts";
import { type IdKind, parseId } from "../ids.ts";
import { isTier, parseEmail, TIERS, type Tier } from "../licensing/mod.ts";

/** Where the installation is: options of every command that touches it. */
export interface PlaceOptions {
  readonly dataDir?: string;
  readonly envFile?: string;
}

export function withPlace(command: Command): Command {
  return command
    .option("--data-dir <dir>", "the data folder")
    .option("--env-file <file>", "read settings from this file instead of /etc/claviger/claviger.env");
}

export function withJson(command: Command): Command {
  return command.addOption(new Option("--json", "print one JSON document").default(false));
}

export function tierOption(text: string): Tier {
  if (isTier(text)) return text;
  throw new InvalidArgumentError(`It must be one of ${TIERS.join(", ")}.`);
}

export function emailOption(text: string): string {
  const email = parseEmail(text);
  if (email !== undefined) return email;
  throw new InvalidArgumentError("It must be an e-mail address.");
}

/** A text that people will read: one line, so many characters. */
export function textOption(maxCharacters: number): (text: string) => string {
  return (text) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
    if (text.length <= maxCharacters && !/[\u0000-\u001f\u007f\ufffd]/.test(text) && text.isWellFormed())
      return text;
    throw new InvalidArgumentError(`It must be one line of at most ${maxCharacters} characters.`);
  };
}

export function wholeNumberOption(least: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number >= least) return number;
    throw new InvalidArgumentError(`It must be a whole number, at least ${least}.`);
  };
}

export function numberOption(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number) && number >= 0) return number;
  throw new InvalidArgumentError("It must be a number, not negative.");
}

export function timestampOption(text: string): Date {
  const at = parseTimestamp(text);
  if (at !== undefined) return at;
  throw new InvalidArgumentError("It must be an ISO 8601 timestamp, such as 2027-01-31T00:00:00Z.");
}

/** An identifier of that kind, as a UUID. */
export function idOption(kind: IdKind): (text: string) => string {
  return (text) => {
    const uuid = parseId(kind, text);
    if (uuid !== undefined) return uuid;
    throw new InvalidArgumentError(`It must be an identifier such as ${kind}_ and 32 hexadecimal digits.`);
  };
}
