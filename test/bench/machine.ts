/** Describes the machine on which a figure was measured; without this the figure means nothing. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, hostname, release, totalmem } from "node:os";
import { join } from "node:path";

export interface Machine {
  readonly date: string;
  readonly commit: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryMb: number;
  readonly kernel: string;
  readonly bun: string;
  readonly host: string;
}

export function describeMachine(now: Date): Machine {
  return {
    date: now.toISOString().replace(/\.\d+Z$/, "Z"),
    commit: currentCommit(),
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryMb: Math.round(totalmem() / 1e6),
    kernel: `${systemName()}, Linux ${release()}`,
    bun: Bun.version,
    host: hostname(),
  };
}

/** Returns the commit, with a mark if files differ from it; `unknown` outside a clone. */
function currentCommit(): string {
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", join(import.meta.dir, "../.."), ...args], {
      encoding: "utf8",
      stdio: "pipe",
    }).trim();
  try {
    const isChanged = git("status", "--porcelain", "--untracked-files=no") !== "";
    return `${git("rev-parse", "--short=12", "HEAD")}${isChanged ? " with changes" : ""}`;
  } catch {
    return "unknown";
  }
}

function systemName(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1] ?? "Linux";
  } catch {
    return "Linux";
  }
}

export function renderMachine(machine: Omit<Machine, "host">): string {
  const { cpu, cores, memoryMb, kernel } = machine;
  return `${cores} cores of ${cpu}, ${(memoryMb / 1_000).toFixed(0)} GB, ${kernel}, Bun ${machine.bun}, commit ${machine.commit}, ${machine.date}`;
}
