/** The list of keys as CSV: all keys that meet the conditions of the page, and nothing that a spreadsheet runs. */
import { beforeAll, describe, expect, test } from "bun:test";
import { type IssuedKey, toHint } from "../../src/licensing/keys/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";

/** Two parts of the CSV, of 200 and 1,000 rows, and some more. */
const MANY = 1_205;
const HEADING =
  "id,key,user_id,email,name,organization,license_id,external_id,tier,mode,state,monthly_limit,used,expires_at," +
  "created_at,last_used_at,replaced_by,max_machines,seat_minutes,places_taken,refused_now,runs_out_on,used_percent," +
  "self_releases,shows_machines,max_offline_days,starts_on_first_use,term_days,latest_start,started_at," +
  "updates_until,features,own_features,entitlements,own_entitlements,requests_last_hour,refused_last_hour";

const admin = useAdmin();
const client = createConsoleClient(admin);
let cookie: string;
let hostile: IssuedKey;
beforeAll(async () => {
  ({ cookie } = await client.logIn("viewer"));
  hostile = await admin.issue({
    email: "+grace@example.org",
    name: `=cmd|' /C calc'!A1, "x"`,
    organization: "@SUM(1)",
    externalId: "-order 1",
    tier: "free",
    mode: "test",
    monthlyLimit: 12,
    maxMachines: 30,
    seatMinutes: 15,
    selfReleases: 4,
    showsMachines: true,
    maxOfflineDays: 14,
    term: { termDays: 30, latestStart: new Date("2027-01-30T00:00:00Z") },
    expiresAt: new Date("2027-03-01T00:00:00Z"),
    ownFeatures: {
      batch_inference: { granted: false },
      custom_models: { granted: true, until: "2027-02-28T23:59:59Z" },
    },
    ownEntitlements: { channels: 64, region: "eu, us" },
  });
});

const get = (query = "") => client.send(`/keys.csv${query}`, { cookie });
const emailsIn = (text: string) =>
  text
    .trimEnd()
    .split("\r\n")
    .slice(1)
    .map((line) => line.split(",")[3]);

describe("GET /keys.csv", () => {
  test("has every value of a key, as text that a spreadsheet does not run, and not the key itself", async () => {
    const { status, text, headers } = await get("?external_id=-order+1");
    expect({ status, type: headers.get("content-type"), cache: headers.get("cache-control") }).toEqual({
      status: 200,
      type: "text/csv; charset=utf-8",
      cache: "no-store",
    });
    expect(headers.get("content-disposition")).toMatch(/^attachment; filename="keys-\d{4}-\d\d-\d\d\.csv"$/);
    const [heading, line = "", end] = text.split("\r\n");
    expect([heading, end]).toEqual([HEADING, ""]);
    expect(line).toStartWith(`${hostile.id},${toHint(hostile.apiKey)},`);
    expect(line).toContain(`,'+grace@example.org,"'=cmd|' /C calc'!A1, ""x""",'@SUM(1),lic_`);
    expect(line).toContain(",'-order 1,free,test,active,12,0,2027-03-01T00:00:00Z,");
    expect(line).toEndWith(
      ',,,30,15,0,,,0,4,true,14,true,30,2027-01-30T00:00:00Z,,,custom_models,"no batch_inference, custom_models until 2027-02-28",' +
        '"channels=64, region=""eu, us""","channels=64, region=""eu, us""",0,0',
    );
    expect(text).not.toContain(hostile.apiKey.slice(-48));
  });

  test("has the keys of all pages, newest first, and only those that meet every condition", async () => {
    await admin.database.query(
      (sql) => sql`
        with account as (
          insert into accounts (id, email, name, organization, created_at)
          select gen_random_uuid(), 'many@example.org', 'Many', '', now() returning id
        ),
        license as (
          insert into licenses (id, account_id, tier, expires_at, created_at)
          select gen_random_uuid(), account.id, 'commercial', ${admin.clock.now()}::timestamptz + interval '30 days', now()
            from account, generate_series(1, ${MANY}::bigint)
          returning id
        )
        insert into keys (id, license_id, hash, hint, mode, created_at)
        select gen_random_uuid(), id, sha256(id::text::bytea), 'svc_live_…abcd', 'live', now() from license`,
    );
    const all = (await get("?account=many@example.org&expiring_within=30&state=active")).text;
    const ids = all
      .trimEnd()
      .split("\r\n")
      .slice(1)
      .map((line) => line.slice(0, 36));
    expect(ids).toHaveLength(MANY);
    expect(ids).toEqual(ids.toSorted().toReversed());
    for (const query of [
      "?account=many@example.org&expiring_within=29",
      "?search=many&tier=free",
      "?mode=test&search=many",
    ])
      expect((await get(query)).text).toBe(`${HEADING}\r\n`);
    expect(emailsIn((await get("?tier=free&mode=test")).text)).toEqual(["'+grace@example.org"]);
  });

  test("has the keys near their quota and the unused keys, by the stored figures, which are computed first", async () => {
    expect((await get("?near_quota=90")).status).toBe(503);
    const { licenseUuid } = await admin.issue({ email: "near@example.org", monthlyLimit: 100 });
    await admin.database.query(
      (sql) => sql`
        insert into usage (license_id, month, used)
        values (${licenseUuid}::uuid, date_trunc('month', ${admin.clock.now()}::timestamptz, 'UTC')::date, 95)`,
    );
    await computeFigures(admin.database, admin);
    const near = (await get("?near_quota=90")).text;
    expect(emailsIn(near)).toEqual(["near@example.org"]);
    expect(near).toEndWith(
      ',95,,,,false,,,,,"batch_inference, streaming, training, calibration, model_export",,,,0,0\r\n',
    );
    expect(emailsIn((await get("?near_quota=100")).text)).toEqual([]);
    expect(emailsIn((await get("?near_quota=80&unused_for=30")).text)).toEqual([]);
    const { text } = await client.send("/keys?near_quota=90", { cookie });
    expect(text).toContain("The list is that of the stored figures, counted");
    expect(text).toContain("1 key, newest first; used by these: 95");
  });

  test("begins with a byte order mark if it is asked for, by which Excel recognises UTF-8", async () => {
    const read = async (query: string) => {
      const answer = await fetch(`${admin.url}/console/keys.csv${query}`, { headers: { cookie } });
      return Buffer.from(await answer.arrayBuffer()).toString("latin1");
    };
    const conditions = "?tier=free&mode=test";
    const plain = await read(conditions);
    expect(plain).toStartWith("id,");
    expect(await read(`${conditions}&bom=1`)).toBe(`\u00ef\u00bb\u00bf${plain}`);
  });

  test("refuses an unknown account, and is closed to visitors without a session", async () => {
    const { status, text } = await get("?account=nobody@example.org");
    expect(status).toBe(404);
    expect(text).toContain("no account has the id or e-mail nobody@example.org");
    // The page has the form of the conditions, as they were sent.
    expect(text).toContain('value="nobody@example.org"');
    expect((await client.send("/keys.csv")).status).toBe(303);
  });

  test("refuses a search that too many accounts match: a file does not show that it is incomplete", async () => {
    await admin.database.query(
      (sql) => sql`
        insert into accounts (id, email, name, organization, created_at)
        select gen_random_uuid(), 'crowd' || n || '@example.org', 'Crowd', '', now() from generate_series(1, 1100) n`,
    );
    const { status, text } = await get("?search=crowd");
    expect(status).toBe(400);
    expect(text).toContain("narrow the search, then download the keys");
    expect(text).toContain('<form class="filters" action="/console/keys#rows"');
    expect(text).toContain('value="crowd"');
    // The page shows the keys that were found, with a warning. Without such a key it says that, too.
    const page = await client.send("/keys?search=crowd", { cookie });
    expect(page.text).toContain("narrow the search.");
    expect(page.text).toContain("No key meets these conditions.");
  });
});

describe("HEAD /keys.csv", () => {
  test("takes no place of the lists that are downloaded at once", async () => {
    for (let request = 0; request < 4; request++)
      expect((await client.send("/keys.csv", { cookie, method: "HEAD" })).status).toBe(200);
    expect((await get()).status).toBe(200);
  });
});
