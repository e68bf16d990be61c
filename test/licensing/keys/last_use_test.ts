import { describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { createLastUse } from "../../../src/licensing/keys/last_use.ts";
import { createTestClock } from "../../support/clock.ts";
import { keyRecord } from "../../support/records.ts";
import { startTestService } from "../../support/service.ts";
import { useTestService } from "../../support/use.ts";

const service = useTestService();

async function lastUsedAt(licenseUuid: string): Promise<Date | null> {
  const [row] = await service.database.query<{ at: Date | null }>(
    (sql) => sql`select last_used_at as at from keys where license_id = ${licenseUuid}::uuid`,
  );
  return row?.at ?? null;
}

async function keyUuid(licenseUuid: string): Promise<string> {
  const [row] = await service.database.query<{ id: string }>(
    (sql) => sql`select id from keys where license_id = ${licenseUuid}::uuid`,
  );
  return row?.id ?? "";
}

describe("createLastUse()", () => {
  test("flush() writes the last use of marked keys, without a change for the caches", async () => {
    const { licenseUuid } = await service.issue();
    const lastUse = createLastUse(service.database, systemClock);
    lastUse.note(keyRecord({ uuid: await keyUuid(licenseUuid) }));
    expect(await lastUsedAt(licenseUuid)).toBeNull();
    await lastUse.flush();
    expect(Math.abs(Date.now() - Number(await lastUsedAt(licenseUuid)))).toBeLessThan(10_000);
    const [row] = await service.database.query<{ changes: number }>(
      (sql) => sql`
        select count(*) as changes from keys k join licenses l on l.id = k.license_id
         where l.id = ${licenseUuid}::uuid and k.changed_xid <> l.changed_xid`,
    );
    expect(row?.changes).toBe(0);
  });

  test("flush() leaves a later use that another process has written", async () => {
    const { licenseUuid } = await service.issue();
    const uuid = await keyUuid(licenseUuid);
    const flushAt = async (at: string) => {
      const lastUse = createLastUse(service.database, createTestClock(at, { stands: true }));
      lastUse.note(keyRecord({ uuid }));
      await lastUse.flush();
      return (await lastUsedAt(licenseUuid))?.toISOString();
    };
    const [earlier, later] = ["2026-11-20T12:00:00.000Z", "2026-11-20T12:00:40.000Z"] as const;
    expect(await flushAt(earlier)).toBe(earlier);
    expect(await flushAt(later)).toBe(later);
    expect(await flushAt(earlier)).toBe(later);
  });

  test("flush() keeps marks that could not be written for the next flush", async () => {
    const { licenseUuid } = await service.issue();
    let isAway = true;
    const database = {
      ...service.database,
      query: ((build, options) =>
        isAway
          ? Promise.reject(new Error("away"))
          : service.database.query(build, options)) as typeof service.database.query,
    };
    const lastUse = createLastUse(database, systemClock);
    lastUse.note(keyRecord({ uuid: await keyUuid(licenseUuid) }));
    await lastUse.flush();
    isAway = false;
    await lastUse.flush();
    expect(await lastUsedAt(licenseUuid)).not.toBeNull();
  });

  test("note() marks a record again after its mark was written, or gave way to a newer record of its key", async () => {
    const { licenseUuid } = await service.issue();
    const lastUse = createLastUse(service.database, systemClock);
    const uuid = await keyUuid(licenseUuid);
    const [older, newer] = [keyRecord({ uuid }), keyRecord({ uuid })];
    lastUse.note(older);
    lastUse.note(newer);
    expect([older.isUseNoted, newer.isUseNoted]).toEqual([false, true]);
    await lastUse.flush();
    expect(newer.isUseNoted).toBe(false);
  });

  test("note() does not mark a record for which there is no place", () => {
    const lastUse = createLastUse(service.database, systemClock);
    for (let at = 0; at < 100_000; at++) lastUse.note(keyRecord({ uuid: String(at) }));
    const more = keyRecord({ uuid: "more" });
    lastUse.note(more);
    expect(more.isUseNoted).toBe(false);
  });

  test("a service marks the key of an accepted request, and writes the mark when it stops", async () => {
    const other = await startTestService({ on: service.testDatabase });
    const used = await service.issue();
    const refused = await service.issue({ monthlyLimit: 5 });
    await service.database.query(
      (sql) => sql`update keys set state = 'suspended' where license_id = ${refused.licenseUuid}::uuid`,
    );
    await other.post("/v1/auth/refresh", { api_key: used.apiKey });
    await other.post("/v1/auth/refresh", { api_key: refused.apiKey });
    await other.close();
    expect(await lastUsedAt(used.licenseUuid)).not.toBeNull();
    expect(await lastUsedAt(refused.licenseUuid)).toBeNull();
  });
});
