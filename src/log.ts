/**
 * The log: one line an event, to standard error, as text for people or as JSON for machines.
 *
 * Where many are written, a write for each would cost more than the request that it tells of. So a line of
 * information is written at once and begins a twentieth of a second, at the end of which those that come within
 * it are written together. A warning or an error is written at once, with what waits before it, and so is what
 * waits when the process exits. A process that is killed loses what it has gathered.
 *
 * Fields are plain values. Nobody hands a key, a token or a secret to it: callers name things by their
 * identifiers. What strangers wrote cannot forge a line, or move the cursor of whoever reads it.
 */
import type { Clock } from "./clock.ts";
import { escapeControls } from "./escape_controls.ts";

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
  /** Takes finished lines with their newlines; standard error by default. */
  readonly write?: (lines: string) => void;
  /** Whether lines are gathered, as a service does that has one for each request; by default each is written. */
  readonly gathers?: boolean;
}

export function createLog(options: LogOptions): Log {
  const write = options.write ?? ((line: string) => process.stderr.write(line));
  const render = options.format === "json" ? renderJsonLine : renderTextLine;
  const at =
    (level: LogLevel, pass: (line: Line) => void) =>
    (message: string, fields: LogFields = {}) =>
      pass({ atMs: options.clock.nowMs(), level, message, fields });
  if (!options.gathers) {
    const writeLine = (line: Line) => write(render(line));
    return { info: at("info", writeLine), warn: at("warn", writeLine), error: at("error", writeLine) };
  }
  const { gather, writeNow } = createGathering((lines) => write(lines.map(render).join("")));
  return { info: at("info", gather), warn: at("warn", writeNow), error: at("error", writeNow) };
}

const GATHERED_MS = 50;
/** Lines are bounded as well: the longest hold an address of some 5 KB. */
const MAX_GATHERED = 500;

/** Lines are rendered when they are written: one after the other they cost a fraction of what each does alone. */
function createGathering(write: (lines: readonly Line[]) => void) {
  let lines: Line[] = [];
  let isGathering = false;
  const flush = () => {
    const gathered = lines;
    lines = [];
    if (gathered.length > 0) write(gathered);
  };
  const end = () => {
    isGathering = false;
    flush();
  };
  process.on("exit", flush);
  return {
    gather(line: Line) {
      lines.push(line);
      if (isGathering && lines.length < MAX_GATHERED) return;
      // Nobody waits for it: what is left is written when the process exits.
      if (!isGathering) setTimeout(end, GATHERED_MS).unref();
      isGathering = true;
      flush();
    },
    writeNow(line: Line) {
      lines.push(line);
      flush();
    },
  };
}

/** An instant as ISO 8601 with milliseconds; many lines have the same one. */
function renderTime(atMs: number): string {
  if (atMs !== latestMs) {
    latestTime = new Date(atMs).toISOString();
    latestMs = atMs;
  }
  return latestTime;
}

let latestMs = Number.NaN;
let latestTime = "";

/** A log that keeps silent: for one-shot commands and tests. */
export const silentLog: Log = { info() {}, warn() {}, error() {} };

interface Line {
  readonly atMs: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

/** A field cannot take the place of the line's own members. */
function renderJsonLine({ atMs, level, message, fields }: Line): string {
  const own = { time: renderTime(atMs), level, message };
  return `${escapeControls(JSON.stringify({ ...own, ...fields, ...own }))}\n`;
}

const PADDED: Readonly<Record<LogLevel, string>> = { info: "info ", warn: "warn ", error: "error" };

function renderTextLine({ atMs, level, message, fields }: Line): string {
  let line = `${renderTime(atMs)} ${PADDED[level]} ${escapeControls(message)}`;
  for (const name in fields) {
    const value = fields[name];
    if (value !== undefined) line += ` ${name}=${typeof value === "string" ? quoted(value) : value}`;
  }
  return `${line}\n`;
}

function quoted(value: string): string {
  return /^[\w.:/@+-]+$/.test(value) ? value : escapeControls(JSON.stringify(value));
}
