/**
 * The log: one line an event, to standard error, as text for people or as JSON for machines.
 *
 * Fields are plain values. Nobody hands a key, a token or a secret to it: callers name things by their
 * identifiers.
 */
import type { Clock } from "./clock.ts";

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
export type LogLevel = "info" | "warn" | "error";
export type LogFormat = "text" | "json";
/** Which successful requests the access log shows; refusals, changes, slow and failed ones always are. */
export type LogRequests = "sampled" | "all" | "off";

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

interface Line {
  readonly time: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

function renderJsonLine({ time, level, message, fields }: Line): string {
  return `${JSON.stringify({ time, level, message, ...fields })}\n`;
}

function renderTextLine({ time, level, message, fields }: Line): string {
  let line = `${time} ${level.padEnd(5)} ${oneLine(message)}`;
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) line += ` ${name}=${typeof value === "string" ? quoted(value) : value}`;
  }
  return `${line}\n`;
}

/** A value with spaces or control characters is quoted, so that nobody can forge a second line. */
function quoted(value: string): string {
  return /^[\w.:/@+-]+$/.test(value) ? value : JSON.stringify(value);
}

function oneLine(message: string): string {
  return message.replaceAll(/[\r\n]+/g, " ");
}
