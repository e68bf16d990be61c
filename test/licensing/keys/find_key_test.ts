import { expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { findKey } from "../../../src/licensing/keys/mod.ts";
import { issue, NOW } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();

test("findKey() returns the key's own earlier expiry, and only the use of this month", async () => {
  const key = await issue(server.database, { monthlyLimit: 7 });
  await server.database.query(
    (sql) => sql`update keys set own_expires_at = '2026-11-21T00:00:00Z' where id = ${uuidOf(key)}::uuid`,
  );
  await server.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used)
      values (${key.licenseUuid}::uuid, '2026-11-01', 3), (${key.licenseUuid}::uuid, '2026-10-01', 5)`,
  );
  const find = (now: string) => findKey(server.database, { uuid: uuidOf(key) }, { now: new Date(now) });
  const expiresAt = new Date("2026-11-21T00:00:00Z");
  expect(await find("2026-11-20T23:59:59Z")).toMatchObject({
    state: "active",
    used: 3,
    monthlyLimit: 7,
    expiresAt,
  });
  expect(await find("2026-11-21T00:00:00Z")).toMatchObject({ state: "expired" });
  expect(await find("2026-12-01T00:00:00Z")).toMatchObject({ used: 0 });
  expect(await findKey(server.database, { uuid: newUuid() }, { now: NOW })).toBeUndefined();
});

test("keys and licenses cannot be deleted by any statement", async () => {
  for (const statement of ["delete from keys", "delete from licenses", "truncate keys, licenses cascade"]) {
    const deleted = server.database.query((sql) => sql.unsafe(statement));
    await expect(deleted).rejects.toThrow(/never deleted: revoke the key instead/);
  }
});
