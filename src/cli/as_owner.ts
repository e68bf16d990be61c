/**
 * Root does not work in a folder that belongs to another user: that user could replace a file by a link, and root
 * would write where the link leads. So a command that root runs on such a data folder first opens the files that the
 * operator named (the settings, a backup, a model's file). Then it starts the program again as the owner of the
 * folder. That process does all work on the folder and the database, with the owner's rights alone. It gets the
 * settings through a pipe, because other users can read arguments and environments.
 *
 * The owner may take that process over. So the process gets no terminal, and it can write only to pipes, which root
 * reads. Root opens no path that the owner can change.
 */
import { closeSync, readFileSync, type Stats, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import { checkPlace, FileFailure, writeWhole } from "../backup/mod.ts";
import {
  type Config,
  type ConfigSource,
  type PackedConfig,
  packConfig,
  readConfig,
  settingsFilesOf,
  unpackConfig,
} from "../config/mod.ts";
import {
  existsSystemGroup,
  type FollowedPath,
  findClosedFolder,
  findSystemUser,
  followPath,
  refuseForeignFolder,
  type SystemUser,
} from "../host/mod.ts";
import { giveFiles, type OpenFile, openNamedFile, openRegularFile } from "../read_regular_file.ts";
import { isRefusal } from "../refusal.ts";
import { parseRootSecret } from "../secrets/mod.ts";
import { codeOf, reasonOf } from "../system_error.ts";
import type { InstallationFlags } from "./options.ts";
import { quoteShellWord } from "./quote_shell_word.ts";
import { CommandRefused, ownSourceOf, sourceOf } from "./run.ts";
import { FIRST_FILE_FD, HAND_OVER_FD, OUTPUT_FD, runAs } from "./run_as.ts";
import { withServiceCredentials } from "./service_credentials.ts";
import type { HandedOver, Surroundings } from "./surroundings.ts";

/** The files and streams that a command needs besides its data folder. */
export interface Needs {
  /** Paths of regular files, as the operator gave them. */
  readonly files?: readonly (string | undefined)[];
  /** Paths of files that may be pipes. */
  readonly streams?: readonly string[];
  /** Whether the command reads standard input. */
  readonly input?: boolean;
  /** Whether the command asks a question: it gets standard input only if a person types there. */
  readonly answer?: boolean;
  /** The file that the command writes; `-` is standard output. */
  readonly output?: { readonly file: string; readonly replace: boolean };
  /** The command examines the files that the settings name, and reports a data folder that others can change. */
  readonly examines?: boolean;
  /**
   * Why the command keeps the user who started it: `serve` must be started by the owner of the data folder, and
   * `no_data` does nothing in the data folder.
   */
  readonly keepsUser?: "serve" | "no_data";
}

const needsOf = new WeakMap<Command, (command: Command) => Needs>();

/** Registers a function that returns what a command needs, from its arguments and options. */
export function withNeeds(command: Command, needs: (command: Command) => Needs): Command {
  needsOf.set(command, needs);
  return command;
}

/** Thrown when another process has done the command's work and printed its output. */
export class DoneByOther extends Error {
  readonly status: number;

  constructor(status: number) {
    super("Done by another process");
    this.status = status;
  }
}

/**
 * Runs before every command. Returns when this process may do the command itself. Throws {@linkcode DoneByOther}
 * after a process of the owner of the data folder has done it, and {@linkcode CommandRefused} when root may not work
 * in that folder.
 */
export async function enterAsOwner(
  surroundings: Surroundings,
  { command, args }: { readonly command: Command; readonly args: readonly string[] },
): Promise<void> {
  const needs = needsOf.get(command)?.(command) ?? {};
  const hasDataDir = command.options.some(({ long }) => long === "--data-dir");
  if (!surroundings.isRoot || !hasDataDir || needs.keepsUser === "no_data") return;
  const place: InstallationFlags = command.opts();
  const source =
    needs.keepsUser === "serve" ? ownSourceOf(surroundings, place) : sourceOf(surroundings, place);
  const own = readConfig(source);
  // The command itself reports the fault.
  if (isRefusal(own)) return;
  const { dataDir } = own;
  const { found, uid } = followDataDir(dataDir);
  // Only the owner's own service counts: the credentials of another service must not reach the owner.
  const config = needs.examines ? readConfig(withServiceCredentials(source, uid)) : own;
  if (isRefusal(config)) return;
  if (uid !== 0) {
    const owner = findSystemUser(uid) ?? namelessUser(uid);
    if (needs.keepsUser === "serve")
      throw new CommandRefused(refuseToServe(surroundings.programName, args, { found, owner }));
    const closed = findClosedFolder(found, owner);
    if (closed !== undefined) throw new CommandRefused(refuseClosed(dataDir, { closed, owner }));
    throw new DoneByOther(await runAsOwner(surroundings, { args, needs, source, config, owner }));
  }
  const refusal = refuseForeignFolder(dataDir, { mayBeMade: true });
  if (refusal !== undefined && !needs.examines) throw new CommandRefused(refusal.sentence);
}

/** A user without a name gets the group of the same number, unless a group of that number exists. */
function namelessUser(uid: number): SystemUser {
  return { name: `#${uid}`, uid, gid: existsSystemGroup(String(uid)) ? NO_GROUP : uid };
}

/** The kernel's overflow group, which has no rights. */
const NO_GROUP = 65_534;

function followDataDir(dataDir: string): FollowedPath {
  try {
    return followPath(dataDir, { isTrusted: () => true });
  } catch (error) {
    const why = reasonOf(error);
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
    `run \`sudo -u ${quoteShellWord(owner.name)} ${programName} ${args.map(quoteShellWord).join(" ")}\`, or choose a folder of root's own`
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
      ? "the service's unit has DynamicUser: stop the service, create its user with the line that `claviger systemd " +
        "--sysusers` prints, print a new unit with `claviger systemd`, and start it"
      : `let that user enter it (\`chmod o+x ${quoteShellWord(closed)}\`), or move the data folder`;
  return `Cannot open the data folder ${dataDir}: ${closed} is closed to user ${owner.name}, the owner of the data folder; ${remedy}`;
}

interface DelegatedCommand {
  readonly args: readonly string[];
  readonly needs: Needs;
  readonly source: ConfigSource;
  readonly config: Config;
  readonly owner: SystemUser;
}

/** The JSON document that goes through the pipe. */
interface HandOver extends Omit<HandedOver, "config"> {
  readonly config: PackedConfig;
  /** For each path the descriptor of the open file, or the code of the error when root opened it. */
  readonly files: Readonly<Record<string, number | string>>;
}

const AS_OWNER = "--as-owner";

/**
 * Reads the data that root handed over to this process. A user who gives the option himself gains nothing: his process
 * has only his own rights.
 */
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
    // Nothing was handed over: the option stays, and is refused as unknown.
    return { args };
  }
}

/** Runs the command again as the owner of the data folder; resolves with its exit status. */
async function runAsOwner(surroundings: Surroundings, delegated: DelegatedCommand): Promise<number> {
  const { programName, workingFolder, isTerminal, isTyped, columns, hasColours, userName, ownProgram } =
    surroundings;
  const { needs, owner, config, args } = delegated;
  if (ownProgram === undefined) {
    throw new CommandRefused(
      `Cannot work as root in ${config.dataDir}: run the command as user ${owner.name}`,
    );
  }
  refuseForeignSettings(delegated);
  refuseWrongSecret(delegated);
  const output = await findOutput(workingFolder, delegated);
  const { files, descriptors } = openFiles(workingFolder, delegated);
  const handOver: HandOver = {
    config: packConfig(config),
    userName,
    programName,
    workingFolder,
    isTerminal,
    isTyped,
    columns,
    hasColours,
    output: output === undefined ? undefined : OUTPUT_FD,
    files,
  };
  try {
    return await runAs(owner, {
      program: ownProgram,
      args: [AS_OWNER, ...args],
      handOver: JSON.stringify(handOver),
      hasInput: needs.input === true || (needs.answer === true && isTyped),
      descriptors,
      printsBytes: needs.output?.file === "-",
      keepOutput: output && ((source) => orFileRefusal(() => writeWhole(output.path, source, output))),
      onSignal: surroundings.onSignal,
    });
  } finally {
    for (const fd of descriptors) closeSync(fd);
  }
}

function mayWrite(user: SystemUser, file: Stats): boolean {
  const { uid, gid, mode } = file;
  const isOpen = (mode & 0o002) !== 0 || (gid === user.gid && (mode & 0o020) !== 0);
  // Everybody may write to /dev/null, but that changes nothing.
  return uid === user.uid || (isOpen && file.isFile());
}

/**
 * Refuses settings that the owner can change: the owner could name a file of root in them, and root would open that file
 * for him.
 */
function refuseForeignSettings({ source, owner }: DelegatedCommand): void {
  const isOthers = (uid: number) => uid !== owner.uid;
  const path = settingsFilesOf({ ...source, unitFiles: source.unit?.envFiles }).find(
    (file) =>
      mayWrite(owner, statSync(file)) ||
      followPath(resolve(source.workingFolder, file), { isTrusted: isOthers }).changeable !== undefined,
  );
  if (path === undefined) return;
  throw new CommandRefused(
    `Cannot use the settings in ${path} as root: user ${owner.name}, the owner of the data folder, can change ` +
      `them; \`chown root ${quoteShellWord(path)}; chmod go-w ${quoteShellWord(path)}\`, and let nobody else write to its ` +
      "folder, or run the command as that user",
  );
}

/**
 * Refuses a wrong secret before the owner gets it. The settings may name a wrong file of root by mistake: text that is
 * not a root secret must not reach the owner. The owner, or another user, may have put a link to a secret of root in the
 * place of his own file: that secret must not reach the owner either.
 */
function refuseWrongSecret(delegated: DelegatedCommand): void {
  const { source, owner } = delegated;
  const { secret } = delegated.config;
  if (secret === undefined) return;
  const cannot = (why: string) => new CommandRefused(`Cannot use the secret of ${secret.source}: ${why}`);
  if (secret.file !== undefined) {
    const { path, uid } = secret.file;
    const { changeable } = followPath(resolve(source.workingFolder, path), trustRoot(delegated));
    if (changeable !== undefined && uid !== owner.uid && uid !== changeable.uid) {
      throw cannot(
        `another user than root can change ${changeable.path}, and the path leads to another user's file; ` +
          "put the secret where only root can change the path",
      );
    }
  }
  const parsed = parseRootSecret(secret.text);
  if (!parsed.ok) throw cannot(parsed.error.replace(/^[^:]*: /, ""));
}

/** Trusts root, and the user who became root with sudo, because that user chose the paths. */
function trustRoot({ source, owner }: DelegatedCommand) {
  const sudoer = source.env.SUDO_UID;
  return { isTrusted: (uid: number) => uid === 0 || (String(uid) === sudoer && uid !== owner.uid) };
}

/**
 * Opens the files that the operator named. When another user can change a path, root opens it only if the file
 * belongs to that user; otherwise the other process opens the path with its own rights.
 */
function openFiles(workingFolder: string, delegated: DelegatedCommand) {
  const { needs, owner } = delegated;
  const { tls, gitHubApp } = delegated.config;
  const ofSettings = needs.examines ? [tls?.certFile, tls?.keyFile, gitHubApp?.privateKeyFile] : [];
  const files: Record<string, number | string> = {};
  const descriptors: number[] = [];
  const give = (name: string | undefined, open: (path: string) => OpenFile) => {
    if (name === undefined) return;
    const path = resolve(workingFolder, name);
    try {
      if (followPath(path, { isTrusted: (uid) => uid !== owner.uid }).changeable !== undefined) return;
      const { changeable } = followPath(path, trustRoot(delegated));
      const { fd, stat, close } = open(path);
      if (changeable !== undefined && stat.uid !== changeable.uid) return close();
      files[path] = FIRST_FILE_FD + descriptors.push(fd) - 1;
    } catch (error) {
      files[path] = codeOf(error) ?? "EIO";
    }
  };
  for (const name of [...(needs.files ?? []), ...ofSettings]) give(name, openRegularFile);
  for (const name of needs.streams ?? []) give(name, openStream);
  return { files, descriptors };
}

/** Refuses folders: with an open folder, the other process could reach files below a folder that is closed to it. */
function openStream(path: string): OpenFile {
  const opened = openNamedFile(path);
  if (!opened.stat.isDirectory()) return opened;
  opened.close();
  throw Object.assign(new Error(`EISDIR: ${path}`), { code: "EISDIR" });
}

interface Output {
  readonly path: string;
  readonly replace: boolean;
}

/** Finds the file that root writes for the command; undefined if the command opens the file itself or writes none. */
async function findOutput(
  workingFolder: string,
  { needs: { output }, owner }: DelegatedCommand,
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
