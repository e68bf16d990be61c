/** A backup that is taken while events arrive contains one snapshot of the database, with no half-written event. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { until } from "../../support/until.ts";
import { useTestDatabase, useTestService } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { backUp, restore } from "./backup_kit.ts";

const CLIENTS = 16;
const OLD_EVENTS = 40_000;

// The tests create, fill and read several databases, on a machine that may be busy.
const folder = useFolder();
const service = useTestService();
const target = useTestDatabase({ empty: true });

test("writeBackup() saves every event acknowledged before it, and usage that equals the saved events", async () => {
  const keys = await Promise.all(
    Array.from({ length: CLIENTS }, () => service.issue({ tier: "commercial" })),
  );
  // Enough rows that the backup takes a while. Events of type error do not count as usage.
  await service.database.query(
    (sql) => sql`
      insert into events (id, received_at, key_id, license_id, event_type, success, error_message)
      select gen_random_uuid(), '2026-11-01T00:00:00Z'::timestamptz + number * interval '1 second',
             gen_random_uuid(), gen_random_uuid(), 'error', false, repeat('x', 100)
        from generate_series(1, ${OLD_EVENTS}::integer) as number`,
  );
  const acknowledged: string[] = [];
  let isOver = false;
  const clients = keys.map(async ({ apiKey }) => {
    while (!isOver) {
      const event = { api_key: apiKey, event_type: "inference" };
      const { status, body } = await service.post("/v1/analytics/log", event);
      if (status === 202) acknowledged.push(body.event_id);
    }
  });
  let before: string[];
  try {
    await until(() => acknowledged.length > 100);
    before = [...acknowledged];
    await backUp(service.address, join(folder, "backup"));
  } finally {
    isOver = true;
  }
  await Promise.all(clients);

  await restore(target.address, join(folder, "backup"));
  const rows = await target.database.query<{ id: string }>(
    (sql) =>
      sql`select 'evt_' || replace(id::text, '-', '') as id from events where event_type = 'inference'`,
  );
  const restored = new Set(rows.map(({ id }) => id));
  expect(before.filter((id) => !restored.has(id))).toEqual([]);
  // Events that were acknowledged during the backup are not in it.
  expect(restored.size).toBeLessThan(acknowledged.length);

  const wrong = await target.database.query(
    (sql) => sql`
      select license_id, used, stored, days
        from (
          select license_id, used, (select sum(day) from unnest(by_day) as day) as days from usage
        ) as counted
        full join (
          select license_id, count(*) as stored from events where event_type = 'inference' group by license_id
        ) as events using (license_id)
       where used is distinct from stored or days is distinct from stored`,
  );
  expect(wrong.map((row) => ({ ...row }))).toEqual([]);
});
