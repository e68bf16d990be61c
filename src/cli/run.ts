/**
 * How a one-shot command runs: settings, installation, database, the work, and the way out.
 *
 * Exit status 0 is success, 1 a refusal with one line on standard error, 2 wrong usage (which
 * `program.ts` sees to).
 */
import type { Actor } from "../audit/mod.ts";
import { type Config, type Flags, readConfig } from "../config.ts";
import {
  checkSchema,
  type Database,
  type DatabaseAddress,
  DatabaseUnavailable,
  migrationStatus,
  migrations,
  openDatabase,
} from "../database/mod.ts";
import { openInstallation } from "../installation.ts";
import { createLog } from "../log.ts";
import { isRefusal, type Refusal } from "../refusal.ts";
import type { PlaceOptions } from "./options.ts";
import type { Surroundings } from "./surroundings.ts";

/** Thrown to end a command with status 1 and this one line. */
export class CommandRefused extends Error {}

/** Passes a result on and ends the command for a refusal. */
export function orRefuse<Result>(result: Result | Refusal): Result {
  if (isRefusal(result)) throw new CommandRefused(result.sentence);
  return result;
}

export function readSettings(surroundings: Surroundings, place: PlaceOptions, flags: Flags = {}): Config {
  return orRefuse(
    readConfig({
      ...surroundings,
      envFile: place.envFile,
      flags: { CLAVIGER_DATA_DIR: place.dataDir, ...flags },
    }),
  );
}

/** What a command works with. */
export interface Workplace {
  readonly config: Config;
  readonly database: Database;
  readonly address: DatabaseAddress;
  readonly actor: Actor;
  readonly now: Date;
}

const COMMAND_DEADLINE_MS = 60_000;
const CLOSE_DEADLINE_MS = 10_000;

/**
 * Opens the installation for one command, refusing one without data or with another schema, and closes it
 * again. Works beside a running service and without one.
 */
export async function withInstallation<Result>(
  surroundings: Surroundings,
  place: PlaceOptions,
  work: (workplace: Workplace) => Promise<Result>,
): Promise<Result> {
  const config = readSettings(surroundings, place);
  const { platform, clock } = surroundings;
  const log = createLog({ format: config.logFormat, clock, write: surroundings.err });
  const quiet = { ...log, info: () => {} };
  const installation = orRefuse(
    await openInstallation({ config, platform, clock, log: quiet, holder: "command", create: false }),
  );
  try {
    const refusal = checkSchema(await migrationStatus(installation.address, migrations));
    if (refusal !== undefined) throw new CommandRefused(refusal);
    const database = openDatabase(installation.address, {
      clock,
      log: quiet,
      maxConnections: 1,
      deadlineMs: COMMAND_DEADLINE_MS,
    });
    try {
      return await work({
        config,
        database,
        address: installation.address,
        actor: { door: "command", name: surroundings.userName },
        now: clock.now(),
      });
    } finally {
      await database.close();
    }
  } finally {
    await installation.close(CLOSE_DEADLINE_MS);
  }
}

/** The one line that an operator is told of an exception. */
export function renderFailure(error: unknown): string {
  if (error instanceof CommandRefused) return error.message;
  if (error instanceof DatabaseUnavailable) {
    return `${error.message}; see whether the database runs and can be reached`;
  }
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
  return `${message.trim() || "The command failed"}${message.includes(code.slice(2, -1)) ? "" : code}`;
}
