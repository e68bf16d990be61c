/** Clients of a process while something else is tested: they validate and send events until they are told. */
import type { Replica } from "./installation.ts";

export interface Load {
  /** How many requests were answered with success up to now. */
  succeeded(): number;
  /** Ends it: how many requests were answered with success, and the statuses of what else was answered. */
  stop(): Promise<{ readonly succeeded: number; readonly others: readonly number[] }>;
}

const VALIDATES_TO_AN_EVENT = 4;

/** Each client has a key; a refused one waits a little. */
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
        await Bun.sleep(20);
      }
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
