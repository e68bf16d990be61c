/**
 * Reads PostgreSQL's standard error. It keeps the last lines for the message of a failed start, and passes the lines
 * that an operator should see to our log.
 *
 * Errors and warnings of a client's statement are left out: the client got them, and they may quote values.
 * Continuation lines and the lines of an ordinary start and stop are left out, too.
 */
import type { Readable } from "node:stream";
import type { Log } from "../../base/log.ts";
import { reasonOf } from "../../base/system_error.ts";
import { isDamageCode, isPathOfData } from "../errors.ts";

const KEPT_LINES = 12;
const LONGEST_LINE = 500;

/** Reads the stream until its end. Lines from the time when the server is being stopped are expected, and not logged. */
export function followServerLog(
  stream: Readable,
  options: {
    readonly log: Log;
    readonly isStopping: () => boolean;
    /** PGDATA. */
    readonly cluster: string;
    /** Called with each line that says that the data is damaged. */
    readonly onDamage: (said: string) => unknown;
  },
) {
  const kept: ServerLine[] = [];
  let rest = "";
  const isDamage = (line: ServerLine) =>
    isDamageCode(line.code) ||
    isMissingFile(line, options.cluster) ||
    // What a client's statement says may quote anything.
    (line.process !== "client backend" && DAMAGE.test(line.text));
  const take = (line: string) => {
    const parsed = parseServerLine(line.slice(0, LONGEST_LINE));
    if (parsed === undefined) return;
    if (/^(ERROR|FATAL|PANIC)$/.test(parsed.severity) && isDamage(parsed)) options.onDamage(parsed.text);
    if (parsed.process !== "client backend") {
      kept.push(parsed);
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
    lastLines: () => kept.map(({ text }) => text),
    /** Returns the line that says that the server cannot start because its data is damaged; undefined if none says it. */
    findDamage() {
      if (kept.some(({ text }) => ENVIRONMENT.test(text))) return undefined;
      const isLast = ({ process, severity }: ServerLine) =>
        process === "" || severity === "FATAL" || severity === "PANIC";
      return kept.find((line) => isLast(line) && isDamage(line))?.text;
    },
    /** Drops the lines kept so far: the lines of a successful start do not explain a later end. */
    forget() {
      kept.length = 0;
    },
  };
}

type ServerLine = NonNullable<ReturnType<typeof parseServerLine>>;

/**
 * Parses a line; undefined for a blank line or a continuation line. `process` is the kind of process that wrote it, such
 * as `checkpointer`, and is empty before the settings are read, as `code`, the SQLSTATE; `text` is severity and message.
 */
function parseServerLine(line: string) {
  if (/^\s*$/.test(line) || line.startsWith("\t")) return undefined;
  const [, process = "", code = "", text = line] = /^([a-z][a-z ]*)\|(\w{5})\|(.*)$/.exec(line) ?? [];
  return { process, code, severity: /^([A-Z]+): /.exec(text)?.[1] ?? "", text: text.replace(/:\s+/, ": ") };
}

function levelOf({ process, severity, text }: ServerLine): "warn" | "error" | undefined {
  const fromClient = process === "client backend";
  if (severity === "PANIC") return "error";
  if (severity === "FATAL") return fromClient ? "warn" : "error";
  if (severity === "ERROR" || severity === "WARNING") return fromClient ? undefined : "warn";
  // The postmaster reports a crash of one of its processes with these words.
  return severity === "LOG" && /terminated by signal|terminating any other/.test(text) ? "warn" : undefined;
}

/** The messages of a start that fails because of damaged data, and have no SQLSTATE of their own. */
const DAMAGE =
  /files are incompatible with server|could not find the database system|required WAL directory|checkpoint record|redo location|incorrect checksum|contains invalid data|invalid data in file|not a valid data directory|status of transaction|not in this server's history|could not load .*pg_hba|is not satisfied/;

/** The causes that lie outside the data. What they say may also look like damage. */
const ENVIRONMENT =
  /No space left|Disk quota|Read-only file system|Permission denied|Cannot allocate memory|Input\/output error|shared memory|Too many open files/;

/** Tells whether the server misses a file of its cluster. It names them relative to the cluster, or with its path. */
function isMissingFile({ text }: ServerLine, cluster: string): boolean {
  const [, path] = /could not (?:open|read|access|stat|find) [^"]*"([^"]*)".*No such file/.exec(text) ?? [];
  if (path === undefined) return false;
  return isPathOfData(path) || path.startsWith(`${cluster}/`);
}

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/No space left on device|Disk quota|ENOSPC|EDQUOT/, "Free some space on the disk of the data folder"],
  [/Read-only file system/, "The data folder must be on a file system that can be written to"],
  [/EACCES.*spawn/, "The data folder must not be on a file system mounted noexec"],
  [/SSL is not supported/, "Remove ssl from postgresql.conf: the PostgreSQL inside has no TLS"],
  [/cannot open shared object file/, "Install the library that is named"],
  [/could not (create|resize) shared memory/, "Give the host more shared memory"],
  [/has wrong ownership|invalid permissions/, "Give the folder back to its user, with mode 0700"],
  [/Permission denied/, "Give the files of the data folder back to the user they belonged to"],
  [/Input\/output error/, "The disk of the data folder fails: see `dmesg`"],
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
