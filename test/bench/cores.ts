/** Which core a process of the benchmark runs on, where the machine lets one choose. */
import { readFileSync } from "node:fs";

/** A list of cores as `taskset` takes it, such as `0` or `0,1`; undefined for any. */
export type CoreList = string | undefined;

export interface Cores {
  /** For the service, or what it is measured against. */
  readonly service: CoreList;
  /** For the load, and for services that are not being measured. */
  readonly load: CoreList;
  /** For measurements in which service, PostgreSQL and load share two cores. */
  readonly both: CoreList;
  /** How the output tells of it. */
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
    description: `NOTHING IS PINNED: ${why}, so service and load may take each other's time`,
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

/** The numbers of a list such as `0-3,8`. */
export function parseCores(list = ""): number[] {
  return list
    .split(",")
    .filter((part) => part !== "")
    .flatMap((part) => {
      const [from = Number.NaN, to = from] = part.split("-").map(Number);
      return Array.from({ length: to - from + 1 }, (_, index) => from + index);
    });
}

/** What stands in front of a command so that it runs on these cores. */
export function onCores(cores: CoreList): string[] {
  return cores === undefined ? [] : ["taskset", "--cpu-list", cores];
}

/** Moves running processes with all their threads; what has ended meanwhile is no matter. */
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
