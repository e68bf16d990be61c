/** For which machines bundles are made and into which files, and what is checked of both before anything is signed. */
import { statfsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { readNamedFile } from "../base/read_regular_file.ts";
import type { KeySummary } from "../licensing/keys/mod.ts";
import { EXPORTED_FINGERPRINT } from "../licensing/signed_licenses/mod.ts";
import { type BundlePlan, nameBundle } from "../models/bundles/mod.ts";
import { toSize } from "./backup_report.ts";
import type { DatabaseCall } from "./command.ts";
import { renderFileFailure } from "./failures.ts";
import { CommandRefused, WrongUsage } from "./run.ts";
import { demandNewFile } from "./write_new_file.ts";

/** The most machines in one step. */
export const MOST_MACHINES = 1_000;
const FINGERPRINTS_LIMIT_BYTES = 256 * 1024;

/** The file of a machine. */
export interface BundleTarget {
  /** Undefined for a license that is for no machine alone. */
  readonly fingerprint: string | undefined;
  /** The path as the operator gave it. */
  readonly shown: string;
  readonly path: string;
}

/** Returns the fingerprints of the machines; none for a license that is for no machine alone. */
export function readMachines(
  { invocation }: DatabaseCall,
  {
    fingerprint = [],
    fingerprints: file,
  }: { readonly fingerprint?: readonly string[]; readonly fingerprints?: string },
): readonly string[] {
  const machines =
    file === undefined ? fingerprint : readLines(resolve(invocation.workingFolder, file), file);
  const twice = machines.find((each, index) => machines.indexOf(each) !== index);
  if (twice !== undefined) throw new WrongUsage(`Cannot make bundle: ${twice} is given twice`);
  return machines;
}

function readLines(path: string, file: string): string[] {
  let text: string;
  try {
    text = readNamedFile(path, FINGERPRINTS_LIMIT_BYTES);
  } catch (error) {
    throw new CommandRefused(`Cannot read ${file}: ${renderFileFailure(error)}`);
  }
  const lines = text
    // A byte order mark, which some editors write at the start of a file, is not seen and no part of the first line.
    .replace(/^\uFEFF/, "")
    .split("\n")
    .map((line, index) => ({ text: line.replace(/\r$/, ""), number: index + 1 }))
    .filter((line) => line.text !== "");
  const wrong = lines.find((line) => EXPORTED_FINGERPRINT.parse(line.text) === undefined);
  if (wrong !== undefined)
    // Quoted, because a blank at its end is not seen otherwise.
    throw new WrongUsage(
      `Cannot read ${file}: line ${wrong.number}, ${JSON.stringify(wrong.text)}, must be ${EXPORTED_FINGERPRINT.expects}`,
    );
  if (lines.length === 0 || lines.length > MOST_MACHINES)
    throw new WrongUsage(`Cannot read ${file}: it must have 1 to ${MOST_MACHINES} fingerprints`);
  return lines.map((line) => line.text);
}

/** Returns the file of each machine. Refuses one that exists or cannot be written, before anything is signed. */
export function findTargets(
  { invocation, now }: DatabaseCall,
  {
    to,
    key,
    fingerprints,
  }: { readonly to: string; readonly key: KeySummary; readonly fingerprints: readonly string[] },
): BundleTarget[] {
  const toPath = (shown: string) => resolve(invocation.workingFolder, shown);
  const intoFolder = isFolder(toPath(to));
  if (!intoFolder && fingerprints.length > 1)
    throw new WrongUsage(`Cannot make bundles: ${to} is no folder, and each machine gets a file in one`);
  const all = fingerprints.length === 0 ? [undefined] : fingerprints;
  const targets = all.map((fingerprint) => {
    const shown = intoFolder ? join(to, nameBundle({ ...key, fingerprint, now })) : to;
    return { fingerprint, shown, path: toPath(shown) };
  });
  for (const { path, shown } of targets) demandNewFile(path, { what: "make bundle", shown });
  // Some file systems make no difference between upper and lower case.
  const paths = targets.map(({ path }) => path.toLowerCase());
  const twice = targets.find((_, index) => paths.indexOf(paths[index] ?? "") !== index);
  if (twice !== undefined)
    throw new CommandRefused(
      `Cannot make bundle: two machines would get the file ${twice.shown}; make the bundle of one of them alone`,
    );
  return targets;
}

/** Tells whether the path leads to a folder; false if it cannot be looked at, for which the path of a file is refused. */
function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Refuses a folder that has no room, before anything is signed. */
export function demandRoom({ sources }: BundlePlan, targets: readonly BundleTarget[]): void {
  const [{ path } = { path: "" }] = targets;
  const folder = dirname(path);
  const { bavail, bsize } = statfsSync(folder);
  const needed = targets.length * sources.reduce((sum, { file }) => sum + file.size, 0);
  if (needed > bavail * bsize)
    throw new CommandRefused(
      `Cannot write into ${folder}: ${toSize(needed)} are needed, and ${toSize(bavail * bsize)} are free`,
    );
}
