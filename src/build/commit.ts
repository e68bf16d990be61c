/** Reads the commit that a build is made from, for `claviger version`, and its time, for the files of a release. */
import { realpathSync } from "node:fs";
import { join } from "node:path";

const CHECKOUT = join(import.meta.dir, "../..");

/**
 * Returns the first twelve digits of a checkout's commit, followed by ` and changes` if a file was changed or added
 * since. Returns `unknown` without git, and if the folder is not the top of a repository.
 */
export function readCommit(folder: string = CHECKOUT): string {
  const git = (...args: string[]): string | undefined => {
    try {
      const run = Bun.spawnSync(["git", ...args], { cwd: folder, stderr: "ignore" });
      return run.exitCode === 0 ? run.stdout.toString().trim() : undefined;
    } catch {
      return undefined; // git is not installed.
    }
  };
  const top = git("rev-parse", "--show-toplevel");
  // The sources may be unpacked inside another repository, whose commit is not theirs.
  if (top === undefined || realpathSync(top) !== realpathSync(folder)) return "unknown";
  const commit = git("rev-parse", "--verify", "HEAD");
  const changes = git("status", "--porcelain");
  if (commit === undefined || changes === undefined) return "unknown";
  return commit.slice(0, 12) + (changes === "" ? "" : " and changes");
}

/** Returns the time of a release in seconds since 1970: `SOURCE_DATE_EPOCH`, else of the commit; 0 without git. */
export function readSourceDate(folder: string = CHECKOUT): number {
  const given = process.env.SOURCE_DATE_EPOCH;
  if (given !== undefined && given !== "") return Number(given);
  const git = Bun.which("git");
  if (git === null) return 0;
  const run = Bun.spawnSync([git, "log", "-1", "--format=%ct"], { cwd: folder, stderr: "ignore" });
  return Number(run.stdout.toString().trim());
}
