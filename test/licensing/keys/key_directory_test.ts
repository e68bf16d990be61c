import { describe, expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { silentLog } from "../../../src/base/log.ts";
import { DatabaseUnavailable } from "../../../src/database/mod.ts";
import { parseKeyHash } from "../../../src/licensing/keys/key_hash.ts";
import { createKeyDirectory, hashApiKey } from "../../../src/licensing/keys/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { issue } from "../../support/issue.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();

/** Looks a key up while its table is locked for this time by the test's clock. Returns the outcome. */
async function lookUpFor(ms: number) {
  const { database, address } = server;
  const clock = createTestClock();
  const directory = createKeyDirectory({
    database,
    clock,
    log: silentLog,
    processUuid: newUuid(),
    maxKeys: 1_000,
  });
  const key = await issue(database);
  const hash = parseKeyHash(hashApiKey(key.apiKey));
  let lookUp: Promise<unknown> | undefined;
  await inTransaction(address, async (sql) => {
    await sql`lock table keys in access exclusive mode`;
    lookUp = directory.lookUp(hash, "::1").catch((error: unknown) => error);
    await until(() => database.stats().running > 0);
    // The statement is sent. Only the server knows that it waits for the lock, so the test pauses.
    await Bun.sleep(50);
    clock.advance(ms);
  });
  return { outcome: await lookUp, cached: directory.get(hash), key };
}

describe("createKeyDirectory()", () => {
  test("lookUp() returns a key that it found within a second", async () => {
    const { outcome, key } = await lookUpFor(500);
    expect(outcome).toMatchObject({ licenseUuid: key.licenseUuid });
  });

  test("lookUp() fails when the answer is a second old: a revocation may be older than the answer", async () => {
    const { outcome, cached, key } = await lookUpFor(950);
    expect(outcome).toBeInstanceOf(DatabaseUnavailable);
    // The pulse reads changes since then, so the next request may use the cached key.
    expect(cached).toMatchObject({ licenseUuid: key.licenseUuid });
  });
});
