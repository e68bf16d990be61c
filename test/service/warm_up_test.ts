import { expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import type { Database } from "../../src/database/mod.ts";
import { warmUp } from "../../src/service/warm_up.ts";
import { useDatabase } from "../support/use.ts";

const database = useDatabase();

/** Runs the task, and returns how many bytes of files it read. */
async function readAhead(isStopping: () => boolean): Promise<number> {
  let bytes = 0;
  const watched: Database = {
    ...database,
    async query(build, options) {
      const rows = await database.query(build, options);
      for (const row of rows as { length?: number | null }[]) bytes += row.length ?? 0;
      return rows as never;
    },
  };
  await warmUp.run({ database: watched, clock: systemClock, log: silentLog, isStopping });
  return bytes;
}

test("warmUp reads every byte of the tables and indexes, in parts, without the events, until the service stops", async () => {
  await database.query(
    (sql) => sql`
      insert into accounts (id, email, name, organization, created_at)
      select gen_random_uuid(), n || '@example.org', repeat('n', 200), repeat('o', 200), now()
        from generate_series(1, 10000) n`,
  );
  await database.query((sql) => sql`checkpoint`);
  const [{ bytes } = { bytes: Number.NaN }] = await database.query<{ bytes: number }>(
    (sql) => sql`
      select sum(pg_relation_size(oid))::bigint as bytes from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'i') and not relispartition`,
  );
  expect(bytes).toBeGreaterThan(6_000_000);
  expect(await readAhead(() => false)).toBe(bytes);
  expect(await readAhead(() => true)).toBe(0);
});
