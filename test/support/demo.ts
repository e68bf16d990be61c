/** Adds the customers of a demo to the database of a test. */
import { addHistory } from "../../src/cli/demo/add_demo.ts";
import { deriveKeys } from "../../src/cli/demo/keys.ts";
import { openSession } from "../../src/database/mod.ts";
import type { TestDatabase } from "./database.ts";
import { BRAND } from "./issue.ts";
import { openSecrets } from "./secrets.ts";

export async function addDemo({ address }: Pick<TestDatabase, "address">, now: Date): Promise<void> {
  const session = openSession(address, { statementTimeoutMs: 10_000 });
  const actor = { kind: "command", name: "olga", reason: "demo" } as const;
  await addHistory(session, { brand: BRAND, keys: deriveKeys(BRAND, openSecrets()), actor, now });
  await session.close();
}
