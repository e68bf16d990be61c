/** Fills a database with customers whose values are random, and the same in each run: random numbers are hashes. */
import type { Database } from "../../../src/database/mod.ts";

export interface RandomCustomers {
  readonly licenses: number;
  readonly now: Date;
}

/** Makes licenses with a fifth as many accounts, one to three keys each, and the use of this month and the last one. */
export async function makeRandomCustomers(
  database: Database,
  { licenses, now }: RandomCustomers,
): Promise<void> {
  const at = now.toISOString();
  const run = (text: string) => database.query((sql) => sql.unsafe(text));
  const draw = (of: string, purpose: number) =>
    `((hashtextextended((${of})::text, ${purpose}) & 2147483647) / 2147483648.0)`;
  const pick = (words: string, share: string) => `('{${words}}'::text[])[1 + floor(${share} * 4)::integer]`;
  const uuid = (kind: string, of: string) => `md5('${kind}' || ${of})::uuid`;
  await run(`
    insert into accounts (id, email, name, organization, created_at)
    select ${uuid("account", "n")}, 'customer' || n || '@example.org', 'Customer ' || n, 'Clinic ' || n, '${at}'
      from generate_series(0, ${Math.ceil(licenses / 5)} - 1) as n`);
  await run(`
    insert into licenses (id, account_id, tier, monthly_limit, expires_at, created_at)
    select ${uuid("license", "n")}, ${uuid("account", `n % ${Math.ceil(licenses / 5)}`)},
           ${pick("free,research,commercial,enterprise", draw("n", 1))},
           case when ${draw("n", 2)} < 0.7 then floor(${draw("n", 3)} * 20)::bigint end,
           '${at}'::timestamptz + interval '1 day' * floor(${draw("n", 4)} * 400 - 100), '${at}'
      from generate_series(1, ${licenses}) as n`);
  await run(`
    insert into keys (id, license_id, hash, hint, mode, state, own_expires_at, created_at, revoked_at, last_used_at)
    select ${uuid("key", "n")}, ${uuid("license", `(1 + n % ${licenses})`)}, sha256(n::text::bytea), 'svc_…',
           ${pick("live,live,live,test", draw("n", 5))}, state,
           case when ${draw("n", 6)} < 0.1 then '${at}'::timestamptz + interval '1 day' * floor(${draw("n", 7)} * 10 - 5) end,
           created_at, case when state = 'revoked' then created_at end,
           case when ${draw("n", 8)} < 0.6
             then created_at + ('${at}'::timestamptz - created_at) * pow(${draw("n", 9)}, 0.3) end
      from generate_series(1, ${licenses * 2}) as n,
           lateral (select ${pick("active,active,suspended,revoked", draw("n", 10))} as state,
                           '${at}'::timestamptz - interval '1 day' * floor(500 * ${draw("n", 11)}) as created_at) as drawn`);
  await run(`
    insert into usage (license_id, month, used, by_day)
    select ${uuid("license", "n")}, month, coalesce((select sum(u) from unnest(days) as u), 0) + imported, days
      from generate_series(1, ${licenses}) as n,
           generate_series(0, 2) as back,
           lateral (select (date_trunc('month', '${at}'::timestamptz at time zone 'UTC') - interval '1 month' * back)::date
                             as month) as months,
           lateral (select array(
                      select case when d <= extract(day from least('${at}'::timestamptz at time zone 'UTC',
                                    month + interval '1 month' - interval '1 day'))
                        then floor(3 * pow(${draw("n * 100 + d", 12)}, 4)) else 0 end::bigint
                        from generate_series(1, 31) as d) as days,
                    case when ${draw("n", 13)} < 0.1 then 7 else 0 end as imported) as drawn
     where ${draw("n * 10 + back", 14)} < 0.5`);
}
