/**
 * After an erasure the upkeep removes the texts of the events, in every partition. Then no table has a text of the person,
 * except the reasons in the audit log.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import { toMonth } from "../../src/base/calendar.ts";
import { eraseWithKeys, type IssuedKey } from "../../src/licensing/keys/mod.ts";
import { activateMachine, createMachineNames } from "../../src/licensing/machines/mod.ts";
import { changeLicense, createLicenseChanges, findAccount, updateAccount } from "../../src/licensing/mod.ts";
import { eraseTexts } from "../../src/usage/erase_texts.ts";
import { attachPartition, findErasedMonth } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, issue, NOW, orThrow } from "../support/issue.ts";
import { accountOf, uuidOf } from "../support/keys.ts";
import { openSecrets } from "../support/secrets.ts";
import { useForEach } from "../support/use.ts";

const server = useForEach(createTestDatabase);
const BY = { actor: ACTOR, now: NOW };
/** By a clock that stands every statement is short: on a busy machine the search would rest eight times as long as it works. */
const clock = createTestClock(undefined, { stands: true });
const work = () => ({ database: server.database, clock, isStopping: () => false });

/** The months of the events; the last one has no partition. */
const MONTHS = ["2026-03", "2026-07", "2026-11", "2031-01"];
const EVENTS_OF_MONTH = 3_000;

beforeEach(async () => {
  for (const month of MONTHS.slice(0, -1)) {
    const [year = 0, number = 0] = month.split("-").map(Number);
    await attachPartition(server.database, toMonth(year * 12 + number - 1));
  }
});

/** Adds events of a key in every month. */
async function addEvents(key: IssuedKey, person: string): Promise<void> {
  for (const month of MONTHS) {
    await server.database.query(
      (sql) => sql`
        insert into events (id, received_at, key_id, license_id, event_type, model_name, success, error_message, metadata)
        select gen_random_uuid(), ${`${month}-15T00:00:00Z`}::text::timestamptz, ${uuidOf(key)}::uuid,
               ${key.licenseUuid}::uuid, 'error', 'model of ' || ${person}::text, false,
               'no file of ' || ${person}::text, jsonb_build_object('name', ${person}::text)
          from generate_series(1, ${EVENTS_OF_MONTH}::integer)`,
    );
  }
}

/** Revokes a key, and erases the person from its account. */
async function erase(key: IssuedKey): Promise<void> {
  const changes = createLicenseChanges(server.database);
  orThrow(await eraseWithKeys(changes, accountOf(key), { ...BY, revokesKeys: true }));
}

/** Makes every erasure older than the time in which an event can be on its way. */
async function age(): Promise<void> {
  await server.database.query((sql) => sql`update accounts set erased_at = erased_at - interval '2 minutes'`);
}

async function countTexts(key: IssuedKey): Promise<{ events: number; texts: number }> {
  const [row] = await server.database.query<{ events: number; texts: number }>(
    (sql) => sql`
      select count(*) as events, count(coalesce(error_message, metadata::text, model_name)) as texts from events
       where key_id = ${uuidOf(key)}::uuid`,
  );
  return row ?? { events: 0, texts: 0 };
}

/** Returns the tables in which a row has the text in any column. */
async function search(text: string): Promise<string[]> {
  const tables = await server.database.query<{ name: string }>(
    (sql) => sql`
      select c.oid::regclass::text as name from pg_class c
       where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' order by 1`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await server.database.query(
      (sql) =>
        sql`select from ${sql(name)} as t where strpos(lower(t::text), lower(${text}::text)) > 0 limit 1`,
    );
    if (rows.length > 0) found.push(name);
  }
  return found;
}

async function textsErasedAt(key: IssuedKey): Promise<Date | null | undefined> {
  return (await findAccount(server.database, { uuid: accountOf(key) }))?.textsErasedAt;
}

describe("eraseTexts()", () => {
  test("removes every text of the person from every table, and keeps the events", async () => {
    const person = { email: "ada@example.org", name: "Ada Lovelace", organization: "Analytical Engines" };
    const key = await issue(server.database, { ...person, externalId: "order-of-ada" });
    const other = await issue(server.database, { email: "grace@example.org" });
    const changes = createLicenseChanges(server.database);
    const license = { licenseUuid: key.licenseUuid };
    orThrow(
      await changeLicense(changes, license, {
        ...BY,
        change: { externalId: "second-of-ada", maxMachines: 2 },
      }),
    );
    orThrow(await updateAccount(server.database, { uuid: accountOf(key), name: "Ada Lovelace King", ...BY }));
    const machine = createMachineNames(openSecrets())(key.licenseUuid, "fingerprint of ada");
    orThrow(
      await activateMachine(server.database, {
        keyUuid: uuidOf(key),
        machine,
        name: "Laptop of Lovelace",
        platform: "lovelace",
        ...BY,
      }),
    );
    await addEvents(key, "Lovelace");
    await addEvents(other, "Grace");
    // The test finds what it searches for.
    expect(await search("lovelace")).toEqual(
      expect.arrayContaining(["accounts", "events_2026_03", "events_elsewhen", "machines"]),
    );
    await erase(key);
    expect(await textsErasedAt(key)).toBeNull();
    await age();
    await eraseTexts(work());
    for (const text of ["ada@example.org", "lovelace", "analytical", "of-ada", "king"])
      expect([text, await search(text)]).toEqual([text, []]);
    const events = EVENTS_OF_MONTH * MONTHS.length;
    expect(await countTexts(key)).toEqual({ events, texts: 0 });
    expect(await countTexts(other)).toEqual({ events, texts: events });
    expect(await textsErasedAt(key)).toBeInstanceOf(Date);
    expect(await textsErasedAt(other)).toBeNull();
  });

  test("goes on where another process stopped, and says which month it reads", async () => {
    const key = await issue(server.database);
    await addEvents(key, "Ada");
    await erase(key);
    await age();
    const step = async (pages: number) =>
      await server.database.query((sql) => sql`select sweep_erased(${pages}::integer)`);
    expect(await findErasedMonth(server.database)).toBeUndefined();
    await step(1);
    await step(1_000);
    await step(1);
    expect(await findErasedMonth(server.database)).toBe("2026-03");
    const { events, texts } = await countTexts(key);
    expect(texts).toBeLessThan(events - EVENTS_OF_MONTH);
    expect(texts).toBeGreaterThan(2 * EVENTS_OF_MONTH);
    // An account that is erased meanwhile waits for the next search.
    const second = await issue(server.database);
    await addEvents(second, "Bea");
    await erase(second);
    await server.database.query((sql) => sql`vacuum full events_2026_03`);
    await eraseTexts(work());
    expect((await countTexts(key)).texts).toBe(0);
    expect((await countTexts(second)).texts).toBe(events);
    await age();
    await eraseTexts(work());
    expect((await countTexts(second)).texts).toBe(0);
    expect(await findErasedMonth(server.database)).toBeUndefined();
  });

  test("keeps the names of models in the registry, and does nothing while nobody was erased", async () => {
    const key = await issue(server.database, { email: "erased-like@erased.invalid" });
    await addEvents(key, "Ada");
    await eraseTexts(work());
    const events = EVENTS_OF_MONTH * MONTHS.length;
    expect((await countTexts(key)).texts).toBe(events);
    await server.database.query(
      (sql) => sql`
        insert into models (id, name, created_at) values (gen_random_uuid(), 'model of Ada', now())`,
    );
    await erase(key);
    await age();
    await eraseTexts(work());
    const kept = await server.database.query<{ name: string; texts: number }>(
      (sql) => sql`
        select model_name as name, count(coalesce(error_message, metadata::text)) as texts from events group by 1`,
    );
    expect(kept).toEqual([{ name: "model of Ada", texts: 0 }]);
  });

  test("removes the texts of an account that an earlier version erased", async () => {
    const key = await issue(server.database, { externalId: "order-of-ada" });
    await addEvents(key, "Ada");
    await server.database.query((sql) => sql`alter table accounts disable trigger user`);
    await server.database.query(
      (sql) => sql`
        update accounts set email = 'erased-' || id || '@erased.invalid', name = 'erased' where id = ${accountOf(key)}::uuid`,
    );
    await server.database.query((sql) => sql`alter table accounts enable trigger user`);
    await eraseTexts(work());
    expect((await countTexts(key)).texts).toBe(0);
    expect(await search("order-of-ada")).toEqual([]);
  });
});
