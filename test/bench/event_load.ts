/** The load of events, and the checks of a service after such a load. */
import type { Finding } from "../../src/installation/doctor/mod.ts";
import type { LoadJob, LoadResult } from "./load_job.ts";
import type { Bench } from "./row_group.ts";
import type { Server } from "./stage.ts";

export const EVENT_KEYS = 20_000;

export interface EventLoad {
  /** Sends events for one round. */
  send(
    server: Server,
    connections: number,
    options?: Partial<Pick<LoadJob, "warmUpMs">>,
  ): Promise<LoadResult>;
  /** Stops the service; throws if an acknowledged event was not counted, or commits do not reach the disk. */
  finish(server: Server, dataDir: string): Promise<void>;
}

/** Starts a load that shares two cores with the service and PostgreSQL. */
export function startEventLoad({ stage, cores, scale }: Bench): EventLoad {
  const load = stage.load({ service: cores.both, load: cores.both });
  const acknowledged = new Map<Server, number>();

  /** Asks doctor whether the running database writes commits to the disk; throws if not. */
  async function demandDurability(dataDir: string) {
    const out = await stage.command(["doctor", "--json", "--data-dir", dataDir]);
    const { findings } = JSON.parse(out) as { readonly findings: readonly Finding[] };
    const durability = findings.find(({ name }) => name === "durability");
    if (durability?.state !== "ok") throw new Error("The database does not put commits on the disk");
  }

  /** Throws unless exactly the acknowledged events were counted. */
  async function demandCounts(dataDir: string, expected: number) {
    const month = new Date().toISOString().slice(0, 7);
    const out = await stage.command(["usage", "export", "--month", month, "--json", "--data-dir", dataDir]);
    const used = (JSON.parse(out) as { used: number }[]).reduce((sum, license) => sum + license.used, 0);
    if (used !== expected) throw new Error(`${expected} events were acknowledged, ${used} are counted`);
  }

  return {
    async send(server, connections, { warmUpMs = scale.warmUpMs } = {}) {
      const result = await load.run(server, {
        request: "event",
        keys: EVENT_KEYS,
        connections,
        warmUpMs,
        span: { kind: "time", ms: scale.roundMs },
      });
      acknowledged.set(server, (acknowledged.get(server) ?? 0) + result.answered);
      return result;
    },
    async finish(server, dataDir) {
      await demandDurability(dataDir);
      await demandCounts(dataDir, acknowledged.get(server) ?? 0);
      await server.stop();
    },
  };
}
