/** `GET /usage` as CSV: the same text as the command's, in parts, and no further than the client reads. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type Call, perform } from "../../src/admin/frame/api/route.ts";
import type { AdminOptions } from "../../src/admin/frame/options.ts";
import { createCsvInFlight } from "../../src/admin/frame/stream_csv.ts";
import { listUsageRoute } from "../../src/admin/usage/usage_routes.ts";
import type { Right } from "../../src/audit/mod.ts";
import { silentLog } from "../../src/base/log.ts";
import type { Database } from "../../src/database/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { useForAll, useTestDatabase } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";

const LICENSES = 4_500;
/** The first part has 200 rows, the others have 1,000. */
const PARTS = 6;
/** The statements of a list that is read to its end. */
const ALL = 2 * PARTS - 1;

const target = useTestDatabase();
let token: string;
/** The statements since the test began. */
let statements = 0;
/** Fails statements from the one with this number on. */
let failsFrom = Number.POSITIVE_INFINITY;
let counted: Database;

const admin = useForAll(() => {
  counted = {
    ...target.database,
    query(build, options) {
      if (++statements < failsFrom) return target.database.query(build, options);
      return Promise.reject(new Error("The database went away"));
    },
  };
  return startAdmin({ on: target, admin: { database: counted } });
});
const commands = useForAll(() => commandsOn(target, admin.clock));
beforeAll(async () => {
  token = await admin.token();
  await target.database.query(
    (sql) => sql`
      with account as (
        insert into accounts (id, email, name, organization, created_at)
        values (gen_random_uuid(), 'many@example.org', '=Many', '"Many"', now()) returning id
      ),
      license as (
        insert into licenses (id, account_id, tier, expires_at, created_at, external_id)
        select gen_random_uuid(), account.id, 'enterprise', 'infinity', now(), repeat('y', 200) || n
          from account, generate_series(1, ${LICENSES}::bigint) n
        returning id
      ),
      key as (
        insert into keys (id, license_id, hash, hint, mode, created_at)
        select gen_random_uuid(), id, sha256(id::text::bytea), 'svc_live_…', 'live', now() from license
      )
      insert into usage (license_id, month, used) select id, '2026-10-01', 7 from license`,
  );
});
beforeEach(() => {
  statements = 0;
  failsFrom = Number.POSITIVE_INFINITY;
});

const get = (query: string, accept = "text/csv") =>
  fetch(`${admin.url}/admin/v1/usage${query}`, { headers: { authorization: `Bearer ${token}`, accept } });

describe("GET /usage with Accept: text/csv", () => {
  test("answers the text that `usage export --csv` prints", async () => {
    const answer = await get("?month=2026-10");
    expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(answer.headers.get("content-disposition")).toBe('attachment; filename="usage-2026-10.csv"');
    const text = await answer.text();
    const { out } = await commands.run(["usage", "export", "--month", "2026-10", "--csv"]);
    expect(text === out).toBe(true);
    expect(text.split("\r\n")).toHaveLength(LICENSES + 2);
    const json = await (await get("?month=2026-10&limit=2", "application/json")).json();
    const { data } = json as { data: object[] };
    expect(data).toEqual((await commands.json(["usage", "export", "--month", "2026-10"])).slice(0, 2));
  });

  test("leaves out licenses that used nothing, and writes unlimited where JSON has null", async () => {
    // One license used units, another has a row without use, and the others have no row.
    await target.database.query(
      (sql) => sql`
        insert into usage (license_id, month, used)
        (select license_id, '2026-08-01'::date, 7 from usage limit 1) union all
        (select license_id, '2026-08-01'::date, 0 from usage where month = '2026-10-01' offset 1 limit 1)`,
    );
    const { body } = await admin.call("GET", "/usage?month=2026-08", { token });
    expect(body.data).toMatchObject([{ used: 7, tier: "enterprise", monthly_limit: null }]);
    const [, line, ...rest] = (await (await get("?month=2026-08")).text()).split("\r\n");
    expect({ line, rest }).toEqual({
      line: expect.stringContaining(",enterprise,live,unlimited,7,"),
      rest: [""],
    });
  });

  test("answers only the heading for a month without use, by default the current one", async () => {
    for (const [query, accept] of [
      ["?month=2020-01", "text/csv"],
      ["", "application/json;q=0.5, Text/CSV; charset=utf-8"],
    ] as const) {
      expect(await (await get(query, accept)).text()).toBe(
        "month,license_id,user_id,email,organization,tier,mode,monthly_limit,used,external_id,used_percent,over\r\n",
      );
    }
  });

  test("refuses the conditions of pages", async () => {
    for (const query of ["?limit=5", "?after=x"]) expect((await get(query)).status).toBe(400);
  });

  test("reads a part when the client has taken the part before, and no part after the client hung up", async () => {
    const request = new Request("http://host/", { headers: { accept: "text/csv" } });
    const open = async () => {
      const right: Right = { holds: (sql) => sql`true`, lost: { code: "INVALID_TOKEN", why: "it is not" } };
      const call = { request, now: admin.clock.now(), actor: { kind: "token", name: "shop" }, right } as Call;
      const csvInFlight = createCsvInFlight();
      const options = {
        database: counted,
        log: silentLog,
        clock: admin.clock,
        csvInFlight,
      } as Partial<AdminOptions>;
      const sent = { query: { month: "2026-10" }, body: {} };
      const answer = await perform(listUsageRoute.operation, options as AdminOptions, { ...call, sent });
      const reader = (answer as Response).body?.getReader();
      if (reader === undefined) throw new Error("The answer has no body");
      return reader;
    };
    const reader = await open();
    await reader.read();
    // The part that was taken, one that waits for the client, and one that is read in advance.
    for (const _ of Array(10)) await counted.query((sql) => sql`select`);
    // Two for each part but the first: its rows, and whether the right to them is still there.
    expect(statements - 10).toBeLessThanOrEqual(5);
    while (!(await reader.read()).done);
    expect(statements - 10).toBe(ALL);
    const other = await open();
    await other.cancel();
    for (const _ of Array(10)) await counted.query((sql) => sql`select`);
    expect(statements - 20 - ALL).toBeLessThanOrEqual(3);
  });

  test("closes the connection before the end of the answer if a part cannot be read, and logs why", async () => {
    failsFrom = 5;
    const failed = await get("?month=2026-10")
      .then((answer) => answer.text())
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    expect(failed).toBeInstanceOf(Error);
    expect(admin.logLines.join("\n")).toContain("A CSV ended too early");
  });

  test("answers a status of its own if the first part cannot be read", async () => {
    failsFrom = 2;
    expect((await get("?month=2026-10")).status).toBe(500);
  });
});
