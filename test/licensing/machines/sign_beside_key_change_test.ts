/** A license that is signed for a machine while an operator changes its key. */
import { expect, test } from "bun:test";
import { suspendKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import { createLicenseSigner, ensureSigningKeys } from "../../../src/licensing/signed_licenses/mod.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { createTestDatabase } from "../../support/database.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { ACTOR, BRAND, NOW, orThrow } from "../../support/issue.ts";
import { licenseWith, placeMachine } from "../../support/machines.ts";
import { openSecrets } from "../../support/secrets.ts";
import { until } from "../../support/until.ts";

test("LicenseSigner.sign() and suspendKey() do not deadlock when both wait for the license", async () => {
  await using opened = await createTestDatabase();
  const { address, database } = opened;
  const secrets = openSecrets();
  await ensureSigningKeys(database, { secrets, now: NOW });
  const offlineDays = { free: 0, research: 14, commercial: 14, enterprise: 14 };
  const signer = createLicenseSigner({ database, secrets, brand: BRAND, publicUrl: undefined, offlineDays });
  const { keyUuid, licenseUuid } = await licenseWith(database, { maxMachines: 1 });
  await placeMachine(database, { keyUuid, licenseUuid }, "one");

  const waiting = await inTransaction(address, async (sql) => {
    await sql`select from licenses where id = ${licenseUuid}::uuid for no key update`;
    const signed = signer.sign({ keyUuid, fingerprint: "machine-one", actor: ACTOR, now: new Date() });
    await until(async () => (await countWaiting(database)) === 1);
    const suspended = suspendKey(createLicenseChanges(database), keyUuid, { actor: ACTOR, now: NOW });
    await until(async () => (await countWaiting(database)) === 2);
    return { signed, suspended };
  });

  expect(orThrow(await waiting.signed).claims).toHaveProperty("machine_id");
  orThrow(await waiting.suspended);
});
