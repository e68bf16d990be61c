/** Changes of one key at the same moment: a key that was revoked while another change waited stays revoked. */
import { expect, test } from "bun:test";
import { findKey, resumeKey, revokeKey, rotateKey, suspendKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges, type LicenseChanges } from "../../../src/licensing/mod.ts";
import { overtake } from "../../support/in_transaction.ts";
import { ACTOR, BRAND, issue, NOW } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();
const BY = { actor: ACTOR, now: NOW };

const CHANGES: Readonly<Record<string, (changes: LicenseChanges, uuid: string) => Promise<unknown>>> = {
  "suspendKey()": (changes, uuid) => suspendKey(changes, uuid, BY),
  "resumeKey()": (changes, uuid) => resumeKey(changes, uuid, BY),
  "revokeKey()": (changes, uuid) => revokeKey(changes, { uuid }, BY),
  "rotateKey()": (changes, uuid) =>
    rotateKey(changes, { uuid, mode: "live", overlapMs: 0 }, { brand: BRAND, ...BY }),
};

for (const [name, change] of Object.entries(CHANGES)) {
  test(`${name} refuses a key that is revoked at the same moment, and it stays revoked`, async () => {
    const changes = createLicenseChanges(server.database);
    const uuid = uuidOf(await issue(server.database));
    if (name === "resumeKey()") await suspendKey(changes, uuid, BY);
    const outcome = await overtake(
      server,
      (sql) => sql`update keys set state = 'revoked', revoked_at = ${NOW} where id = ${uuid}::uuid`,
      () => change(changes, uuid),
    );
    expect(outcome).toMatchObject({ code: "CONFLICT" });
    expect(await findKey(server.database, { uuid }, { now: NOW })).toMatchObject({ state: "revoked" });
    const logged = await server.database.query(
      (sql) => sql`select action from audit where key_id = ${uuid}::uuid`,
    );
    expect(logged.map(({ action }) => action)).toEqual(
      name === "resumeKey()" ? ["key.issue", "key.suspend"] : ["key.issue"],
    );
  });
}
