/** Chooses the core for each process of the benchmark, if the machine allows it. */
import { readFileSync } from "node:fs";

/** A list of cores for `taskset`, such as `0` or `0,1`; undefined for any core. */
export type CoreList = string | undefined;

export interface Cores {
  /** For the service, or the server that it is compared with. */
  readonly service: CoreList;
  /** For the load, and for services that are not being measured. */
  readonly load: CoreList;
  /** For measurements in which service, PostgreSQL and load share two cores. */
  readonly both: CoreList;
  /** How the output describes the choice. */
  readonly description: string;
}

export function chooseCores(): Cores {
  const allowed = parseCores(
    /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1],
  );
  const [first, second] = allowed;
  const none = (why: string) => ({
    service: undefined,
    load: undefined,
    both: undefined,
    description: `NOT PINNED TO CORES: ${why}, so service and load may take each other's time`,
  });
  if (Bun.which("taskset") === null) return none("there is no taskset");
  if (first === undefined || second === undefined) return none("there is one core");
  return {
    service: `${first}`,
    load: `${second}`,
    both: `${first},${second}`,
    description: `service on core ${first}, load on core ${second} (taskset); events share the two with PostgreSQL`,
  };
}

/** Returns the numbers of a list such as `0-3,8`. */
export function parseCores(list = ""): number[] {
  return list
    .split(",")
    .filter((part) => part !== "")
    .flatMap((part) => {
      const [from = Number.NaN, to = from] = part.split("-").map(Number);
      return Array.from({ length: to - from + 1 }, (_, index) => from + index);
    });
}

/** Returns the prefix that makes a command run on these cores. */
export function onCores(cores: CoreList): string[] {
  return cores === undefined ? [] : ["taskset", "--cpu-list", cores];
}

/** Returns the prefix that makes a command run before all other processes of its core; nothing if this user may not. */
export function first(): string[] {
  const prefix = ["chrt", "--fifo", "10"];
  const isAllowed = Bun.which("chrt") !== null && Bun.spawnSync([...prefix, "true"]).success;
  return isAllowed ? prefix : [];
}

/** Moves running processes with all their threads. Processes that have ended meanwhile are ignored. */
export async function moveTo(cores: CoreList, pids: readonly number[]): Promise<void> {
  if (cores === undefined) return;
  await Promise.all(
    pids.map(
      (pid) =>
        Bun.spawn(["taskset", "--all-tasks", "--pid", "--cpu-list", cores, `${pid}`], {
          stdout: "ignore",
          stderr: "ignore",
        }).exited,
    ),
  );
}
