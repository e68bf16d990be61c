/**
 * Root does not work in a folder that belongs to another user: that user could replace a file by a link, and root
 * would write where the link leads. So a command that root runs on such a data folder first opens the files that the
 * operator named (the settings, a backup, a model's file). Then it starts the program again as the owner of the
 * folder. That process does all work on the folder and the database, with the owner's rights alone. It gets the
 * settings through a pipe, because other users can read arguments and environments.
 *
 * The owner may take that process over. So the process gets no terminal, and it can write only to pipes, which root
 * reads. Root opens no path that the owner can change. `open_for_owner.ts` opens the files, and `run_as.ts` runs the
 * process.
 */
import { closeSync, readFileSync } from "node:fs";
import type { Command } from "commander";
import { writeWhole } from "../backup/mod.ts";
import { type PackedConfig, packConfig, readConfig, unpackConfig } from "../config/mod.ts";
import {
  existsSystemGroup,
  type FollowedPath,
  findClosedFolder,
  findSystemUser,
  followPath,
  refuseForeignFolder,
  type SystemUser,
} from "../host/mod.ts";
import { giveFiles } from "../read_regular_file.ts";
import { isRefusal } from "../refusal.ts";
import { reasonOf } from "../system_error.ts";
import { needsOf } from "./needs.ts";
import {
  type DelegatedCommand,
  findOutput,
  openFiles,
  orFileRefusal,
  refuseForeignSettings,
  refuseWrongSecret,
} from "./open_for_owner.ts";
import type { InstallationFlags } from "./options.ts";
import { quoteShellWord } from "./quote_shell_word.ts";
import { CommandRefused, ownSourceOf, sourceOf } from "./run.ts";
import { HAND_OVER_FD, OUTPUT_FD, runAs } from "./run_as.ts";
import { withServiceCredentials } from "./service_credentials.ts";
import type { HandedOver, Surroundings } from "./surroundings.ts";

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
  const needs = needsOf(command);
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
      keepOutput: output && ((source) => orFileRefusal(() => writeWhole(output.path, source, output))),
      onSignal: surroundings.onSignal,
    });
  } finally {
    for (const fd of descriptors) closeSync(fd);
  }
}
