/** What the links of Overview find: the customers and keys that a list or a number is about, neither more nor fewer. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { IssuedKey, IssueRequest } from "../../src/licensing/keys/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { uuidOf } from "../support/keys.ts";
import { placeMachine, setPlaces } from "../support/machines.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { linkTo, textsOf } from "./texts_of.ts";

const clock = createTestClock("2026-11-20T12:00:00Z");
const admin = useAdmin({ clock });
const client = createConsoleClient(admin);
let cookie: string;
let overview: string;

const inDays = (days: number) => new Date(clock.nowMs() + days * 86_400_000);

/** Changes a key by SQL to what takes days or several steps otherwise. */
type Change = "revoked" | "suspended" | "license expired" | "overlap ends" | "overlap ended" | "unused";
async function change(key: IssuedKey, to: Change): Promise<void> {
  const uuid = uuidOf(key);
  await admin.database.query((sql) => {
    if (to === "license expired")
      return sql`update licenses set expires_at = ${inDays(-1)}::timestamptz where id = ${key.licenseUuid}::uuid`;
    if (to === "unused")
      return sql`update keys set created_at = ${inDays(-200)}::timestamptz where id = ${uuid}::uuid`;
    if (to === "overlap ends" || to === "overlap ended")
      return sql`
        update keys set own_expires_at = ${inDays(to === "overlap ends" ? 5 : -5)}::timestamptz where id = ${uuid}::uuid`;
    return sql`
      update keys set state = ${to}::text, revoked_at = case ${to}::text when 'revoked' then created_at end
       where id = ${uuid}::uuid`;
  });
}

let customers = 0;
/** Issues a key under an account of its own, whose e-mail says what it shows. */
async function customer(request: Partial<IssueRequest> & { readonly name: string }, ...changes: Change[]) {
  const email = `${request.name.replaceAll(" ", "-")}-${++customers}@example.org`;
  const key = await admin.issue({ tier: "research", expiresAt: inDays(400), ...request, email });
  for (const each of changes) await change(key, each);
  return key;
}

/** Stores that the license used so much of its quota on each day of November until the last one. */
async function use({ licenseUuid }: IssuedKey, daily: number, lastDay = 19): Promise<void> {
  await admin.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used, by_day)
      values (${licenseUuid}::uuid, '2026-11-01', ${daily * lastDay}::bigint,
              array(select case when n <= ${lastDay}::integer then ${daily}::bigint else 0 end from generate_series(1, 31) as n))`,
  );
}

async function withMachines(key: IssuedKey, machines: number): Promise<void> {
  await setPlaces(admin.database, key.licenseUuid, { maxMachines: 1 });
  const license = { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) };
  for (let n = 0; n < machines; n++) await placeMachine(admin.database, license, `m${n}`);
}

beforeAll(async () => {
  ({ cookie } = await client.logIn("admin"));
  const ENDS: Change[] = ["revoked", "suspended", "license expired", "overlap ended"];
  for (const end of [undefined, ...ENDS]) {
    const changes = end === undefined ? [] : [end];
    const name = end ?? "works";
    await use(await customer({ name: `used up ${name}`, monthlyLimit: 19 }, ...changes), 1);
    await use(await customer({ name: `runs out ${name}`, monthlyLimit: 2_500 }, ...changes), 90);
    await customer({ name: `expires ${name}`, expiresAt: inDays(30) }, ...changes);
    await withMachines(await customer({ name: `full ${name}` }, ...changes), 1);
    await customer({ name: `unused ${name}` }, "unused", ...changes);
  }
  for (const changes of [[], ["revoked"]] as Change[][])
    await use(await customer({ name: "near", monthlyLimit: 100 }, ...changes), 17, 5);
  await customer({ name: "expires later", expiresAt: inDays(80) });
  await withMachines(await customer({ name: "free place" }), 0);
  await customer({ name: "nothing allowed", monthlyLimit: 0 });
  await customer({ name: "rotated" }, "overlap ends");
  await computeFigures(admin.database, { clock });
  overview = (await client.send("/overview", { cookie })).text;
});

/** The panels of Overview by their titles, as HTML. */
function panels(): Map<string, string> {
  const found = overview.matchAll(/<section class="panel[^>]*><h2>(.*?)<\/h2>(.*?)<\/section>/gs);
  return new Map([...found].map(([, title = "", html = ""]) => [title, html]));
}

const rowsIn = (html: string) => /<tbody>(.*?)<\/tbody>/s.exec(html)?.[1] ?? "";
const accountsIn = (html: string) =>
  [
    ...new Set([...rowsIn(html).matchAll(/\/console\/accounts\/(usr_\w+)/g)].map(([, id = ""]) => id)),
  ].toSorted();

/** Opens the page of a link. */
async function pageAt(address: string): Promise<string> {
  const path = address.replaceAll("&amp;", "&").replace(/^\/console/, "");
  const { status, text } = await client.send(path, { cookie });
  expect(status).toBe(200);
  return text;
}

describe("A list of customers in Overview", () => {
  test("shows customers that its link finds", async () => {
    const html = panels().get("Largest consumers") ?? "";
    const accounts = accountsIn(html);
    expect(accounts.length).toBeGreaterThan(1);
    const [link = ""] = html.match(/(?<=href=")\/console\/usage\?[^"]*/g) ?? [];
    expect(accountsIn(await pageAt(link))).toEqual(expect.arrayContaining(accounts));
  });

  test("has no other title, so that none is missing here", () => {
    const withCustomers = [...panels()].filter(([, html]) => html.includes("/console/accounts/"));
    expect(withCustomers.map(([title]) => title)).toEqual(["Largest consumers"]);
  });
});

/** The links to lists of keys, as HTML. */
const keysToLookAt = () => /<nav class="ways".*?<\/nav>/s.exec(overview)?.[0] ?? "";

describe("A list of keys to which Overview leads", () => {
  /** The ends by which a license still has a key that is not revoked. */
  const open = (name: string) => ["works", "suspended", "overlap-ended"].map((end) => `${name}-${end}`);
  const refused = ["used-up", "runs-out", "expires", "full", "unused"].flatMap((name) =>
    ["suspended", "license-expired", "overlap-ended"].map((end) => `${name}-${end}`),
  );
  const LISTS: readonly (readonly [text: string, customers: readonly string[]])[] = [
    ["Refused now", [...refused, "used-up-works", "nothing-allowed"]],
    ["Quota is used up or runs out", [...open("used-up"), ...open("runs-out"), "nothing-allowed"]],
    [
      "80 % of the quota is used",
      [...open("used-up"), "used-up-revoked", "used-up-license-expired", "near", "near", "nothing-allowed"],
    ],
    ["End within 90 days", ["expires-works", "expires-later"]],
    ["All places are taken", [...open("full"), "full-license-expired"]],
  ];

  test.each(LISTS)("%s has these customers", async (text, customers) => {
    const link = linkTo(keysToLookAt(), text);
    const emails = rowsIn(await pageAt(link))
      .replaceAll("<wbr/>", "")
      .matchAll(/([\w-]+)-\d+@example\.org</g);
    expect([...emails].map(([, name = ""]) => name).toSorted()).toEqual(customers.toSorted());
  });

  test("has no other name, so that none is missing here", () => {
    expect(textsOf(keysToLookAt(), "a")).toEqual(LISTS.map(([text]) => text));
  });

  test("stands before the notices", () => {
    const at = overview.indexOf(keysToLookAt());
    expect(at).toBeGreaterThan(0);
    expect(at).toBeLessThan(overview.indexOf("Open notices"));
  });
});

describe("A number in Overview", () => {
  test.each(["Keys by tier and state", "Unused keys"])(
    "of %s is that of the keys that its link finds",
    async (title) => {
      const html = panels().get(title) ?? "";
      const numbers = [...html.matchAll(/<a href="(\/console\/keys[^"]*)">([\d,]+)<\/a>/g)];
      expect(numbers.length).toBeGreaterThan(2);
      for (const [, link = "", number = ""] of numbers) {
        const rows = rowsIn(await pageAt(link)).match(/\/console\/keys\/key_\w+/g) ?? [];
        expect({ link, keys: new Set(rows).size }).toEqual({ link, keys: Number(number) });
      }
    },
  );
});

test("The refusals of Overview lead to the page that counts them by code", () => {
  expect(panels().get("Refusals of the last day")).toBeDefined();
});
