/**
 * Follows the audit log for as long as it is let, straight from the database. While the database or the service with it
 * does not answer, it waits and then reads on where it was: it never runs the PostgreSQL inside itself, because it would
 * keep the service from it.
 *
 * Each row comes with its cursor. Whoever stores the cursor of the last row that was accepted loses no row, and gets none
 * twice except for those that were accepted and whose cursor was not stored.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type AuditFilter, type FollowedAuditRow, findAuditEnd, followAudit } from "../audit/mod.ts";
import { createLog, type Log } from "../base/log.ts";
import { isRefusal, type Refusal } from "../base/refusal.ts";
import { checkSchema, type Database, migrationStatus, migrations, openDatabase } from "../database/mod.ts";
import type { Config } from "../installation/config/mod.ts";
import { openInstallation } from "../installation/mod.ts";
import { sayRows } from "../notices/mod.ts";
import { refuseDatabaseFailure } from "./failures.ts";
import type { Invocation } from "./invocation.ts";
import type { InstallationFlags } from "./options.ts";
import type { Printer, RowForms } from "./print.ts";
import { renderRefusal } from "./remedies.ts";
import { CommandRefused, CursorExpired, orRefuse, readSettings } from "./run.ts";

/** In place of a cursor: the beginning of the log. */
export const FROM_START = "start";

const PAGE_ROWS = 100;
/** Between two looks at the end of the log. */
const PAUSE_MS = 1_000;
/** Between two tries while the database does not answer. */
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
/** A database that does not answer for so long is asked over a new connection. */
const DEADLINE_MS = 20_000;

interface FollowOptions {
  readonly place: InstallationFlags;
  /** A cursor, or {@linkcode FROM_START}; by default what is written from now on. */
  readonly after: string | undefined;
  /** Finds out which rows are asked for. */
  readonly filterOf: (database: Database) => Promise<AuditFilter>;
  readonly print: Printer;
  readonly forms: RowForms<FollowedAuditRow & { readonly says?: string }>;
}

/** Something that passes by itself, such as a restart of the database. */
class Passing extends Error {}

/** Prints each row until a signal comes or nobody reads the output any more. */
export async function followLog(
  invocation: Invocation,
  { place, after, filterOf, print, forms }: FollowOptions,
): Promise<void> {
  const config = readSettings(invocation, place);
  const ending = new AbortController();
  const ended = invocation.untilSignal().then(() => ending.abort());
  const fullLog = createLog({ format: config.logFormat, clock: invocation.clock, write: invocation.err });
  const log: Log = { ...fullLog, info: () => {} };
  const follower = { invocation, config, log, filterOf, signal: ending.signal };
  const pages = followAlways(follower, { after, print });
  const { toCells, toJson } = forms;
  const printed = print.stream(pages, {
    toCells: (line) => toCells(line as FollowedAuditRow),
    toJson: (line) => ("id" in line ? { cursor: line.cursor, ...(toJson(line) as object) } : line),
  });
  // A reader that takes nothing any more must not delay the end: then the last page is never printed.
  printed.catch(() => {});
  await Promise.race([printed, ended]);
  ending.abort();
  await pages.return(undefined);
}

interface Follower {
  readonly invocation: Invocation;
  readonly config: Config;
  readonly log: Log;
  readonly filterOf: FollowOptions["filterOf"];
  /** Aborted when the follower is to end. */
  readonly signal: AbortSignal;
}

/** A row; before the first one of a reader without a cursor, the cursor from which it reads. */
type Line = FollowedAuditRow | { readonly cursor: string };

/** Reads rows, and waits while that is not possible. */
async function* followAlways(
  follower: Follower,
  { after, print }: Pick<FollowOptions, "after" | "print">,
): AsyncGenerator<readonly Line[], undefined> {
  const { config, signal } = follower;
  let position = after;
  let retryMs = FIRST_RETRY_MS;
  let isWaiting = false;
  while (!signal.aborted) {
    try {
      for await (const part of readRows(follower, position)) {
        if (isWaiting) print.warn("Reading on: the database answers again");
        isWaiting = false;
        retryMs = FIRST_RETRY_MS;
        const isFirst = position === undefined;
        if (part.rows.length > 0) yield part.rows;
        else if (isFirst && print.isJson) yield [{ cursor: part.position }];
        position = part.position;
      }
    } catch (error) {
      if (signal.aborted) return;
      const why = sayPassing(error, config);
      if (!isWaiting) print.warn(`Waiting: ${why}`);
      isWaiting = true;
      await pause(retryMs, signal);
      retryMs = Math.min(2 * retryMs, LAST_RETRY_MS);
    }
  }
}

/** Opens the database and reads rows until the end; throws when the database does not answer. */
async function* readRows({ invocation, config, log, filterOf, signal }: Follower, after: string | undefined) {
  const { platform, clock } = invocation;
  const holder = { holder: "command", create: false, joins: true } as const;
  const installation = orPass(await openInstallation({ ...holder, config, platform, clock, log }));
  try {
    const { address } = installation;
    orPass(checkSchema(await migrationStatus(address, migrations)));
    await using database = openDatabase(address, { clock, log, maxConnections: 1, deadlineMs: DEADLINE_MS });
    // A statement that runs for long does not delay the end.
    const close = () => void database.close();
    signal.addEventListener("abort", close);
    try {
      const filter = await filterOf(database);
      let position = after === FROM_START ? undefined : after;
      if (after === undefined) {
        position = await findAuditEnd(database);
        yield { rows: [], position };
      }
      while (!signal.aborted) {
        const part = await followAudit(database, { filter, limit: PAGE_ROWS, after: position });
        if (isRefusal(part)) throw new CursorExpired(renderRefusal(part));
        yield { ...part, rows: await sayRows(database, part.rows, clock.now()) };
        ({ position } = part);
        if (part.rows.length < PAGE_ROWS) await pause(PAUSE_MS, signal);
      }
    } finally {
      signal.removeEventListener("abort", close);
    }
  } finally {
    await installation.close(0);
  }
}

/** Returns the result of a step; throws for a refusal, {@linkcode Passing} if its cause passes by itself. */
function orPass<Result>(result: Result | Refusal): Result {
  if (isRefusal(result) && result.code === "SERVICE_UNAVAILABLE") throw new Passing(result.sentence);
  return orRefuse(result);
}

/** Says what has to pass before the follower can read on; throws an error that ends it. */
function sayPassing(error: unknown, config: Config): string {
  if (error instanceof Passing) return error.message;
  const refusal = error instanceof CommandRefused ? undefined : refuseDatabaseFailure(error, config);
  if (refusal === undefined) throw error;
  return refusal.code === "SERVICE_UNAVAILABLE" ? refusal.sentence : orRefuse<never>(refusal);
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
}
