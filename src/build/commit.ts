/** The commit that a build is made from, for `claviger version`. */
import { realpathSync } from "node:fs";
import { join } from "node:path";

const checkoutFolder = join(import.meta.dir, "../..");

/**
 * The first twelve digits of a checkout's commit, followed by ` and changes` when a file was changed or added since.
 * `unknown` without git, and when the folder is not the top of a repository.
 */
export function readCommit(folder: string = checkoutFolder): string {
  const git = (...args: string[]): string | undefined => {
    try {
      const run = Bun.spawnSync(["git", ...args], { cwd: folder, stderr: "ignore" });
      return run.exitCode === 0 ? run.stdout.toString().trim() : undefined;
    } catch {
      return undefined; // There is no git.
    }
  };
  const top = git("rev-parse", "--show-toplevel");
  // The sources may lie unpacked inside another repository, whose commit says nothing of them.
  if (top === undefined || realpathSync(top) !== realpathSync(folder)) return "unknown";
  const commit = git("rev-parse", "--verify", "HEAD");
  const changes = git("status", "--porcelain");
  if (commit === undefined || changes === undefined) return "unknown";
  return commit.slice(0, 12) + (changes === "" ? "" : " and changes");
}
