import type { Database } from "../../../src/database/mod.ts";

const PART = 1_000;

/**
 * Makes licenses with five active machines each, every one under an account of its own, or all under one. A statement
 * makes as many as it can well before its deadline.
 */
export async function fillMachines(
  database: Database,
  { licenses, account }: { readonly licenses: number; readonly account?: string },
): Promise<void> {
  for (let made = 0; made < licenses; made += PART) {
    await database.query(
      (sql) => sql`
        with n as (select n, coalesce(${account ?? null}::uuid, gen_random_uuid()) as account, gen_random_uuid() as license
                     from generate_series(${made + 1}::integer, ${Math.min(made + PART, licenses)}::integer) as n),
        accounts as (
          insert into accounts (id, email, name, organization, created_at)
          select account, n || '@example.org', 'Ada', '', now() from n where ${account === undefined}::boolean
        ),
        licenses as (
          insert into licenses (id, account_id, tier, expires_at, created_at, max_machines, seat_minutes)
          select license, account, 'research', '9999-12-31T23:59:59Z', now(), 10, 30 from n
        )
        insert into machines (id, account_id, license_id, fingerprint, activated_at, last_seen_at, active_until)
        select gen_random_uuid(), account, license, sha256((license || each::text)::bytea), now(), now(), now() + interval '1 hour'
          from n, generate_series(1, 5) as each`,
    );
  }
  await database.query((sql) => sql`analyze`);
}
