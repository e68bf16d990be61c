/** The starts of processes and of the server, which explain a change of the latency. */
import { beforeEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid } from "../../../src/base/ids.ts";
import { silentLog } from "../../../src/base/log.ts";
import { VERSION } from "../../../src/base/version.ts";
import { createPresence, listStarts } from "../../../src/database/processes/mod.ts";
import { useTestDatabase } from "../../support/use.ts";

const on = useTestDatabase();
beforeEach(async () => {
  await on.database.query((sql) => sql`truncate starts, processes`);
});

async function renew(uuid = newUuid()) {
  const presence = createPresence({
    address: on.address,
    process: { uuid, host: "node-a", address: "http://a:1", rateLimits: "process" },
    latency: () => ({ p50Ms: null, p95Ms: null }),
    ...{ clock: systemClock, log: silentLog },
  });
  await presence.flush();
  return presence;
}

async function insert(kind: string, version: string, ago: string, id = newUuid()) {
  await on.database.query(
    (sql) => sql`
      insert into starts (kind, id, version, at) values (${kind}, ${id}, ${version}, now() - ${ago}::interval)`,
  );
}

const list = (hours = 24) =>
  listStarts(on.database, {
    from: new Date(Date.now() - hours * 3_600_000),
    to: new Date(Date.now() + 3_600_000),
  });

describe("a process", () => {
  test("notes its start and that of the server once, and its stop keeps them", async () => {
    const presence = await renew();
    await presence.flush();
    await presence.stop();
    const [{ identity } = { identity: "" }] = await on.database.query<{ identity: string }>(
      (sql) => sql`select server_identity() as identity`,
    );
    const found = (await list()).map(({ at: _, ...start }) => start);
    expect(found).toEqual([
      { kind: "database", version: identity, versionBefore: null },
      { kind: "process", version: VERSION, versionBefore: null },
    ]);
  });

  test("does not note its start again when it runs for more than 48 hours beside others", async () => {
    const presences = [await renew(), await renew(), await renew()];
    await on.database.query((sql) => sql`update starts set at = at - interval '49 hours'`);
    for (const presence of [...presences, ...presences]) await presence.flush();
    expect(await list()).toEqual([]);
  });

  test("notes a server that answers in place of another one, and a new version", async () => {
    await insert("database", "1 00000001", "9 hours");
    await insert("process", "0.1.0", "3 days");
    await renew();
    const starts = await list();
    expect(starts.map(({ kind, versionBefore }) => [kind, versionBefore])).toEqual([
      ["database", null],
      ["database", "1 00000001"],
      ["process", "0.1.0"],
    ]);
  });

  test("keeps the starts of 48 hours and the last one before, and at most 500", async () => {
    for (const [version, ago] of [
      ["0.1.0", "9 days"],
      ["0.2.0", "3 days"],
      ["0.3.0", "47 hours"],
    ] as const)
      await insert("process", version, ago);
    const kept = async () => {
      const rows = await on.database.query<{ version: string }>(
        (sql) => sql`select version from starts where kind = 'process' order by at`,
      );
      return rows.map(({ version }) => version);
    };
    await renew();
    expect(await kept()).toEqual(["0.2.0", "0.3.0", VERSION]);
    await on.database.query(
      (sql) => sql`
        insert into starts (kind, id, version, at)
        select 'process', nth::text, 'again', now() - nth * interval '1 second' from generate_series(1, 700) as nth`,
    );
    await renew();
    // The new start was not there yet when the old ones were counted.
    expect(await kept()).toHaveLength(501);
    expect((await kept()).slice(-2)).toEqual([VERSION, VERSION]);
  });

  test("notes starts at the same time as other processes, while all of them delete the same ones", async () => {
    for (let days = 3; days < 20; days++) await insert("process", "old", `${days} days`);
    await Promise.all(Array.from({ length: 8 }, () => renew()));
    expect(await list()).toHaveLength(9);
  });
});
