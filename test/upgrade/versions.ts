/** The released versions, and how each is built. */
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CHECKOUT } from "../../src/build/parts.ts";

export interface Version {
  readonly version: string;
  readonly commit: string;
  /** The commands that came later, of those that fill an installation. */
  readonly lacks: readonly string[];
}

/**
 * An installation of each of these must work with this program. Add each release here, at the latest with the next
 * one.
 */
export const VERSIONS: readonly Version[] = [
  {
    version: "0.1.0",
    commit: "b81f0f6f",
    lacks: [
      "keys issue --external-id",
      "models retire",
      "operators login",
      "tokens issue",
      "licenses export",
    ],
  },
  { version: "0.2.0", commit: "b6d83d72", lacks: [] },
  { version: "0.3.0", commit: "d92cf242", lacks: [] },
  { version: "0.4.0", commit: "d07aa0aa", lacks: [] },
];

/** Returns the executable of a version. It is built once, in a clone, as the version's Makefile says. */
export function buildVersion({ version, commit }: Version): string {
  const folder = join(CHECKOUT, ".cache/versions");
  const executable = join(folder, `claviger-${version}-${commit}`);
  if (existsSync(executable)) return executable;
  const clone = join(folder, version);
  rmSync(clone, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const command of [
    ["git", "clone", "--quiet", "--shared", "--no-checkout", CHECKOUT, clone],
    ["git", "-C", clone, "checkout", "--quiet", commit],
    ["make", "-C", clone, "build"],
  ]) {
    const { exitCode, stderr } = Bun.spawnSync(command, { stdout: "ignore", stderr: "pipe" });
    if (exitCode !== 0) throw new Error(`Cannot build ${version}: ${command.join(" ")}: ${stderr}`);
  }
  copyFileSync(join(clone, "dist/claviger"), `${executable}.new`);
  renameSync(`${executable}.new`, executable);
  rmSync(clone, { recursive: true });
  return executable;
}
