import type { Clock } from "../../src/base/clock.ts";
import type { Log } from "../../src/base/log.ts";
import type { DatabaseAddress } from "../../src/database/mod.ts";
import { createUpkeep, type Upkeep } from "../../src/database/upkeep/mod.ts";
import { createUsageUpkeep, type UsageUpkeep } from "../../src/usage/mod.ts";

export interface UsageUpkeepOptions {
  readonly address: DatabaseAddress;
  readonly clock: Clock;
  readonly log: Log;
  readonly keptMonths?: number;
}

/** The tasks that an hour of upkeep runs, in order. */
export const HOURLY_TASKS = ["partitions", "late_events", "retention"];

/** Creates upkeep that has only the named tasks of usage. `stats` has the counts of both. */
export function createTestUpkeep(
  { keptMonths = 0, ...options }: UsageUpkeepOptions,
  names: readonly string[],
): Omit<Upkeep, "stats"> & { stats(): ReturnType<Upkeep["stats"]> & ReturnType<UsageUpkeep["stats"]> } {
  const usage = createUsageUpkeep({ keptMonths });
  const tasks = usage.tasks.filter(({ name }) => names.includes(name));
  const upkeep = createUpkeep({ ...options, tasks });
  return { ...upkeep, stats: () => ({ ...upkeep.stats(), ...usage.stats() }) };
}
