/** Adds the customers of a demo to the database of a test. */
import { addDemoActivity, addDemoCustomers } from "../../src/cli/demo/history.ts";
import { openSession } from "../../src/database/mod.ts";
import type { TestDatabase } from "./database.ts";
import { BRAND } from "./issue.ts";

export async function addDemo({ address, database }: TestDatabase, now: Date): Promise<void> {
  const session = openSession(address, { statementTimeoutMs: 10_000 });
  const actor = { kind: "command", name: "olga", reason: "demo" } as const;
  await addDemoCustomers(database, session, { brand: BRAND, actor, now });
  await addDemoActivity(database, now);
  await session.close();
}
