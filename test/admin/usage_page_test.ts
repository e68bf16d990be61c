/** The page Usage: a month by tier and by customer, twelve months, and its file. */
import { beforeAll, describe, expect, test } from "bun:test";
import { monthOf } from "../../src/base/calendar.ts";
import { countUse, listUsage, readUsageCsv } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { addDemo } from "../support/demo.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, HOSTILE, linkTo, textsOf } from "./texts_of.ts";

const NOW = "2026-11-22T15:43:44Z";
const OCTOBER = monthOf(Date.parse("2026-10-15T00:00:00Z"));

const admin = useAdmin({ clock: createTestClock(NOW) });
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("viewer"));
});

const open = async (path: string) => (await client.send(path, { cookie })).text;

describe("Usage before anything was used", () => {
  const empty = createConsoleClient(useAdmin({ clock: createTestClock(NOW) }));

  test("says what is missing", async () => {
    const { text } = await empty.send("/usage", { cookie: (await empty.logIn("viewer")).cookie });
    expect(text).toContain("has not been counted yet");
    expect(text).toContain("No license used anything in 2026-11.");
  });
});

describe("The usage of a demo", () => {
  beforeAll(async () => {
    await addDemo(admin.testDatabase, admin.clock.now());
    await countUse(admin.database, { clock: admin.clock, isStopping: () => false });
  });

  test("shows the month that was chosen by tier and by customer", async () => {
    const text = await open("/usage?month=2026-10");
    expect(textsOf(text, "h2")).toContain("Customers in 2026-10");
    expect(attributesOf(text, "#month option[selected]", "value")).toEqual(["2026-10"]);
    const used = await listUsage(admin.database, OCTOBER, { byUse: true });
    const all = used.reduce((sum, each) => sum + each.used, 0).toLocaleString("en-US");
    expect(textsOf(text, "tr")).toContain(`all ${all} ${all} 0`);
    expect(textsOf(text, "tbody code")).toEqual(used.map(({ licenseId }) => licenseId));
    const accounts = attributesOf(text, "tbody a[href^='/console/accounts/']", "href");
    expect(accounts[0]).toBe(`/console/accounts/${used[0]?.userId}`);
  });

  test("says in one sentence how much is used, and how much more than in the month before", async () => {
    // The demo has no use on the first days of October.
    const [sums] = await admin.database.query<{
      november: number;
      before: number;
      imported: number;
      whole: number;
    }>(
      (sql) => sql`
        select sum(used) filter (where day between '2026-11-01' and '2026-11-21' and not is_imported)::bigint as november,
               sum(used) filter (where day between '2026-10-01' and '2026-10-21' and not is_imported)::bigint as before,
               sum(used) filter (where day >= '2026-11-01' and is_imported)::bigint as imported,
               sum(used) filter (where day >= '2026-11-01')::bigint as whole
          from usage_days`,
    );
    const { november = 0, before = 0, imported = 0, whole = 0 } = sums ?? {};
    const percent = Math.round((november * 100) / before) - 100;
    const change = `${Math.abs(percent)} % ${percent > 0 ? "more" : "less"} than in October in the same days`;
    const so = whole.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 3 });

    const text = await open("/usage");

    expect(textsOf(text, ".total")[0]).toBe(`November so far: ${so} inferences, ${change}`);
    const [n, b, i] = [november, before, imported].map((number) => number.toLocaleString("en-US"));
    expect(textsOf(text, ".hint")).toContain(
      `The comparison has the first 21 days of each month: ${n}, and ${b} in the month before. It leaves out later days, and ${i} that were imported without a day.`,
    );
    expect(textsOf(await open("/usage?month=2026-10"), ".total")[0]).toMatch(
      /^October: [\d.]+[KM]? inferences, \d+ % (more|less) than in September$/,
    );
    expect(textsOf(await open("/usage?month=2025-11"), ".total")[0]).toStartWith("November 2025: ");
  });

  test("finds customers by name, alone, and keeps the search on the way to other months and pages", async () => {
    const [first] = await listUsage(admin.database, OCTOBER, { byUse: true });
    const [word = ""] = (first?.organization ?? "").split(" ");
    const text = await open(`/usage?month=2026-10&search=${encodeURIComponent(word)}`);
    expect(textsOf(text, "tbody th a")).toContain(first?.organization ?? "");
    expect(attributesOf(text, "#search", "value")).toEqual([word]);
    expect(textsOf(text, ".total")).toEqual([]);
    expect(linkTo(text, "Show all")).toBe("/usage?month=2026-10#rows");
    expect(await open("/usage?month=2026-10&search=nobody")).toContain(
      "No customer of that name used anything in 2026-10.",
    );
  });

  test("refuses a search for a key, and shows nothing", async () => {
    const { status, text } = await client.send(`/usage?search=svc_live_${"ab".repeat(24)}`, { cookie });
    expect(status).toBe(400);
    expect(text).toContain("Nothing is shown: ");
    expect(text).not.toContain("abababab");
  });

  test("shows twelve months next to each other, with imported use", async () => {
    const text = await open("/usage?month=2026-10");
    expect(textsOf(text, ".values i")).toHaveLength(12);
    const [{ used } = { used: 0 }] = await admin.database.query<{ used: number }>(
      (sql) => sql`select sum(used)::bigint as used from usage where month = '2026-11-01'`,
    );
    const month = textsOf(text, ".numbers tr").find((row) => row.startsWith("2026-11"));
    expect(month).toStartWith("2026-11, not over ");
    expect(month?.split(" ").at(-1)).toBe(used.toLocaleString("en-US"));
  });

  test("leads to the file with the rows of the command and of the API", async () => {
    const path = linkTo(await open("/usage?month=2026-10"), "Download 2026-10 as CSV");
    const { text, headers } = await client.send(path, { cookie });
    expect(headers.get("content-disposition")).toBe('attachment; filename="usage-2026-10.csv"');
    const parts = await Array.fromAsync(readUsageCsv(admin.database, OCTOBER));
    expect(text).toBe(parts.join(""));
  });

  test("shows hostile names as text", async () => {
    const { licenseUuid } = await admin.issue({ organization: `${HOSTILE}\u202e` });
    await admin.database.query(
      (sql) =>
        sql`insert into usage (license_id, month, used) values (${licenseUuid}::uuid, '2026-05-01', 7)`,
    );
    const text = await open("/usage?month=2026-05");
    expect(textsOf(text, "tbody th a")).toContain(`${HOSTILE}\\u202e`);
    expect(text).not.toContain("<img");
  });

  test.each(["month=2026-13&after=x", "month=%00", "month=9999-99", "after=lic_1", "month=0000-01"])(
    "refuses %s, and shows nothing",
    async (query) => {
      const { status, text } = await client.send(`/usage?${query}`, { cookie });
      expect(status).toBe(400);
      expect(text).toContain("Nothing is shown: ");
    },
  );
});
