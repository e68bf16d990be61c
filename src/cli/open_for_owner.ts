/**
 * The work of root for the process of the owner of a data folder. Root opens the files that the operator named, chooses
 * who writes the output, and refuses settings and secrets that must not reach the owner. Root opens no path that the
 * owner can change.
 */
import { type Stats, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { checkPlace, FileFailure } from "../backup/mod.ts";
import { type Config, type ConfigSource, settingsFilesOf } from "../config/mod.ts";
import { followPath, type SystemUser } from "../host/mod.ts";
import { type OpenFile, openNamedFile, openRegularFile } from "../read_regular_file.ts";
import { parseRootSecret } from "../secrets/mod.ts";
import { codeOf } from "../system_error.ts";
import type { Needs } from "./needs.ts";
import { quoteShellWord } from "./quote_shell_word.ts";
import { CommandRefused } from "./run.ts";
import { FIRST_FILE_FD } from "./run_as.ts";

/** A command that the owner of the data folder does in place of root. */
export interface DelegatedCommand {
  readonly args: readonly string[];
  readonly needs: Needs;
  readonly source: ConfigSource;
  readonly config: Config;
  readonly owner: SystemUser;
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
export function refuseForeignSettings({ source, owner }: DelegatedCommand): void {
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
export function refuseWrongSecret(delegated: DelegatedCommand): void {
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
export function openFiles(workingFolder: string, delegated: DelegatedCommand) {
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

export interface Output {
  readonly path: string;
  readonly replace: boolean;
}

/** Finds the file that root writes for the command; undefined if the command opens the file itself or writes none. */
export async function findOutput(
  workingFolder: string,
  { needs: { output }, owner }: DelegatedCommand,
): Promise<Output | undefined> {
  if (output === undefined || output.file === "-") return output && { ...output, path: "-" };
  const path = resolve(workingFolder, output.file);
  const beside = join(dirname(path), ".unfinished");
  await orFileRefusal(() => checkPlace(path, output));
  const isOwners = followPath(beside, { isTrusted: (uid) => uid !== owner.uid }).changeable !== undefined;
  if (isOwners) return undefined;
  return { path, replace: output.replace };
}

/** Runs work whose failures with files end the command with their sentence. */
export async function orFileRefusal<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof FileFailure ? new CommandRefused(error.message) : error;
  }
}
