/**
 * Reads PostgreSQL's standard error. It keeps the last lines for the message of a failed start, and passes the lines
 * that an operator should see to our log.
 *
 * Errors and warnings of a client's statement are left out: the client got them, and they may quote values.
 * Continuation lines and the lines of an ordinary start and stop are left out, too.
 */
import type { Readable } from "node:stream";
import type { Log } from "../../log.ts";
import { reasonOf } from "../../system_error.ts";

const KEPT_LINES = 12;
const LONGEST_LINE = 500;

/** Reads the stream until its end. Lines from the time when the server is being stopped are expected, and not logged. */
export function followServerLog(
  stream: Readable,
  options: { readonly log: Log; readonly isStopping: () => boolean },
) {
  const kept: string[] = [];
  let rest = "";
  const take = (line: string) => {
    const parsed = parseServerLine(line.slice(0, LONGEST_LINE));
    if (parsed === undefined) return;
    if (parsed.process !== "client backend") {
      kept.push(parsed.text);
      if (kept.length > KEPT_LINES) kept.shift();
    }
    const level = levelOf(parsed);
    if (level !== undefined && !options.isStopping()) options.log[level](`PostgreSQL: ${parsed.text}`);
  };
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = (lines.pop() ?? "").slice(0, LONGEST_LINE);
    for (const line of lines) take(line);
  });
  stream.on("end", () => take(rest));
  return {
    /** Returns the last lines that the server wrote, oldest first, without the lines of client sessions. */
    lastLines: () => [...kept],
    /** Drops the lines kept so far: the lines of a successful start do not explain a later end. */
    forget() {
      kept.length = 0;
    },
  };
}

type ServerLine = NonNullable<ReturnType<typeof parseServerLine>>;

/**
 * Parses a line; undefined for a blank line or a continuation line. `process` is the kind of process that wrote it, such
 * as `checkpointer`, and is empty before the settings are read; `text` is severity and message.
 */
function parseServerLine(line: string) {
  if (/^\s*$/.test(line) || line.startsWith("\t")) return undefined;
  const [, process = "", text = line] = /^([a-z][a-z ]*)\|(.*)$/.exec(line) ?? [];
  return { process, severity: /^([A-Z]+): /.exec(text)?.[1] ?? "", text: text.replace(/:\s+/, ": ") };
}

function levelOf({ process, severity, text }: ServerLine): "warn" | "error" | undefined {
  const fromClient = process === "client backend";
  if (severity === "PANIC") return "error";
  if (severity === "FATAL") return fromClient ? "warn" : "error";
  if (severity === "ERROR" || severity === "WARNING") return fromClient ? undefined : "warn";
  // The postmaster reports a crash of one of its processes with these words.
  return severity === "LOG" && /terminated by signal|terminating any other/.test(text) ? "warn" : undefined;
}

const DAMAGED = "The data is damaged: restore the data folder from a backup";

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/No space left on device|Disk quota|ENOSPC|EDQUOT/, "Free some space on the disk of the data folder"],
  [/Read-only file system/, "The data folder must be on a file system that can be written to"],
  [/EACCES.*spawn/, "The data folder must not be on a file system mounted noexec"],
  [/cannot open shared object file/, "Install the library that is named"],
  [/could not (create|resize) shared memory/, "Give the host more shared memory"],
  [/has wrong ownership|invalid permissions/, "Give the folder back to its user, with mode 0700"],
  [/Permission denied/, "Give the files of the data folder back to the user they belonged to"],
  [/could not locate a valid checkpoint|invalid checkpoint record|incorrect checksum|pg_control/, DAMAGED],
  [/could not open directory|is not a valid data directory/, DAMAGED],
];

/** Returns the last lines of PostgreSQL as one sentence, with advice if the cause is known. */
export function explainOutput(lines: readonly string[]): string {
  return withAdvice(lines.length === 0 ? "It said nothing" : `It said: ${lines.join(" / ")}`);
}

/** Returns the reason of a system error, with advice if the cause is known. */
export function explainError(error: unknown): string {
  return withAdvice(reasonOf(error));
}

function withAdvice(text: string): string {
  const known = ADVICE.find(([pattern]) => pattern.test(text));
  return known === undefined || text.includes(known[1]) ? text : `${text}. ${known[1]}`;
}
