/**
 * Clients that load a process while a test checks something else: they validate and send events until they
 * are stopped.
 */
import type { Replica } from "./installation.ts";

export interface Load {
  /** The number of successful requests so far. */
  succeeded(): number;
  /** Stops the clients. Returns the number of successful requests, and the other statuses that clients got. */
  stop(): Promise<{ readonly succeeded: number; readonly others: readonly number[] }>;
}

const VALIDATES_TO_AN_EVENT = 4;

/** Clients pause after each answer, because they must not take all processors from the services under test. */
const PAUSE_MS = 8;

/** Starts one client for each key. */
export function startLoad(replica: Replica, keys: readonly string[]): Load {
  let isOver = false;
  let succeeded = 0;
  const others = new Set<number>();
  const clients = keys.map(async (apiKey) => {
    for (let sent = 0; !isOver; sent++) {
      const isEvent = sent % VALIDATES_TO_AN_EVENT === 0;
      const { status } = isEvent
        ? await replica.post("/v1/analytics/log", { api_key: apiKey, event_type: "inference" })
        : await replica.post("/v1/auth/validate", { api_key: apiKey });
      if (status === (isEvent ? 202 : 200)) {
        succeeded++;
      } else {
        others.add(status);
      }
      await Bun.sleep(PAUSE_MS);
    }
  });
  return {
    succeeded: () => succeeded,
    async stop() {
      isOver = true;
      await Promise.all(clients);
      return { succeeded, others: [...others] };
    },
  };
}
