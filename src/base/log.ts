/**
 * The log: one line for each event, to standard error, as text for people or as JSON for programs.
 *
 * If every line were written alone, the write would cost more than the request. So the first line of information is
 * written at once, and the lines of the next 50 ms are written together. A warning or an error is written at once, after
 * the waiting lines. Waiting lines are also written when the process exits; a killed process loses them.
 *
 * Strangers must not fill the disk: of the lines in one group, ten a second are written, and then one line that counts
 * the others.
 *
 * Fields are plain values. Callers never pass a key, a token or a secret: they use identifiers. Text from strangers
 * cannot forge a line or move the cursor of a terminal.
 */
import type { Clock } from "./clock.ts";
import { escapeControls } from "./text/mod.ts";

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
type LogLevel = "info" | "warn" | "error";
export type LogFormat = "text" | "json";
/**
 * Which successful requests have a line in the access log. Refusals, changes, slow and failed requests always have
 * one. `sampled` means `1/100`.
 */
export type LogRequests = "sampled" | "all" | "off" | `1/${number}`;

/** The group of a line, for lines that can come by the thousand in a second. */
export interface LineGroup {
  /** One of a few combinations that the program defines. */
  readonly kind: LogFields;
  /** The group of client addresses; absent if the address makes no difference. */
  readonly address?: string;
}

export interface Log {
  info(message: string, fields?: LogFields, group?: LineGroup): void;
  warn(message: string, fields?: LogFields, group?: LineGroup): void;
  error(message: string, fields?: LogFields, group?: LineGroup): void;
}

interface LogOptions {
  readonly format: LogFormat;
  readonly clock: Clock;
  /** Writes finished lines with their newlines; to standard error by default. */
  readonly write?: (lines: string) => void;
  /**
   * True gathers lines, and counts those of one group, for a service that writes a line for each request. By default
   * each line is written at once.
   */
  readonly gathers?: boolean;
}

/** Creates a log that writes lines of text or JSON. */
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
  const { gather, writeNow, flush } = createGathering((lines) => write(lines.map(render).join("")));
  const gathered = { info: at("info", gather), warn: at("warn", writeNow), error: at("error", writeNow) };
  const counter = createGroupCounter((level, fields) =>
    gathered[level]("Further lines were left out", fields),
  );
  process.on("exit", () => {
    counter.end();
    flush();
  });
  const counted = (level: LogLevel) => (message: string, fields?: LogFields, group?: LineGroup) => {
    if (group === undefined || counter.admits(level, message, group)) gathered[level](message, fields);
  };
  return { info: counted("info"), warn: counted("warn"), error: counted("error") };
}

const COUNTING_MS = 1_000;
/** The most lines of one group within that time. */
const MAX_LINES = 10;
/** The most groups within that time; further addresses count as one group. */
const MAX_GROUPS = 100;

interface Counted {
  readonly level: LogLevel;
  readonly message: string;
  readonly group: LogFields;
  count: number;
}

function createGroupCounter(write: (level: LogLevel, fields: LogFields) => void) {
  let counted = new Map<string, Counted>();

  function end() {
    const ended = counted;
    counted = new Map();
    for (const { level, message, group, count } of ended.values()) {
      if (count > MAX_LINES) write(level, { of: message, count: count - MAX_LINES, ...group });
    }
  }

  return {
    end,
    /** Counts a line; returns false if enough lines of its group were written. */
    admits(level: LogLevel, message: string, { kind, address }: LineGroup): boolean {
      // The process need not wait for the timer: the counts are written at its exit.
      if (counted.size === 0) setTimeout(end, COUNTING_MS).unref();
      const nameOf = (group: LogFields) => `${message} ${JSON.stringify(group)}`;
      let group: LogFields = { ...kind, address };
      let name = nameOf(group);
      if (counted.size >= MAX_GROUPS && !counted.has(name)) {
        group = { ...kind, address: "others" };
        name = nameOf(group);
      }
      const known = counted.get(name) ?? { level, message, group, count: 0 };
      counted.set(name, known);
      return ++known.count <= MAX_LINES;
    },
  };
}

const GATHERED_MS = 50;
/** The most lines that wait. The length of each line is bounded, too. */
const MAX_GATHERED = 500;

/** Lines are rendered when they are written: rendering many in a row costs a fraction of rendering each alone. */
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
  return {
    flush,
    gather(line: Line) {
      lines.push(line);
      if (isGathering && lines.length < MAX_GATHERED) return;
      // The process need not wait for the timer: waiting lines are written at its exit.
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

/** Renders an instant as ISO 8601 with milliseconds, and caches it: many lines have the same instant. */
function renderTime(atMs: number): string {
  if (atMs !== latestMs) {
    latestTime = new Date(atMs).toISOString();
    latestMs = atMs;
  }
  return latestTime;
}

let latestMs = Number.NaN;
let latestTime = "";

/** A log that writes nothing, for one-shot commands and tests. */
export const silentLog: Log = { info() {}, warn() {}, error() {} };

interface Line {
  readonly atMs: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

/** Renders a line as JSON. A field cannot replace `time`, `level` and `message`. */
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
