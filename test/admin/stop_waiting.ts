import type { DatabaseSession } from "../../src/database/mod.ts";
import { until } from "../support/until.ts";

/** Stops the statement that waits for a lock, as the server does by itself at its limit. */
export async function stopWaiting({ sql }: DatabaseSession): Promise<void> {
  const stopped = () => sql`
    select pg_cancel_backend(pid) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'`;
  await until(async () => (await stopped()).length === 1);
}
