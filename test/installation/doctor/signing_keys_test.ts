/** The finding of `doctor` about the keys that sign licenses. */
import { beforeAll, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { openSession } from "../../../src/database/mod.ts";
import { proveSecret } from "../../../src/installation/mod.ts";
import {
  ensureSigningKeys,
  listSigningKeys,
  retireSigningKey,
} from "../../../src/licensing/signed_licenses/mod.ts";
import { ACTOR } from "../../support/issue.ts";
import { openSecrets, TEST_SECRET } from "../../support/secrets.ts";
import { useTestDatabase } from "../../support/use.ts";
import { examineAll } from "./doctor_kit.ts";

const secrets = openSecrets();
const now = systemClock.now();
const target = useTestDatabase();
beforeAll(async () => {
  await proveSecret(target.database, secrets, now);
});

const examineKeys = async (secret = TEST_SECRET) =>
  (await examineAll(target, { env: { CLAVIGER_SECRET: secret } }))("signing keys");

test("claviger doctor opens every signing key that is not retired, and compares it with its public key", async () => {
  expect(await examineKeys()).toMatchObject({ state: "warn", remedy: "start the service once" });
  const { database } = target;
  await ensureSigningKeys(database, { secrets, now });
  expect(await examineKeys()).toMatchObject({ state: "ok", message: expect.stringMatching(/^2,/) });
  expect(await examineKeys(TEST_SECRET.replaceAll("0", "1"))).toMatchObject({
    state: "fail",
    message: expect.stringContaining("2 of 2 cannot be opened"),
  });

  const [signing, successor] = await listSigningKeys(database);
  const exchange = (column: "sealed" | "public_key", value = "") =>
    database.query(
      (sql) => sql`update signing_keys set ${sql(column)} = ${value} where kid = ${successor?.kid ?? ""}`,
    );
  await exchange("sealed", signing?.sealed);
  const broken = {
    state: "fail",
    message: `1 of 2 cannot be opened, or do not fit their public keys: ${successor?.kid}`,
  };
  expect(await examineKeys()).toMatchObject(broken);
  await exchange("sealed", successor?.sealed);
  await exchange("public_key", signing?.publicKey);
  expect(await examineKeys()).toMatchObject(broken);

  // A retired key signs nothing any more.
  const session = openSession(target.address, { statementTimeoutMs: 20_000 });
  await retireSigningKey(session, successor?.kid ?? "", { secrets, actor: ACTOR, now, isLeaked: true });
  await session.close();
  expect(await examineKeys()).toMatchObject({ state: "ok" });
});
