/** Stored figures: each equals a count made with SQL at the same moment. */
import { describe, expect, test } from "bun:test";
import { createLog } from "../../../src/base/log.ts";
import { monthlyLimitOf, TIERS } from "../../../src/licensing/mod.ts";
import {
  computeFigures,
  createFigureComputer,
  type FigureComputer,
  type Figures,
  readFigures,
} from "../../../src/usage/figures/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { createTestDatabase } from "../../support/database.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { until } from "../../support/until.ts";
import { useForEach } from "../../support/use.ts";
import { makeRandomCustomers } from "./random_customers.ts";

/** The sessions of this database that wait for a lock: other tests use other databases of the same server. */
const WAITING = "from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

/** A clock that stands still, so that figures and counts are for the same moment. */
const NOW = new Date("2026-11-20T12:00:00Z");
const stopped = { now: () => NOW, nowMs: () => NOW.getTime(), monotonicMs: () => 0 };

const server = useForEach(createTestDatabase);

const count = async <Row extends object>(text: string): Promise<Row[]> => [
  ...(await server.database.query<Row>((sql) =>
    sql.unsafe(text.replaceAll("$now", `'${NOW.toISOString()}'`)),
  )),
];

async function readNow(): Promise<Figures> {
  await computeFigures(server.database, { clock: stopped });
  const figures = await readFigures(server.database);
  if (figures === undefined) throw new Error("There are no figures");
  return figures;
}

const LIMIT = `coalesce(l.monthly_limit, case l.tier ${TIERS.map((tier) => `when '${tier}' then ${monthlyLimitOf(tier)}`).join(" ")} end)`;
const USED = "coalesce((select used from usage u where u.license_id = l.id and u.month = '2026-11-01'), 0)";
const WEEK = `(select coalesce(sum(units), 0) from usage u, unnest(by_day) with ordinality as d (units, day)
                where u.license_id = l.id and u.month = '2026-11-01' and day between 13 and 19)`;
const PERCENT = `least(case ${LIMIT} when 0 then 100 else trunc(${USED} * 100 / ${LIMIT}) end, 999)::integer`;

const OPEN_KEYS =
  "(select count(*) from keys k where k.license_id = l.id and k.state in ('active', 'suspended'))";

async function compareAll(figures: Figures) {
  const states = await count<object>(
    `select tier, case when k.state = 'active' and least(l.expires_at, k.own_expires_at) <= $now then 'expired'
              else k.state end as state, count(*)
       from keys k join licenses l on l.id = k.license_id group by 1, 2
      order by tier collate "C", 2`,
  );
  expect(figures.keys.rows).toEqual(states as never);
  const consumers = await count<object>(
    `select 'usr_' || replace(a.id::text, '-', '') as "userId", email, organization, count(*) as licenses,
            sum(used)::bigint as used
       from accounts a join licenses l on l.account_id = a.id join usage u on u.license_id = l.id
      where u.month = '2026-11-01' and u.used > 0 group by a.id order by used desc, a.id limit 100`,
  );
  expect(figures.consumers.rows).toEqual(consumers as never);
  const near = await count<object>(
    `select 'lic_' || replace(l.id::text, '-', '') as id, tier, ${LIMIT} as "limit", ${USED} as used, ${PERCENT} as percent
       from licenses l where ${LIMIT} is not null and ${USED} * 100 >= ${LIMIT} * 80
      order by array_position('{enterprise,commercial,research,free}'::text[], l.tier), percent desc, l.id`,
  );
  expect(figures.nearQuota.licenses).toBe(near.length);
  expect(
    figures.nearQuota.rows.map(({ licenseId: id, tier, limit, used, percent }) => {
      return { id, tier, limit, used, percent };
    }),
  ).toEqual(near.slice(0, 100) as never);
  const runningOut = await count<{ id: string; day: string }>(
    `select 'lic_' || replace(l.id::text, '-', '') as id, tier, ${LIMIT} as "limit", ${USED} as used,
            round(${WEEK} / 7.0)::bigint as "usedADay",
            to_char(($now::timestamptz + (${LIMIT} - ${USED}) * 7.0 / ${WEEK} * interval '1 day') at time zone 'UTC', 'YYYY-MM-DD') as day
       from licenses l
      where ${USED} < ${LIMIT} and ${WEEK} > 0 and expires_at > $now and $now::timestamptz + (${LIMIT} - ${USED}) * 7.0 / ${WEEK} * interval '1 day' < '2026-12-01Z'
        and (exists (select from usage u where u.license_id = l.id and month < '2026-11-01' and used > 0)
             or exists (select from usage u, unnest(by_day) with ordinality as d (units, day)
                         where u.license_id = l.id and month = '2026-11-01' and day <= 13 and units > 0))
        and 0 < (select count(*) from keys k where k.license_id = l.id and k.state in ('active', 'suspended'))
      order by array_position('{enterprise,commercial,research,free}'::text[], tier::text), day, l.id`,
  );
  expect(figures.runsOut.licenses).toBe(runningOut.length);
  expect(
    figures.runsOut.rows.map(({ licenseId: id, tier, limit, used, usedADay, day }) => {
      return { id, tier, limit, used, usedADay, day };
    }),
  ).toEqual(runningOut.slice(0, 100) as never);
  const expiring = await count<{ id: string; expiresAt: Date }>(
    `select 'lic_' || replace(l.id::text, '-', '') as id, expires_at as "expiresAt" from licenses l
      where expires_at > $now and expires_at <= $now::timestamptz + interval '90 days'
        and 0 < (select count(*) from keys k where k.license_id = l.id and k.state = 'active'
                    and (own_expires_at is null or own_expires_at > $now))
      order by expires_at, l.id`,
  );
  expect(figures.expiring.licenses).toBe(expiring.length);
  expect(figures.expiring.rows.map(({ licenseId, expiresAt }) => ({ id: licenseId, expiresAt }))).toEqual(
    expiring.slice(0, 100),
  );
  const unused = await count<{ days: number; keys: number }>(
    `select days, (select count(*) from keys
                    where coalesce(last_used_at, created_at) <= $now::timestamptz - interval '1 day' * days) as count
       from unnest('{30,90,180,365}'::integer[]) as days order by days`,
  );
  expect(figures.unused.rows).toEqual(unused as never);
  const taken = `(select count(*) from machines m where m.license_id = l.id and ended_at is null
                     and (active_until > now() or signed_until > now()))`;
  const counting = `from (select l.*, ${taken} as taken from licenses l where max_machines > 0) l`;
  expect(figures.machines.tiers).toEqual(
    (await count(
      `select tier, count(*) as licenses, sum(max_machines) as places, sum(taken)::integer as taken,
              sum((taken >= max_machines and ${OPEN_KEYS} > 0)::integer) as "full" ${counting} group by tier order by tier collate "C"`,
    )) as never,
  );
  const full = await count<{ id: string }>(
    `select 'lic_' || replace(id::text, '-', '') as id, max_machines as "limit", taken::integer as used ${counting}
      where taken >= max_machines and ${OPEN_KEYS} > 0 order by l.id limit 100`,
  );
  expect(figures.machines.rows.map(({ licenseId, limit, used }) => ({ id: licenseId, limit, used }))).toEqual(
    full as never,
  );
  await compareLists();
}

async function compareLists() {
  expect(await count(`select key_id, percent from figure_near_quota order by key_id`)).toEqual(
    await count(
      `select k.id as key_id, ${PERCENT} as percent from licenses l join keys k on k.license_id = l.id
        where ${LIMIT} is not null and ${USED} * 100 >= ${LIMIT} * 80 order by k.id`,
    ),
  );
  expect(await count(`select key_id, used from figure_most_used order by key_id`)).toEqual(
    await count(
      `select k.id as key_id, u.used from keys k join usage u using (license_id)
        where u.month = '2026-11-01' and u.used > 0 order by k.id`,
    ),
  );
  expect(await count(`select key_id, last_used_at from figure_latest_used order by key_id`)).toEqual(
    await count(`select id as key_id, last_used_at from keys where last_used_at is not null order by id`),
  );
  expect(await count(`select key_id, days from figure_unused order by key_id`)).toEqual(
    await count(
      `select id as key_id, max(days) as days from keys, unnest('{30,90,180,365}'::integer[]) as days
        where coalesce(last_used_at, created_at) <= $now::timestamptz - interval '1 day' * days
        group by id order by id`,
    ),
  );
}

/** Gives every third license two places, and machines that hold them, held them, or hold them for a signed license. */
async function makeMachines() {
  await count(
    "update licenses set max_machines = 2, seat_minutes = 30 where right(id::text, 1) in ('0', '3', '6', '9', 'c')",
  );
  await count(
    `insert into machines (id, license_id, fingerprint, activated_at, last_seen_at, active_until, signed_until, ended_at)
     select gen_random_uuid(), l.id, sha256((l.id || n::text)::bytea), now(), now(),
            case when n = 1 then 'infinity' when n = 2 then now() + interval '1 hour' else now() - interval '1 hour' end,
            case when n = 3 and right(l.id::text, 1) = '3' then 'infinity' else '-infinity' end::timestamptz,
            case when n = 4 then now() end
       from licenses l, generate_series(1, 4) as n
      where max_machines = 2 and (n <> 2 or right(l.id::text, 1) <> '6')`,
  );
}

describe("computeFigures()", () => {
  test("stores figures of an empty database", async () => {
    expect(await readFigures(server.database)).toBeUndefined();
    expect(await readNow()).toEqual({
      asOf: NOW,
      keys: { asOf: NOW, rows: [] },
      consumers: { asOf: NOW, month: "2026-11", rows: [] },
      nearQuota: { asOf: NOW, keys: 0, licenses: 0, rows: [] },
      runsOut: { asOf: NOW, keys: 0, licenses: 0, rows: [] },
      expiring: { asOf: NOW, licenses: 0, rows: [] },
      unused: { asOf: NOW, rows: [30, 90, 180, 365].map((days) => ({ days, count: 0 })) },
      machines: { asOf: NOW, keys: 0, tiers: [], rows: [] },
    } as Figures);
  });

  test("stores what SQL counts in the same moment, also after all has changed", async () => {
    await makeRandomCustomers(server.database, { licenses: 800, now: NOW });
    await makeMachines();
    const before = await readNow();
    expect(before.machines.tiers).toHaveLength(4);
    expect(before.machines.rows.length).toBeGreaterThan(20);
    for (const { licenses } of [before.nearQuota, before.expiring]) expect(licenses).toBeGreaterThan(100);
    expect(before.runsOut.licenses).toBeGreaterThan(20);
    expect(before.keys.rows).toHaveLength(16);
    expect(before.unused.rows.every((row) => row.count > 20)).toBe(true);
    await compareAll(before);

    for (const text of [
      "update usage set used = used * 3 where left(license_id::text, 1) < '6' and month = '2026-11-01'",
      "update keys set last_used_at = '2026-11-20' where left(id::text, 1) < '6'",
      "update keys set last_used_at = created_at where left(id::text, 1) > '8'",
      "update keys set state = 'suspended' where state = 'active' and left(id::text, 1) between '3' and '7'",
      "update machines set ended_at = now() where left(license_id::text, 1) > 'c'",
      "update licenses set expires_at = expires_at + interval '30 days', tier = 'free' where left(id::text, 1) > '8'",
    ])
      await count(text);
    const after = await readNow();
    for (const name of [
      "keys",
      "consumers",
      "nearQuota",
      "runsOut",
      "expiring",
      "unused",
      "machines",
    ] as const)
      expect(after[name]).not.toEqual(before[name] as never);
    await compareAll(after);
  });

  test("stores nothing that names an account", async () => {
    await makeRandomCustomers(server.database, { licenses: 50, now: NOW });
    await readNow();
    const [row] = await count<{ text: string }>("select string_agg(value::text, '') as text from figures");
    expect(row?.text).not.toContain("example.org");
    expect(row?.text).not.toContain("Clinic");
  });
});

describe("createFigureComputer()", () => {
  const runs = () =>
    count<{ began: Date; took: number | null }>("select began_at as began, took_ms as took from figure_run");

  test("computes once for several processes, and again after twenty times the duration", async () => {
    const clock = createTestClock();
    const log = createLog({ format: "text", clock, write: (line) => void lines.push(line) });
    const lines: string[] = [];
    const computers = [1, 2].map(() => createFigureComputer({ address: server.address, clock, log }));
    const demand = async () => {
      for (const computer of computers) computer.demand();
      await Promise.all(computers.map((computer) => computer.settled()));
      return (await runs())[0];
    };
    const first = await demand();
    expect(first?.took).toBeGreaterThan(0);
    // The process that did not compute has the figures after the next look.
    clock.advance(9_000);
    expect(await demand()).toEqual(first);
    for (const computer of computers) expect(computer.latest()).toEqual(await readFigures(server.database));
    await count("update figure_run set took_ms = 10000");
    // 10 s before the end of the pause, because the clock goes on, and a busy machine takes seconds for all this.
    clock.advance(181_000);
    expect(await demand()).toEqual({ began: first?.began as Date, took: 10_000 });
    clock.advance(15_000);
    expect((await demand())?.began).not.toEqual(first?.began);
    for (const computer of computers) await computer.stop();
    expect(lines).toEqual([]);
  });

  test("takes over from a process that was killed, and after a wrong clock", async () => {
    const clock = createTestClock();
    const lines: string[] = [];
    const log = createLog({ format: "text", clock, write: (line) => void lines.push(line) });
    const computer = createFigureComputer({ address: server.address, clock, log });
    const demandAfter = async (ms: number) => {
      clock.advance(ms);
      computer.demand();
      await computer.settled();
      return (await runs())[0]?.took;
    };
    await count(`insert into figure_run (began_at) values ('${clock.now().toISOString()}')`);
    expect(await demandAfter(596_000)).toBeNull();
    expect(await demandAfter(6_000)).toBeNumber();
    await count("update figure_run set began_at = began_at + interval '2 years', took_ms = null");
    expect(await demandAfter(6_000)).toBeNumber();
    await computer.stop();
    expect(lines).toEqual([]);
  });

  test("another process computes soon after a stop, or a loss of the connection, in the middle of a computation", async () => {
    const clock = createTestClock();
    const log = createLog({ format: "text", clock, write() {} });
    const computers = [1, 2].map(() => createFigureComputer({ address: server.address, clock, log }));
    const interrupt = async (computer: FigureComputer | undefined, stop: () => Promise<unknown>) => {
      clock.advance(700_000);
      await inTransaction(server.address, async (sql) => {
        await sql`lock table licenses in access exclusive mode`;
        computer?.demand();
        await until(async () => (await count(`select ${WAITING}`)).length > 0);
        expect((await runs())[0]?.took).toBeNull();
        await stop();
      });
    };
    const [first, second] = computers;
    const terminate = `select pg_terminate_backend(pid) ${WAITING}`;
    await interrupt(first, async () => {
      await count(terminate);
      await first?.settled();
    });
    clock.advance(6_000);
    first?.demand();
    await first?.settled();
    expect((await runs())[0]?.took).toBeNumber();
    await interrupt(first, async () => await first?.stop());
    expect((await runs())[0]?.took).toBeNumber();
    clock.advance(30_000);
    const before = (await runs())[0]?.began;
    second?.demand();
    await second?.settled();
    expect((await runs())[0]?.began).not.toEqual(before as Date);
    await second?.stop();
  });

  test("logs a failure once, and waits as after a success", async () => {
    const clock = createTestClock();
    const lines: string[] = [];
    const log = createLog({ format: "text", clock, write: (line) => void lines.push(line) });
    const computer = createFigureComputer({ address: server.address, clock, log });
    await count("alter table figure_unused rename to away");
    for (let round = 0; round < 3; round++) {
      clock.advance(700_000);
      computer.demand();
      await computer.settled();
    }
    expect(lines).toEqual([expect.stringContaining('reason="relation \\"figure_unused\\" does not exist')]);
    expect((await runs())[0]?.took).toBeNumber();
    await count("alter table away rename to figure_unused");
    await computer.stop();
  });
});
