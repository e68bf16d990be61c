/** Tells what a data folder has: a cluster, nothing yet, or the traces of a cluster that is lost. */
import type { Refusal } from "../../base/refusal.ts";
import { discardCluster, readClusterMajor } from "./_cluster.ts";
import type { Layout } from "./_layout.ts";
import { damagedData, lostData, noData, unfinishedRestore } from "./_refusals.ts";
import { findTraces, isThere } from "./_traces.ts";
import type { EmbeddedOptions } from "./embedded_server.ts";
import { stopLeftovers } from "./leftovers.ts";

/**
 * Returns the major version of the cluster; undefined if there is none and one may be made. Refuses a folder that has
 * lost its database, or into which a restore was interrupted. A new restore first removes what the interrupted one left.
 */
export async function examineCluster(
  layout: Layout,
  { create, restores, clock, log }: EmbeddedOptions,
): Promise<string | Refusal | undefined> {
  const { cluster, dataDir } = layout;
  if (isThere(layout.restoring)) {
    if (!restores) return unfinishedRestore(layout);
    if (isThere(cluster)) {
      log.warn("An earlier restore into this folder has not ended: what it left is removed", { dataDir });
      await stopLeftovers({ cluster, clock, graceMs: 0 });
      discardCluster(cluster);
    }
  }
  const made = readClusterMajor(cluster);
  if (made !== undefined) return made;
  if (isThere(cluster)) return damagedData(layout, `${cluster} has no valid PG_VERSION`);
  if (!create) return withoutCluster(layout);
  return restores ? undefined : refuseLost(layout);
}

/** Refuses a folder without a cluster: it has lost its database, or it never had one. */
export function withoutCluster(layout: Layout): Refusal {
  return refuseLost(layout) ?? noData(layout);
}

/** Refuses a folder without a cluster that has lost its database, or into which a restore was interrupted. */
export function refuseLost(layout: Layout): Refusal | undefined {
  if (isThere(layout.restoring)) return unfinishedRestore(layout);
  const traces = findTraces(layout);
  return traces.length === 0 ? undefined : lostData(layout, traces);
}
