/**
 * Root never works in another user's folder: whoever can swap a file there for a link would have root write where
 * he likes. So a command of root's that comes to a data folder of another user opens what the operator named (the
 * settings, a backup, a model's file) and then runs itself again as that user, who does all work on the folder and
 * the database with his own rights alone. What such a command needs goes to it through a pipe: never by arguments
 * or by the environment, which others can read.
 *
 * The other user may take that process over. It gets no terminal and no descriptor that can be written to, only
 * pipes, which root reads; and root opens nothing on a path that the other user may change.
 */
import { closeSync, constants, openSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import { checkPlace, FileFailure, writeWhole } from "../backup/mod.ts";
import {
  type Config,
  type ConfigSource,
  type PackedConfig,
  packConfig,
  readConfig,
  unpackConfig,
} from "../config.ts";
import { type FollowedPath, findClosedFolder, followPath, refuseForeignFolder } from "../path_owner.ts";
import { giveFiles } from "../read_regular_file.ts";
import { isRefusal } from "../refusal.ts";
import { parseRootSecret } from "../secrets/mod.ts";
import { settingsFilesOf } from "../settings_file.ts";
import { findSystemUser, type SystemUser } from "../system_users.ts";
import type { PlaceOptions } from "./options.ts";
import { CommandRefused, ownSourceOf, sourceOf } from "./run.ts";
import { FIRST_FILE_FD, HAND_OVER_FD, OUTPUT_FD, runAs } from "./run_as.ts";
import { withServiceCredentials } from "./service_credentials.ts";
import type { HandedOver, Surroundings } from "./surroundings.ts";

/** What a command needs beside its data folder. */
export interface Needs {
  /** Paths of files, as the operator gave them. */
  readonly files?: readonly (string | undefined)[];
  /** The same, where a pipe will do. */
  readonly streams?: readonly string[];
  /** Standard input. */
  readonly input?: boolean;
  /** The file that it writes; `-` is standard output. */
  readonly output?: { readonly file: string; readonly replace: boolean };
  /** It examines the files that the settings name, and tells itself who else can change the data folder. */
  readonly examines?: boolean;
  /** It runs as whoever started it: it goes on (`serve`), or does nothing in the data folder (`nothing`). */
  readonly staysAs?: "serve" | "nothing";
}

const needsOf = new WeakMap<Command, (command: Command) => Needs>();

/** Says what a command needs, from its arguments and options. */
export function withNeeds(command: Command, needs: (command: Command) => Needs): Command {
  needsOf.set(command, needs);
  return command;
}

/** Thrown where another process has done the command's work and said all there is to say. */
export class DoneByOther extends Error {
  readonly status: number;

  constructor(status: number) {
    super("Done by another process");
    this.status = status;
  }
}

/**
 * Called before every command. Returns where it may go on as who it is; throws {@linkcode DoneByOther} where it was
 * run as the owner of the data folder, and {@linkcode CommandRefused} where root may not work there at all.
 */
export async function enterAsOwner(
  surroundings: Surroundings,
  { command, args }: { readonly command: Command; readonly args: readonly string[] },
): Promise<void> {
  const needs = needsOf.get(command)?.(command) ?? {};
  const hasDataDir = command.options.some(({ long }) => long === "--data-dir");
  if (!surroundings.isRoot || !hasDataDir || needs.staysAs === "nothing") return;
  const place: PlaceOptions = command.opts();
  const source = needs.staysAs === "serve" ? ownSourceOf(surroundings, place) : sourceOf(surroundings, place);
  const config = readConfig(needs.examines ? withServiceCredentials(source) : source);
  // The command itself says so.
  if (isRefusal(config)) return;
  const { dataDir } = config;
  const { found, uid } = look(dataDir);
  if (uid !== 0) {
    const owner = findSystemUser(uid) ?? { name: `#${uid}`, uid, gid: uid };
    if (needs.staysAs === "serve")
      throw new CommandRefused(refuseToServe(surroundings.programName, args, { found, owner }));
    const closed = findClosedFolder(found, owner);
    if (closed !== undefined) throw new CommandRefused(refuseClosed(dataDir, { closed, owner }));
    throw new DoneByOther(await runAsOwner(surroundings, { args, needs, source, config, owner }));
  }
  const refusal = refuseForeignFolder(dataDir);
  if (refusal !== undefined && !needs.examines) throw new CommandRefused(refusal.sentence);
}

function look(dataDir: string): FollowedPath {
  try {
    return followPath(dataDir, { isTrusted: () => true });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CommandRefused(`Cannot open the data folder ${dataDir}: ${why}; choose another folder`);
  }
}

function refuseToServe(
  programName: string,
  args: readonly string[],
  { found, owner }: { readonly found: string; readonly owner: SystemUser },
): string {
  return (
    `Cannot serve as root: ${found} belongs to user ${owner.name}, and root does not work in another user's folder; ` +
    `run \`sudo -u ${forShell(owner.name)} ${programName} ${args.map(forShell).join(" ")}\`, or choose a folder of root's own`
  );
}

/** Where systemd keeps the folders of units with DynamicUser, closed to all but root. */
const DYNAMIC_FOLDERS = "/var/lib/private";

function refuseClosed(
  dataDir: string,
  { closed, owner }: { readonly closed: string; readonly owner: SystemUser },
): string {
  const remedy =
    closed === DYNAMIC_FOLDERS
      ? "the service's unit has DynamicUser: stop the service, make its user by the line that `claviger systemd " +
        "--sysusers` prints, print the unit anew by `claviger systemd`, and start it"
      : `let that user pass (\`chmod o+x ${closed}\`), or move the data folder`;
  return `Cannot open the data folder ${dataDir}: ${closed} is closed to user ${owner.name}, to whom the data folder belongs; ${remedy}`;
}

/** A word as a shell takes it. */
export function forShell(word: string): string {
  return /^[\w./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

interface Errand {
  readonly args: readonly string[];
  readonly needs: Needs;
  readonly source: ConfigSource;
  readonly config: Config;
  readonly owner: SystemUser;
}

/** What goes through the pipe. */
interface HandOver extends Omit<HandedOver, "config"> {
  readonly config: PackedConfig;
  /** Descriptors, or the code of the error that opening gave, by path. */
  readonly files: Readonly<Record<string, number | string>>;
}

const AS_OWNER = "--as-owner";

/** Takes what root handed to this process; whoever starts the program so himself fools nobody but himself. */
export function takeHandOver(args: readonly string[]): {
  readonly args: readonly string[];
  readonly handed?: HandedOver;
} {
  if (args[0] !== AS_OWNER) return { args };
  try {
    const { files, config, ...handed }: HandOver = JSON.parse(readFileSync(HAND_OVER_FD, "utf8"));
    closeSync(HAND_OVER_FD);
    giveFiles(files);
    return { args: args.slice(1), handed: { ...handed, config: unpackConfig(config) } };
  } catch {
    // Nobody handed anything over: an option that no command has.
    return { args };
  }
}

/** Runs the command again as the owner of the data folder; resolves with its exit status. */
async function runAsOwner(surroundings: Surroundings, errand: Errand): Promise<number> {
  const { programName, workingFolder, isTerminal, userName, again } = surroundings;
  const { needs, owner, config, args } = errand;
  if (again === undefined) {
    throw new CommandRefused(
      `Cannot work as root in ${config.dataDir}: run the command as user ${owner.name}`,
    );
  }
  refuseForeignSettings(errand);
  refuseOtherSecrets(config);
  const output = await findOutput(workingFolder, errand);
  const { files, descriptors } = openFiles(workingFolder, errand);
  const handOver: HandOver = {
    config: packConfig(config),
    userName,
    programName,
    workingFolder,
    isTerminal,
    isTyped: again.isTyped,
    output: output === undefined ? undefined : OUTPUT_FD,
    files,
  };
  try {
    return await runAs(owner, {
      again,
      args: [AS_OWNER, ...args],
      handOver: JSON.stringify(handOver),
      hasInput: needs.input ?? false,
      descriptors,
      keepOutput: output && ((source) => orFileRefusal(() => writeWhole(output.path, source, output))),
      onSignal: surroundings.onSignal,
    });
  } finally {
    for (const fd of descriptors) closeSync(fd);
  }
}

/** A settings file that the owner may change would have root read for him what he names in it. */
function refuseForeignSettings({ source, owner }: Errand): void {
  const isOthers = (uid: number) => uid !== owner.uid;
  const path = settingsFilesOf({ ...source, unitFiles: source.unit?.envFiles }).find(
    (file) =>
      !isOthers(statSync(file).uid) ||
      followPath(resolve(source.workingFolder, file), { isTrusted: isOthers }).changeable !== undefined,
  );
  if (path === undefined) return;
  throw new CommandRefused(
    `Cannot use the settings in ${path} as root: user ${owner.name}, to whom the data folder belongs, may change ` +
      `them; \`chown root ${path}\` and close its folder to others, or run the command as that user`,
  );
}

/** What a file holds that is no root secret is none of the owner's business. */
function refuseOtherSecrets({ secret }: Config): void {
  if (secret === undefined) return;
  const parsed = parseRootSecret(secret.text);
  if (parsed.ok) return;
  throw new CommandRefused(
    `Cannot use the secret of ${secret.source}: ${parsed.error.replace(/^[^:]*: /, "")}`,
  );
}

function openFiles(workingFolder: string, { needs, config, owner }: Errand) {
  const { tls, gitHubApp } = config;
  const ofSettings = needs.examines ? [tls?.certFile, tls?.keyFile, gitHubApp?.privateKeyFile] : [];
  const files: Record<string, number | string> = {};
  const descriptors: number[] = [];
  const give = (name: string | undefined, flags: number) => {
    if (name === undefined) return;
    const path = resolve(workingFolder, name);
    try {
      if (followPath(path, { isTrusted: (uid) => uid !== owner.uid }).changeable !== undefined) return;
      const fd = openSync(path, constants.O_RDONLY | flags);
      files[path] = FIRST_FILE_FD + descriptors.push(fd) - 1;
    } catch (error) {
      files[path] = error instanceof Error && "code" in error ? String(error.code) : "EIO";
    }
  };
  for (const name of [...(needs.files ?? []), ...ofSettings]) give(name, constants.O_NONBLOCK);
  for (const name of needs.streams ?? []) give(name, 0);
  return { files, descriptors };
}

interface Output {
  readonly path: string;
  readonly replace: boolean;
}

/** The file that root writes for the command; undefined where the command opens it itself, or writes none. */
async function findOutput(
  workingFolder: string,
  { needs: { output }, owner }: Errand,
): Promise<Output | undefined> {
  if (output === undefined || output.file === "-") return undefined;
  const path = resolve(workingFolder, output.file);
  const beside = join(dirname(path), ".unfinished");
  await orFileRefusal(() => checkPlace(path, output));
  const isOwners = followPath(beside, { isTrusted: (uid) => uid !== owner.uid }).changeable !== undefined;
  if (isOwners) return undefined;
  return { path, replace: output.replace };
}

async function orFileRefusal<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof FileFailure ? new CommandRefused(error.message) : error;
  }
}
