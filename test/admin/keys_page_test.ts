/** The list of keys: its order, its conditions, and the file of the same keys. `list_pages_test.ts` has its pages. */
import { beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS, toDay } from "../../src/base/calendar.ts";
import { TIERS } from "../../src/licensing/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { uuidOf } from "../support/keys.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, HOSTILE, linkTo, mainOf, textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
let viewer: string;
let editor: string;
beforeAll(async () => {
  viewer = (await client.logIn("viewer")).cookie;
  editor = (await client.logIn("editor")).cookie;
});

const open = async (path: string, cookie = viewer) => (await client.send(path, { cookie })).text;
const emailsIn = (text: string) => textsOf(text, "tbody td > a > bdi");
const sortedIn = (text: string) => {
  const names = textsOf(text, "th[aria-sort]");
  return attributesOf(text, "th[aria-sort]", "aria-sort").map((order, at) => `${names[at]} ${order}`);
};

describe("The list while it is empty", () => {
  const empty = createConsoleClient(useAdmin());

  test("says that there is no key yet", async () => {
    const { cookie } = await empty.logIn("viewer");
    expect((await empty.send("/keys", { cookie })).text).toContain("No key has been issued yet.");
  });
});

describe("The list of keys", () => {
  beforeAll(async () => {
    for (let n = 0; n < 12; n++) {
      const tier = TIERS[n % TIERS.length] ?? "free";
      const expiresAt = new Date(admin.clock.nowMs() + (n + 1) * 86_400_000);
      const names = n % 2 === 0 ? {} : { name: "Grace Hopper", organization: "Compiler Labs" };
      const mode = n === 9 ? "test" : "live";
      await admin.issue({ email: `user${n}@example.org`, tier, expiresAt, mode, ...names });
    }
    await admin.database.query(
      (sql) => sql`
        update keys set state = 'suspended' from licenses l join accounts a on a.id = l.account_id
         where license_id = l.id and email in ('user5@example.org', 'user9@example.org')`,
    );
    await admin.database.query(
      (sql) => sql`
        insert into usage (license_id, month, used)
        select l.id, date_trunc('month', ${admin.clock.now()}::timestamptz at time zone 'UTC'),
               substring(email from '[0-9]+')::bigint + 1
          from licenses l join accounts a on a.id = l.account_id`,
    );
    await computeFigures(admin.database, { clock: admin.clock });
  });

  test("is sorted by the heads of its columns and by its form, with its conditions", async () => {
    const newest = await open("/keys?tier=free");
    expect(sortedIn(newest)).toEqual(["Key descending"]);
    const soonest = await open(linkTo(newest, "Expires"));
    expect(mainOf(soonest)).toContain("soonest expiry first, expired ones before; used by these");
    expect(sortedIn(soonest)).toEqual(["Expires ascending"]);
    expect(emailsIn(soonest)).toEqual(["user0@example.org", "user4@example.org", "user8@example.org"]);
    expect(attributesOf(soonest, "#sort option[selected]", "value")).toEqual(["soonest_expiry"]);
    const latest = await open(linkTo(soonest, "Expires"));
    expect(mainOf(latest)).toContain("latest expiry first; used by");
    expect(sortedIn(latest)).toEqual(["Expires descending"]);
    expect(emailsIn(latest)).toEqual(emailsIn(soonest).toReversed());
    const oldest = await open("/keys?tier=free&sort=oldest");
    expect(mainOf(oldest)).toContain("oldest first; used by");
    expect(emailsIn(oldest)).toEqual(emailsIn(newest).toReversed());
  });

  test("says of the order by use that it is that of the stored figures", async () => {
    const text = await open(linkTo(await open("/keys"), "Used this month"));
    expect(textsOf(text, "caption")[0]).toContain("keys, most used first");
    expect(mainOf(text)).toContain(
      "The first 10,000 keys of this order are shown. The list is that of the stored figures",
    );
    expect(emailsIn(text).slice(0, 2)).toEqual(["user11@example.org", "user10@example.org"]);
  });

  test("has no conditions if only its order was changed", async () => {
    const text = mainOf(await open("/keys?sort=oldest", editor));
    expect(text).not.toContain("that meet the conditions");
    expect(text).not.toContain("Show all");
  });

  test("shows the keys that meet every condition, and the conditions in its form", async () => {
    const text = await open("/keys?search=grace&tier=research&state=suspended");
    expect(emailsIn(text)).toEqual(["user9@example.org", "user5@example.org"]);
    expect(attributesOf(text, "#search", "value")).toEqual(["grace"]);
    expect(attributesOf(text, "#tier option[selected]", "value")).toEqual(["research"]);
    expect(linkTo(text, "Show all")).toBe("/keys");
    expect(emailsIn(await open("/keys?search=grace&tier=research&mode=test"))).toEqual(["user9@example.org"]);
    expect(mainOf(await open("/keys?search=grace&tier=free"))).toContain("No key meets these conditions.");
  });

  test("shows the keys that expire soon, those of an account, and the key of an order, and counts them", async () => {
    // Of a tier whose list no test compares as a whole.
    const request = { email: "order@example.org", externalId: "order 4711", tier: "commercial" } as const;
    const key = await admin.issue(request);
    const soon = await open("/keys?expiring_within=2");
    expect(textsOf(soon, "caption")[0]).toMatch(/^2 keys, newest first; used by these: \d+$/);
    expect(emailsIn(soon)).toEqual(["user1@example.org", "user0@example.org"]);
    const one = await open("/keys?account=user1%40example.org&expiring_within=2");
    expect(textsOf(one, "caption")[0]).toStartWith("1 key, newest first");
    expect(mainOf(await open("/keys?account=nobody@example.org"))).toContain(
      "Cannot list keys: no account has the id or e-mail nobody@example.org.",
    );
    expect(linkTo(await open("/keys?external_id=order+4711"), "svc_live_")).toBe(`/keys/${key.id}`);
  });

  test("leads to the file of the same keys", async () => {
    const text = await open("/keys?search=user1&tier=research");
    const file = await client.send(linkTo(text, "Download as CSV"), { cookie: viewer });
    const lines = file.text.trimEnd().split("\r\n").slice(1);
    expect(lines.map((line) => line.split(",")[3])).toEqual(emailsIn(text));
    expect(lines.length).toBeGreaterThan(0);
  });

  test("shows hostile names as text, and answers a search for anything with the list", async () => {
    await admin.issue({
      email: "hostile@example.org",
      name: `${HOSTILE}\u202e`,
      organization: HOSTILE,
    });
    const text = await open("/keys?search=hostile");
    expect(textsOf(text, "small > bdi")).toEqual([`${HOSTILE}\\u202e`, HOSTILE]);
    expect(text).not.toContain("<img");
    for (const search of ["!!", HOSTILE, "a".repeat(5_000), "\u0000", "' or 1=1 --", "%"]) {
      const query = new URLSearchParams({ search, tier: "x", after: "x" });
      const { status, text: page } = await client.send(`/keys?${query}`, { cookie: viewer });
      expect([search, status, textsOf(page, "h1")]).toEqual([search, 400, ["Keys"]]);
    }
  });

  test("offers the form that issues a key to who may send it", async () => {
    expect(await open("/keys")).not.toContain("Issue a key");
    expect(linkTo(await open("/keys", editor), "Issue a key")).toBe("/keys/issue");
    const refused = await client.send("/keys/issue", { cookie: viewer });
    expect(refused.status).toBe(403);
    expect(textsOf(refused.text, "[role=alert]")).toEqual(["Your role, viewer, may not do this."]);
  });
});

describe("The list of keys whose quota runs out", () => {
  const own = useAdmin();
  const itsConsole = createConsoleClient(own);

  test("has that day, and says which rate decides", async () => {
    const { cookie } = await itsConsole.logIn("viewer");
    const open = async (path: string) => (await itsConsole.send(path, { cookie })).text;
    await computeFigures(own.database, { clock: own.clock });
    const used = await useListed(own, "used@example.org", 10_000);
    const later = await useListed(own, "later@example.org", 9_000);
    const day = toDay(new Date(own.clock.nowMs() + DAY_MS));
    await own.database.query(
      (sql) => sql`insert into figure_runs_out (key_id, day) values (${uuidOf(later)}::uuid, ${day}::date)`,
    );
    await own.database.query(
      (sql) => sql`insert into figure_runs_out (key_id, day) values (${uuidOf(used)}::uuid, '-infinity')`,
    );
    const text = await open("/keys?runs_out_within=31");
    expect(textsOf(text, "thead th")).toContain("Runs out");
    const rows = textsOf(text, "tbody tr");
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatch(new RegExp(`later@example.org.* ${day} ?tomorrow `));
    expect(rows[1]).toMatch(/used@example\.org.*100 % used used up /);
    expect(text).not.toContain(`runs out on ${day}`);
    expect(mainOf(text)).toContain(
      "The mean of the last seven whole days decides: a license that is near its quota",
    );
    // A narrow window leaves out a column only if the style has a rule for its number.
    const [style = ""] = attributesOf(text, "link[rel=stylesheet]", "href");
    const rules = (await itsConsole.send(style.replace("/console", ""), { cookie })).text;
    const [classes = ""] = attributesOf(text, "table", "class");
    expect(classes).toContain("wide-8");
    for (const each of classes.split(" ").filter((name) => /^(wide|middle)-/.test(name)))
      expect(rules).toContain(`.${each} tr > :nth-child(`);
    const all = await open("/keys");
    expect(textsOf(all, "thead th")).not.toContain("Runs out");
    expect(all).toContain(`runs out on ${day}`);
  });
});

/** Issues a key of the tier free, whose license used so much this month. */
async function useListed(admin: ReturnType<typeof useAdmin>, email: string, used: number) {
  const key = await admin.issue({ email, tier: "free" });
  await admin.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used)
      select license_id, date_trunc('month', ${admin.clock.now()}::timestamptz at time zone 'UTC'), ${used}::bigint
        from keys where id = ${uuidOf(key)}::uuid`,
  );
  return key;
}
