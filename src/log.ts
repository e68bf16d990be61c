/**
 * The log: one line an event, to standard error, as text for people or as JSON for machines.
 *
 * Fields are plain values. Nobody hands a key, a token or a secret to it: callers name things by their
 * identifiers. What strangers wrote cannot forge a line, or move the cursor of whoever reads it.
 */
import type { Clock } from "./clock.ts";

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
export type LogLevel = "info" | "warn" | "error";
export type LogFormat = "text" | "json";
/**
 * Which successful requests the access log shows; refusals, changes, slow and failed ones always are.
 * `sampled` is `1/100`.
 */
export type LogRequests = "sampled" | "all" | "off" | `1/${number}`;

export interface Log {
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

export interface LogOptions {
  readonly format: LogFormat;
  readonly clock: Clock;
  /** Takes a finished line with its newline; standard error by default. */
  readonly write?: (line: string) => void;
}

export function createLog(options: LogOptions): Log {
  const write = options.write ?? ((line: string) => process.stderr.write(line));
  const render = options.format === "json" ? renderJsonLine : renderTextLine;
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) =>
      write(render({ time: options.clock.now().toISOString(), level, message, fields }));
  return { info: at("info"), warn: at("warn"), error: at("error") };
}

/** A log that keeps silent: for one-shot commands and tests. */
export const silentLog: Log = { info() {}, warn() {}, error() {} };

/**
 * Writes control characters, and what else a terminal or a log reader may take for the end of a line, as
 * JSON would: `\n`, `\u001b`.
 */
export function escapeControls(text: string): string {
  return CONTROLS.test(text) ? text.replaceAll(EVERY_CONTROL, toEscape) : text;
}

interface Line {
  readonly time: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

/** A field cannot take the place of the line's own members. */
function renderJsonLine({ fields, ...own }: Line): string {
  return `${escapeControls(JSON.stringify({ ...own, ...fields, ...own }))}\n`;
}

function renderTextLine({ time, level, message, fields }: Line): string {
  let line = `${time} ${level.padEnd(5)} ${escapeControls(message)}`;
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) line += ` ${name}=${typeof value === "string" ? quoted(value) : value}`;
  }
  return `${line}\n`;
}

function quoted(value: string): string {
  return /^[\w.:/@+-]+$/.test(value) ? value : escapeControls(JSON.stringify(value));
}

/** The C0 and C1 controls, DEL, the line and paragraph separators, and what turns the writing direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;
const EVERY_CONTROL = new RegExp(CONTROLS, "g");

function toEscape(character: string): string {
  const json = JSON.stringify(character).slice(1, -1);
  return json !== character ? json : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
