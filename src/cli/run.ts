/**
 * Runs a command that does one thing and ends: reads the settings, opens the installation and the database, does the
 * work, and closes everything.
 *
 * `exit_status.ts` has the exit statuses. The error that ends a command carries its status.
 */
import type { Actor, By } from "../audit/mod.ts";
import { closeDataFolder, refuseForeignFolder } from "../base/host/mod.ts";
import { createLog, type Log } from "../base/log.ts";
import { quoteShellWord } from "../base/quote_shell_word.ts";
import { isRefusal, type Refusal } from "../base/refusal.ts";
import type { Secrets } from "../base/secrets/mod.ts";
import { hasCode, type Reasons, reasonOf } from "../base/system_error.ts";
import { NO_RESTORE_NOTE, type RestoreNote } from "../database/embedded/mod.ts";
import {
  checkSchema,
  type Database,
  type DatabaseAddress,
  migrationStatus,
  migrations,
  openDatabase,
} from "../database/mod.ts";
import { type Config, type ConfigSource, readConfig } from "../installation/config/mod.ts";
import { isSealed, openInstallation, openSecrets, proveSecret } from "../installation/mod.ts";
import { CURSOR_EXPIRED, INCOMPLETE, NEEDS_PERSON, REFUSED, WRONG_USAGE } from "./exit_status.ts";
import { refuseDatabaseFailure, renderFailure } from "./failures.ts";
import type { Invocation } from "./invocation.ts";
import { refuseOldUnit } from "./old_unit.ts";
import type { InstallationFlags, REASON } from "./options.ts";
import type { ValuesOf } from "./parameter.ts";
import { renderRefusal } from "./remedies.ts";
import { withUnitSettings } from "./unit_settings.ts";

/** Thrown to end a command with this message as its one line, and with status 1. */
export class CommandRefused extends Error {
  readonly status: number = REFUSED;
}

/** Thrown to end a command with status 2: its arguments or its input are wrong, whatever the database has. */
export class WrongUsage extends CommandRefused {
  override readonly status = WRONG_USAGE;
}

/** Thrown to end a command with status 3: it did its work, except for what the message says. A fault that ended it is the cause. */
export class DoneInPart extends CommandRefused {
  override readonly status = INCOMPLETE;
}

/** Thrown to end a command because a signal has come. */
export class Interrupted extends CommandRefused {}

/**
 * Returns what ends a command that a failure has stopped on the way: why, and then what was done and what is left. A signal, and
 * lost data, keep their own status. `isDone` tells whether it is known that something was done.
 */
export function endOnTheWay(
  failure: unknown,
  {
    config,
    sentences,
    isDone = true,
  }: { readonly config: Config; readonly sentences: readonly string[]; readonly isDone?: boolean },
): unknown {
  const refusal = failure instanceof CommandRefused ? undefined : refuseDatabaseFailure(failure, config);
  if (refusal?.code === "DATA_LOST") return failure;
  const why = refusal === undefined ? renderFailure(failure) : renderRefusal(refusal);
  const Ended = failure instanceof Interrupted ? Interrupted : isDone ? DoneInPart : CommandRefused;
  return new Ended([why, ...sentences].join("; "), {
    cause: failure instanceof CommandRefused ? undefined : failure,
  });
}

/** Thrown to end a command with status 4: where it was to read on is gone. */
export class CursorExpired extends CommandRefused {
  override readonly status = CURSOR_EXPIRED;
}

/**
 * Thrown to end `serve` with status 78, and every command for which the data is lost or damaged, or which would work on
 * another installation than the service.
 */
export class PersonNeeded extends CommandRefused {
  override readonly status = NEEDS_PERSON;
}

/** Returns a result; throws {@linkcode CommandRefused} for a refusal. */
export function orRefuse<Result>(result: Result | Refusal): Result {
  if (!isRefusal(result)) return result;
  const Refused = result.code === "DATA_LOST" ? PersonNeeded : CommandRefused;
  throw new Refused(renderRefusal(result));
}

/**
 * Returns the result of a step by which `serve` starts. A refusal ends `serve` with status 1 if its cause can pass by
 * itself, otherwise with status 78, so that the unit is not restarted and a person sees the fault.
 */
export function orRefuseStart<Result>(result: Result | Refusal): Result {
  if (!isRefusal(result)) return result;
  const Refused = result.code === "SERVICE_UNAVAILABLE" ? CommandRefused : PersonNeeded;
  throw new Refused(result.sentence);
}

/**
 * Refuses if the result of a command could not be printed. A reader that has ended (`claviger keys list | head`) is no
 * fault, because it has read what it needs.
 */
export function refuseLostOutput(fault: unknown): void {
  if (fault === undefined || hasCode(fault, "EPIPE")) return;
  throw new CommandRefused(
    `Cannot print the whole result: ${reasonOf(fault, OUTPUT_REASONS)}; the command has made its changes, so replace ` +
      "a key or a token that you could not store",
  );
}

const OUTPUT_REASONS: Reasons = {
  ENOSPC: "the disk is full",
  EDQUOT: "the quota of the disk is used up",
};

/**
 * Reads the settings of a command that works in the data folder. A wrong setting, a unit whose installation the command
 * would miss, or a folder of another user ends the command with a sentence.
 */
export function readSettings(
  invocation: Invocation,
  place: InstallationFlags,
  options?: { readonly inputFile?: string },
): Config {
  const source = sourceOf(invocation, place);
  const config = orRefuse(readConfig(source));
  const other = refuseOldUnit(source, config);
  if (other !== undefined) throw new PersonNeeded(other);
  orRefuse(enterDataFolder(invocation, config, options));
  return config;
}

/**
 * Refuses a data folder of another user, with the line to type. Closes a folder of this user into which others can
 * write. Every command that works in the data folder calls it first. `inputFile` is the argument that names the file to
 * read, or `-`; `begins` tells whether the command begins an installation in an empty folder.
 */
export function enterDataFolder(
  { programName, args = [], env, isRoot, clock, err }: Invocation,
  { dataDir, logFormat }: Config,
  { inputFile = "-", begins = false }: { readonly inputFile?: string; readonly begins?: boolean } = {},
): Refusal | undefined {
  // sudo may not pass the environment on.
  const place =
    env.CLAVIGER_DATA_DIR && !args.some((word) => word.startsWith("--data-dir"))
      ? ["--data-dir", dataDir]
      : [];
  const line = (become: string, words: readonly string[], more = "") =>
    `run \`${[become, programName, ...[...words, ...place].map(quoteShellWord)].join(" ")}${more}\``;
  // Somebody who did not mean root's folder, such as the default one, needs a folder and no right.
  const asUser = (owner = "claviger") => {
    if (owner === "root")
      return `${line("sudo", args)}, or choose another folder, such as --data-dir ./claviger-data`;
    // The owner may not be able to read a file of this user, so this user's shell opens it.
    const words = args.map((word) => (word === inputFile ? "-" : word));
    const input = inputFile === "-" ? "" : ` < ${quoteShellWord(inputFile)}`;
    const user = quoteShellWord(owner);
    // A host may lack sudo, and has runuser, which only root may use and which takes no number of a user.
    const become = isRoot && !owner.startsWith("#") ? `runuser -u ${user} --` : `sudo -u ${user}`;
    return line(become, words, input);
  };
  const refusal = refuseForeignFolder(dataDir, asUser);
  if (refusal !== undefined) return refusal;
  const closed = closeDataFolder(dataDir, { begins });
  if (isRefusal(closed)) return closed;
  const log = createLog({ format: logFormat, clock, write: err });
  if (closed) log.warn("The data folder was closed: other users could write to it", { dataDir });
  return undefined;
}

/** Returns the sources of a command's settings: its own sources, and the unit of the service for settings that they lack. */
export function sourceOf(invocation: Invocation, { dataDir, envFile }: InstallationFlags): ConfigSource {
  return withUnitSettings({ ...invocation, envFile, flags: { CLAVIGER_DATA_DIR: dataDir } });
}

/** Everything that a command on the database works with. */
export interface CommandContext extends By, Opened {
  readonly database: Database;
}

const COMMAND_DEADLINE_MS = 60_000;
const CLOSE_DEADLINE_MS = 10_000;

interface DatabaseOptions extends InstallationFlags, ValuesOf<typeof REASON> {
  /** The settings, if the command has read them already. */
  readonly config?: Config;
  /** What a signal leaves behind, as the end of a sentence; by default nothing was changed. */
  readonly ifStopped?: string | undefined;
}

/**
 * Opens the database for one command, and closes it again. Refuses a data folder without a database, and a database
 * with another schema. Works while the service runs and while it is stopped. Callers check their input before, as far
 * as that needs no database.
 */
export async function withDatabase<Result>(
  invocation: Invocation,
  options: DatabaseOptions,
  work: (context: CommandContext) => Promise<Result>,
): Promise<Result> {
  const { clock, userName } = invocation;
  const { reason, config = readSettings(invocation, options), ifStopped } = options;
  return await withInstallation(invocation, { config, create: false, ifStopped }, async (opened) => {
    const { address, log } = opened;
    orRefuse(checkSchema(await migrationStatus(address, migrations)));
    await using database = openDatabase(address, {
      clock,
      log,
      maxConnections: 1,
      deadlineMs: COMMAND_DEADLINE_MS,
    });
    const actor: Actor = { kind: "command", name: userName, reason };
    return await work({ ...opened, database, actor, now: clock.now() });
  });
}

/** Opens the root secret, and proves that it sealed this database, before anything is sealed or opened with it. */
export async function openProvenSecrets({
  config,
  database,
  now,
}: Pick<CommandContext, "config" | "database" | "now">): Promise<Secrets> {
  const { secrets } = orRefuse(openSecrets(config, { create: false, isSealed: await isSealed(database) }));
  const wrongSecret = await proveSecret(database, secrets, now);
  if (wrongSecret !== undefined) throw new CommandRefused(wrongSecret);
  return secrets;
}

/** An open installation for a command's work. */
export interface Opened {
  /** The settings, with a bucket whose requests end at a signal, as {@linkcode stopIfInterrupted} ends the command. */
  readonly config: Config;
  readonly address: DatabaseAddress;
  /** Whether it is the database of a running service that holds the data folder. */
  readonly isServed: boolean;
  readonly restoreNote: RestoreNote;
  readonly log: Log;
  /**
   * Ends the command if a signal has come. Long work calls it where it can end without a half-done change, such as
   * inside a transaction. Short work does not call it: it finishes, and its change counts.
   */
  readonly stopIfInterrupted: () => void;
}

interface InstallationOptions extends Pick<DatabaseOptions, "ifStopped"> {
  readonly config: Config;
  readonly create: boolean;
  readonly restores?: boolean;
}

/**
 * Opens the installation, starts its PostgreSQL if it does not run, and closes everything again, also after a signal:
 * otherwise that PostgreSQL would outlive the command. A second signal ends the process at once.
 */
export async function withInstallation<Result>(
  invocation: Invocation,
  { config, create, restores = false, ifStopped = "nothing was changed" }: InstallationOptions,
  work: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  const stopping = new AbortController();
  const { signal } = stopping;
  void invocation.untilSignal().then((name) => {
    stopping.abort(new Interrupted(`Stopped by ${name}: ${ifStopped}`));
  });
  const stopIfInterrupted = () => signal.throwIfAborted();
  const { platform, clock } = invocation;
  const fullLog = createLog({ format: config.logFormat, clock, write: invocation.err });
  // A command's standard error has only messages that its caller must see.
  const log: Log = { ...fullLog, info: () => {} };
  return await explainFailures(config, async () => {
    const isInterrupted = () => signal.aborted;
    const shared = { config, platform, clock, log, isInterrupted };
    const opening = openInstallation({ ...shared, holder: "command", create, restores });
    const opened = await opening.catch((error: unknown) => {
      stopIfInterrupted();
      throw error;
    });
    if (isRefusal(opened)) stopIfInterrupted();
    const installation = orRefuse(opened);
    try {
      stopIfInterrupted();
      const { address, isServed = false, restoreNote = NO_RESTORE_NOTE } = installation;
      const modelsBucket = config.modelsBucket && { ...config.modelsBucket, signal };
      const opened = { config: { ...config, modelsBucket }, address, isServed, restoreNote, log };
      return await work({ ...opened, stopIfInterrupted });
    } catch (error) {
      const fault = error instanceof CommandRefused ? error.cause : error;
      const damage = fault === undefined ? undefined : await installation.dataFault?.damageAfter(fault);
      if (damage !== undefined) orRefuse(damage);
      throw error;
    } finally {
      await installation.close(CLOSE_DEADLINE_MS);
    }
  });
}

/** Runs `work`; refuses an error of the database or of its connection by a sentence that names the database. */
export async function explainFailures<Result>(
  config: Config,
  work: () => Promise<Result>,
  { orThrow = orRefuse }: { readonly orThrow?: (refusal: Refusal) => unknown } = {},
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const refusal = error instanceof CommandRefused ? undefined : refuseDatabaseFailure(error, config);
    if (refusal !== undefined) orThrow(refusal);
    throw error;
  }
}
