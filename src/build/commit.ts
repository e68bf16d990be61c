/** Reads the commit that a build is made from, for `claviger version`, and its time, for the files of a release. */
import { realpathSync } from "node:fs";
import { dirname } from "node:path";
import { CHECKOUT } from "./parts.ts";

/**
 * Returns the first twelve digits of a checkout's commit, followed by ` and changes` if a file was changed or added
 * since. Returns `unknown` without git, and if the folder is not the top of a repository.
 */
export function readCommit(folder: string = CHECKOUT): string {
  const commit = askGit(folder, "rev-parse", "--verify", "HEAD");
  const changes = askGit(folder, "status", "--porcelain");
  if (commit === undefined || changes === undefined) return "unknown";
  return commit.slice(0, 12) + (changes === "" ? "" : " and changes");
}

/**
 * Returns the time of a release in seconds since 1970: `SOURCE_DATE_EPOCH`, or else the time of the commit; 0 where
 * {@linkcode readCommit} returns `unknown`. Throws if `SOURCE_DATE_EPOCH` is no such number, as its specification
 * demands (https://reproducible-builds.org/specs/source-date-epoch/).
 */
export function readSourceDate(folder: string = CHECKOUT): number {
  const given = process.env.SOURCE_DATE_EPOCH || askGit(folder, "log", "-1", "--format=%ct") || "0";
  if (/^\d{1,10}$/.test(given)) return Number(given);
  throw new Error("Cannot build: SOURCE_DATE_EPOCH must be a number of seconds since 1970");
}

/** Returns what git prints; undefined if it fails or is missing, or if the folder is not the top of a repository. */
function askGit(folder: string, ...command: string[]): string | undefined {
  // The sources may be unpacked inside another repository, whose commit is not theirs.
  const env = { ...process.env, GIT_CEILING_DIRECTORIES: dirname(realpathSync(folder)) };
  try {
    const run = Bun.spawnSync(["git", ...command], { cwd: folder, env, stderr: "ignore" });
    return run.exitCode === 0 ? run.stdout.toString().trim() : undefined;
  } catch {
    return undefined; // git is not installed.
  }
}
