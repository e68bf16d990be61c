/** An upgrade keeps what an earlier version stored: it never noted why a place had ended. */
import { expect, test } from "bun:test";
import { migrate, migrations } from "../../../src/database/mod.ts";
import { listMachines, MACHINE_STATES } from "../../../src/licensing/machines/mod.ts";
import { createTestDatabase } from "../../support/database.ts";

test("machines of an earlier version stay ended, and those whose place a signed license holds are offline", async () => {
  await using server = await createTestDatabase({ empty: true });
  const { database } = server;
  await migrate(
    server.address,
    migrations.filter(({ number }) => number <= 37),
  );
  await database.query(
    (sql) => sql`
      with account as (
        insert into accounts (id, email, name, organization, created_at)
        values (gen_random_uuid(), 'ada@example.org', 'Ada', '', now()) returning id
      ),
      license as (
        insert into licenses (id, account_id, tier, expires_at, created_at, max_machines)
        select gen_random_uuid(), id, 'research', now() + interval '1 year', now(), 5 from account returning *
      )
      insert into machines (id, license_id, account_id, fingerprint, name, activated_at, last_seen_at, active_until, signed_until, ended_at)
      select gen_random_uuid(), license.id, account_id, sha256(name::bytea), name, now(), now(),
             active_until::timestamptz, signed_until::timestamptz, ended_at::timestamptz
        from license,
             (values ('active', 'infinity', '-infinity', null), ('offline', '-infinity', 'tomorrow', null),
                     ('ended', '-infinity', '-infinity', 'now'))
               as m (name, active_until, signed_until, ended_at)`,
  );

  await migrate(server.address, migrations);

  for (const state of MACHINE_STATES) {
    const machines = await listMachines(database, { filter: { state } });
    expect(machines.map(({ name, state }) => [name, state])).toEqual(
      state === "released" ? [] : [[state, state]],
    );
  }
});
