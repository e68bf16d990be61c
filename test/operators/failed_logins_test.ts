import { expect, test } from "bun:test";
import { describeChanges, listAudit } from "../../src/audit/mod.ts";
import { openSession } from "../../src/database/mod.ts";
import { createFailedLogins } from "../../src/operators/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { startAdmin } from "../support/admin.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";

const HOUR_MS = 3_600_000;

const admin = useForEach(startAdmin);

async function rows() {
  const found = await listAudit(admin.database, { action: "session.fail", limit: 5_000 });
  return found.map(({ at, actor, door, after }) => ({ at, actor, door, after }));
}

test("a failed login is a row for each address and hour when the hour ends, and when the service stops", async () => {
  const { clock, database } = admin;
  const failed = createFailedLogins(database, clock);
  const on = await startAdmin({ on: admin.testDatabase, clock, admin: { noteFailedLogin: failed.note } });
  const client = createConsoleClient(on);
  const code = await client.newCode("olga");
  for (const wrong of ["", "0".repeat(32), code.slice(1)])
    await client.send("/enter", { form: { code: wrong } });
  const { cookie } = await client.logIn("admin", "grace");
  expect(await client.isLoggedIn(cookie)).toBe(true);
  failed.note("2001:db8:0:1::/64");
  await failed.flush();
  expect(await rows()).toEqual([]);

  const hour = Math.floor(clock.nowMs() / HOUR_MS) * HOUR_MS;
  const hourOf = (ms: number) => new Date(ms).toISOString().replace(".000", "");
  clock.advance(HOUR_MS);
  failed.note("127.0.0.1");
  await failed.flush();
  const row = (address: string, failed_logins: number, hourMs = hour) => ({
    at: expect.any(Date),
    actor: "operator:(unknown)",
    door: "console",
    after: { address, failed_logins, hour: hourOf(hourMs) },
  });
  expect(await rows()).toEqual([row("2001:db8:0:1::/64", 1), row("127.0.0.1", 3)]);
  await failed.stop();
  const [last] = await rows();
  expect(last).toEqual(row("127.0.0.1", 1, hour + HOUR_MS));
  expect(describeChanges(null, last?.after).map(({ field, after }) => `${field} ${after}`)).toEqual([
    expect.stringMatching(/^hour 20/),
    "address 127.0.0.1",
    "failed logins 1",
  ]);
  await on.close();
});

test("the stop waits for a write in progress, and writes again what it could not write", async () => {
  const { clock, database } = admin;
  const { promise, reject } = Promise.withResolvers<never>();
  const answers: Promise<never>[] = [promise];
  const query: typeof database.query = (...call) => answers.shift() ?? database.query(...call);
  const failed = createFailedLogins({ query }, clock);
  failed.note("127.0.0.1");
  clock.advance(HOUR_MS);
  const flushed = failed.flush();
  const stopped = failed.stop();
  reject(new Error("does not answer"));
  await Promise.all([flushed, stopped]);
  expect(await rows()).toMatchObject([{ after: { address: "127.0.0.1", failed_logins: 1 } }]);
});

test("failed logins from a million addresses are a thousand rows, and wait while the database does not answer", async () => {
  const { clock, database } = admin;
  let fails = true;
  const query: typeof database.query = (...call) =>
    fails ? Promise.reject(new Error("does not answer")) : database.query(...call);
  const failed = createFailedLogins({ query }, clock);
  for (let n = 0; n < 1_000_000; n++) failed.note(`address-${n}`);
  await failed.stop();
  expect(await rows()).toEqual([]);
  fails = false;
  await failed.stop();
  const written = await rows();
  expect(written.length).toBe(1_000);
  const counts = written.map(({ after }) => (after as { failed_logins: number }).failed_logins);
  expect(counts.filter((count) => count === 1).length).toBe(999);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(1_000_000);
});

test("failed logins in two processes that write at once are a thousand rows, and a row for the surplus", async () => {
  const { clock, database } = admin;
  const [one, two] = [1, 2].map(() => createFailedLogins(database, clock));
  for (let n = 0; n < 700; n++) one?.note(`one-${n}`);
  for (let n = 0; n < 700; n++) two?.note(`two-${n}`);
  for (let n = 0; n < 10; n++) two?.note("often");
  const hourMs = Math.floor(clock.nowMs() / HOUR_MS) * HOUR_MS;
  clock.advance(HOUR_MS);
  one?.note("later");
  const held = openSession(admin.testDatabase.address, { statementTimeoutMs: 10_000 });
  let flushed: Promise<unknown> | undefined;
  const release = new Error("Both wait for the same row");
  const holding = held.transaction(async (sql) => {
    await sql`insert into failed_login_hours (hour, rows) values (${new Date(hourMs)}, 1)`;
    flushed = Promise.all([one?.flush(), two?.flush()]);
    const waiting = () =>
      sql`select 1 from pg_locks where transactionid = pg_current_xact_id()::xid and not granted`;
    await until(async () => (await waiting()).length === 2);
    throw release;
  });
  expect(await holding.catch((error: unknown) => error)).toBe(release);
  await flushed;
  await held.close();
  // On a busy machine a flush may miss its deadline.
  await Promise.all([one?.stop(), two?.stop()]);

  const written = (await rows()).map(({ after }) => after as { address: string; failed_logins: number });
  expect(written.length).toBe(1_002);
  expect(written.reduce((sum, row) => sum + row.failed_logins, 0)).toBe(1_411);
  const [surplus] = written.filter(({ address }) => address === "others");
  expect(surplus?.failed_logins).toBe(401);
  expect(written.map(({ address }) => address)).toEqual(expect.arrayContaining(["often", "later"]));
});
