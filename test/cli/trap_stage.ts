/**
 * For tests in which an ordinary user plants traps in a data folder and root runs commands there: the folder, the
 * commands, and what must hold after each of them.
 */
import { expect } from "bun:test";
import { chownSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRootStage, type Ended, type RootStage, USER } from "./as_root.ts";

/** A command that falls into a trap waits forever. The limit is far above the time that a busy machine needs. */
export const LIMIT_MS = 5_000;
export const COPY_LIMIT_MS = 60_000;

const model = ["--name", "m", "--version", "1", "--type", "SvcLDA", "--paradigm", "p300"].concat([
  "--n-features",
  "8",
  "--n-classes",
  "2",
  "--requires-license",
  "free",
  "--file",
  "weights",
]);
export const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
export const commands = {
  list: ["keys", "list"],
  backup: ["backup", "saved", "--with-secret", "--force"],
  doctor: ["doctor"],
  check: ["config", "check"],
  add: ["models", "add", ...model],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export interface TrapStage extends RootStage {
  /** The time of a command without a trap, measured because the machine may be busy. */
  readonly usualMs: number;
  /** Restores the folder as it was before any trap. */
  mend(): void;
  /** The command changed and showed nothing of root's, did not wait, and told its outcome. */
  expectHarmless(ended: Ended): void;
  /** The command worked, or gave the reason in one line, possibly after lines of PostgreSQL. */
  expectOutcomeTold(ended: Ended): void;
  /** No file of root's has changed. */
  expectSameVictim(): void;
}

/** Makes a data folder of the user. */
export async function createTrapStage(): Promise<TrapStage> {
  const stage = createRootStage();
  const made = await stage.asRoot(["migrate"]);
  if (made.status !== 0) throw new Error(made.err);
  stage.asUser("cp -a . ../whole");
  writeFileSync(join(stage.folder, "weights"), "weights");
  const usualMs = (await stage.asRoot(commands.list)).ms;
  const before = stage.lookAtVictim();
  const expectSameVictim = () => expect(stage.lookAtVictim()).toEqual(before);

  function expectOutcomeTold({ status, out, err }: Ended): void {
    if (status !== 0)
      expect(err).toMatch(/^(\S+Z (?:error|warn ) PostgreSQL: [^\n]+\n)*(claviger: [^\n]{20,}\n)+$/);
    expect(out + err).not.toContain("    at ");
  }

  return {
    ...stage,
    usualMs,
    mend() {
      rmSync(stage.dataDir, { recursive: true, force: true });
      mkdirSync(stage.dataDir, { mode: 0o700 });
      chownSync(stage.dataDir, USER.uid, USER.gid);
      stage.asUser("cp -a ../whole/postgres ../whole/lock . && cp -al ../whole/postgres-* .");
    },
    expectHarmless(ended) {
      expectSameVictim();
      expect(ended.ms - usualMs).toBeLessThan(LIMIT_MS);
      expectOutcomeTold(ended);
      stage.expectOwnedByUser();
    },
    expectOutcomeTold,
    expectSameVictim,
  };
}
