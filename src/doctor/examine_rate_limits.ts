import { listProcesses } from "../processes/mod.ts";
import type { ServerContext } from "./examine_server.ts";
import { type Check, ok, warn } from "./finding.ts";

/** Examines how the serving processes count the requests of a key: each for itself, or together in the database. */
export const rateLimitsCheck: Check<Pick<ServerContext, "database">> = {
  name: "rate limits",
  async examine({ database }) {
    const serving = (await listProcesses(database)).filter(({ isLost }) => !isLost);
    const alone = serving.filter(({ rateLimits }) => rateLimits === "process").length;
    if (serving.length <= 1) return ok("no second process serves");
    if (alone === 0) return ok(`${serving.length} processes count the requests of each key together`);
    if (alone < serving.length) {
      const message = `${alone} of ${serving.length} processes count the requests of a key alone, the others together`;
      return warn(message, "give all processes the same CLAVIGER_RATE_LIMITS");
    }
    const rule = "the balancer must send each key to one of them (`claviger guide replicas`)";
    return ok(`${alone} processes count alone: ${rule}`);
  },
};
