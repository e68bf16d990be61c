/**
 * How a one-shot command runs: settings, installation, database, the work, and the way out.
 *
 * `exit_status.ts` has the statuses, `program.ts` sees to them.
 */
import type { Actor } from "../audit/mod.ts";
import { type Config, type ConfigSource, readConfig } from "../config/mod.ts";
import {
  checkSchema,
  type Database,
  type DatabaseAddress,
  migrationStatus,
  migrations,
  openDatabase,
} from "../database/mod.ts";
import { openInstallation } from "../installation/mod.ts";
import { createLog, type Log } from "../log.ts";
import { isRefusal, type Refusal } from "../refusal.ts";
import { renderDatabaseFailure } from "./failures.ts";
import type { InstallationFlags } from "./options.ts";
import { withServiceCredentials } from "./service_credentials.ts";
import type { Surroundings } from "./surroundings.ts";
import { withUnitSettings } from "./unit_settings.ts";

/** Thrown to end a command with status 1 and this one line. */
export class CommandRefused extends Error {}

/** Thrown to end a command with status 2: what the operator gave is wrong, whatever the data holds. */
export class WrongUsage extends CommandRefused {}

/** Thrown where `serve` cannot start before somebody changes its settings. */
export class WrongSettings extends CommandRefused {}

/** Passes a result on and ends the command for a refusal. */
export function orRefuse<Result>(result: Result | Refusal): Result {
  if (isRefusal(result)) throw new CommandRefused(result.sentence);
  return result;
}

export function readSettings(surroundings: Surroundings, place: InstallationFlags): Config {
  return orRefuse(readCommandConfig(surroundings, place));
}

/**
 * The settings of a command: those that root handed over, where root did. `asServed` adds the credentials of the
 * service that runs.
 */
export function readCommandConfig(
  surroundings: Surroundings,
  place: InstallationFlags,
  { asServed = false }: { readonly asServed?: boolean } = {},
): Config | Refusal {
  if (surroundings.handed !== undefined) return surroundings.handed.config;
  const source = sourceOf(surroundings, place);
  return readConfig(asServed ? withServiceCredentials(source) : source);
}

/** Where a command's settings come from: its own sources, and below them the unit of the service. */
export function sourceOf(surroundings: Surroundings, place: InstallationFlags): ConfigSource {
  return withUnitSettings(ownSourceOf(surroundings, place));
}

/** A command's own sources: its options, its environment and the settings file. */
export function ownSourceOf(
  surroundings: Surroundings,
  { dataDir, envFile }: InstallationFlags,
): ConfigSource {
  return { ...surroundings, envFile, flags: { CLAVIGER_DATA_DIR: dataDir } };
}

/** What a command works with. */
export interface Workplace extends Opened {
  readonly config: Config;
  readonly database: Database;
  readonly actor: Actor;
  readonly now: Date;
}

const COMMAND_DEADLINE_MS = 60_000;
const CLOSE_DEADLINE_MS = 10_000;

/**
 * Opens the database for one command, refusing one without data or with another schema, and closes it
 * again. Works beside a running service and without one. Whatever can be checked without a database is
 * checked before.
 */
export async function withDatabase(
  surroundings: Surroundings,
  config: Config,
  work: (workplace: Workplace) => Promise<void>,
): Promise<void> {
  const { clock } = surroundings;
  await withInstallation(surroundings, { config, create: false }, async (opened) => {
    const { address, log } = opened;
    const refusal = checkSchema(await migrationStatus(address, migrations));
    if (refusal !== undefined) throw new CommandRefused(refusal.sentence);
    const database = openDatabase(address, {
      clock,
      log,
      maxConnections: 1,
      deadlineMs: COMMAND_DEADLINE_MS,
    });
    try {
      const actor: Actor = { door: "command", name: surroundings.userName };
      await work({ ...opened, config, database, actor, now: clock.now() });
    } finally {
      await database.close();
    }
  });
}

/** What stands open for a command's work. */
export interface Opened {
  readonly address: DatabaseAddress;
  /** Whether it is the database of a running service that holds the data folder. */
  readonly isServed: boolean;
  readonly log: Log;
  /**
   * Ends the command where a signal came. Work that lasts calls it where ending leaves nothing half done,
   * such as inside a transaction; other work is soon done and then counts.
   */
  readonly stopIfInterrupted: () => void;
}

/**
 * Opens the installation, starting its PostgreSQL where none runs, and closes it again: at a signal too,
 * or that PostgreSQL would outlive the command. A second signal ends the process at once.
 */
export async function withInstallation(
  surroundings: Surroundings,
  { config, create }: { readonly config: Config; readonly create: boolean },
  work: (opened: Opened) => Promise<void>,
): Promise<void> {
  let signal: string | undefined;
  void surroundings.untilSignal().then((name) => {
    signal = name;
  });
  const stopIfInterrupted = () => {
    if (signal !== undefined) throw new CommandRefused(`Stopped by ${signal}: nothing was changed`);
  };
  const { platform, clock } = surroundings;
  const spoken = createLog({ format: config.logFormat, clock, write: surroundings.err });
  // A command's standard error is for what its caller must see.
  const log: Log = { ...spoken, info: () => {} };
  await explainFailures(config, async () => {
    const isInterrupted = () => signal !== undefined;
    const options = { config, platform, clock, log, holder: "command", create, isInterrupted } as const;
    const opened = await openInstallation(options).catch((error: unknown) => {
      stopIfInterrupted();
      throw error;
    });
    if (isRefusal(opened)) stopIfInterrupted();
    const installation = orRefuse(opened);
    try {
      stopIfInterrupted();
      const { address, isServed = false } = installation;
      await work({ address, isServed, log, stopIfInterrupted });
    } finally {
      await installation.close(CLOSE_DEADLINE_MS);
    }
  });
}

/** Runs `work`; what the database or the way to it throws becomes a refusal that names the place. */
export async function explainFailures<Result>(config: Config, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const sentence = error instanceof CommandRefused ? undefined : renderDatabaseFailure(error, config);
    if (sentence === undefined) throw error;
    throw new CommandRefused(sentence, { cause: error });
  }
}
