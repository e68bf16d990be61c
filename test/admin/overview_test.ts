/** The page Overview on the customers of a demo. `overview_links_test.ts` has what its links find. */
import { beforeAll, describe, expect, test } from "bun:test";
import { VERSION } from "../../src/base/version.ts";
import { listKeys } from "../../src/licensing/keys/mod.ts";
import { makeNotices } from "../../src/notices/mod.ts";
import { ROLES, type Role, scopesOf } from "../../src/operators/mod.ts";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { countUse } from "../../src/usage/mod.ts";
import type { TestAdmin } from "../support/admin.ts";
import { createTestClock } from "../support/clock.ts";
import { addDemo } from "../support/demo.ts";
import { uuidOf } from "../support/keys.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, HOSTILE, linkTo, textsOf } from "./texts_of.ts";

const MAX_BYTES = 150_000;

/** Makes a console with a database of its own, because some tests need it empty and others count all that is there. */
function useConsole() {
  const admin = useAdmin({ clock: createTestClock("2026-11-22T15:43:44Z") });
  const client = createConsoleClient(admin);
  return {
    admin,
    client,
    async open(path = "/overview", role: Role = "viewer") {
      const { cookie } = await client.logIn(role);
      return (await client.send(path, { cookie })).text;
    },
  };
}

/** Returns the rows of the panel with the title. */
function rowsOf(text: string, title: string): string[] {
  const panel = text.split("<section").find((section) => section.includes(`<h2>${title}`));
  return textsOf(panel ?? "", "tbody tr");
}

async function compute({ database, clock }: TestAdmin) {
  await computeFigures(database, { clock });
  await countUse(database, { clock, isStopping: () => false });
}

describe("The overview without a key", () => {
  const { client, open } = useConsole();

  test("is the first page after the login, the first of the menu, and says what to do", async () => {
    const { cookie } = await client.logIn("viewer");
    const { location } = await client.send("/", { cookie });
    expect(location).toBe("/console/overview");
    const text = await open("/overview", "admin");
    expect(text).toContain("No key has been issued yet.");
    expect(textsOf(text, "nav a")[0]).toBe("Overview");
    expect(linkTo(text, "Issue the first key")).toBe("/keys/issue");
  });

  test("says that no notice is open, also before the service has looked for the first time", async () => {
    const [said = ""] = textsOf(await open(), ".panel p");
    expect(said).toBe(
      "No notice is open. The service looks every ten minutes, first a minute after its start.",
    );
  });

  test("is for roles that may see notices", () => {
    const mayOpen = ROLES.filter((role) => scopesOf(role).includes("usage:read"));
    expect(mayOpen.length).toBeGreaterThan(0);
    for (const role of mayOpen) expect(scopesOf(role)).toContain("notices:read");
  });

  test("offers a viewer no way to issue one", async () => {
    const text = await open();
    expect(text).toContain("An editor or an admin can issue the first key.");
    expect(attributesOf(text, "main a", "href").filter((href) => href.includes("issue"))).toEqual([]);
  });
});

describe("The overview of a demo", () => {
  const { admin, client, open } = useConsole();
  beforeAll(async () => {
    await addDemo(admin.testDatabase, admin.clock.now());
    await compute(admin);
  });

  test("shows what was counted", async () => {
    const text = await open();
    const keys = await listKeys(admin.database, { now: admin.clock.now() });
    const research = rowsOf(text, "Keys by tier and state").find((row) => row.startsWith("research")) ?? "";
    const ofResearch = keys.filter(({ tier }) => tier === "research");
    const active = ofResearch.filter(({ state }) => state === "active");
    const numbers = research.split(" ").slice(1);
    expect([numbers[0], numbers.at(-1)]).toEqual([`${active.length}`, `${ofResearch.length}`]);

    const [most] = keys.toSorted((a, b) => b.used - a.used);
    const [first] = rowsOf(text, "Largest consumers");
    expect(first).toContain(most?.email ?? "none");
    expect(first).toContain(most?.used.toLocaleString("en-US") ?? "none");

    expect(rowsOf(text, "Largest consumers")).toHaveLength(10);
    expect(rowsOf(text, "Unused keys")).toContain("90 days 2");
    expect(textsOf(text, ".values i")).toHaveLength(90);
    const [{ used } = { used: 0 }] = await admin.database.query<{ used: number }>(
      (sql) => sql`select sum(by_day[20])::bigint as used from usage where month = '2026-11-01'`,
    );
    const day = textsOf(text, ".numbers tr").find((row) => row.startsWith("2026-11-20"));
    expect(day?.split(" ").at(-1)).toBe(used.toLocaleString("en-US"));
  });

  test("shows the newest open notices, and how many there are of each kind with a link to them", async () => {
    const { database, clock } = admin;
    const settings = { days: [30, 7, 1], shares: [80, 100], refusalsAnHour: 100 };
    await makeNotices({ database, clock, isStopping: () => false }, settings);
    const panel = (await open()).split("<section").find((section) => section.includes('id="notices"')) ?? "";
    expect(textsOf(panel, "caption")).toEqual(["The 10 newest"]);
    expect(textsOf(panel, "tbody tr")).toHaveLength(10);
    expect(linkTo(panel, "Show all open notices")).toBe("/notices");
    const kinds = [...panel.matchAll(/href="\/console(\/notices\?kind=(\w+))">(\d+) ([a-z ]+)</g)];
    const counts = kinds.map(([, , kind, count]) => `${kind} ${count}`);
    expect(counts).toEqual(["license_end 4", "quota_used 4", "quota_runs_out 3", "rotated_key_used 1"]);
    for (const [, path = "", kind = "", count, name] of kinds) {
      expect(textsOf(await open(path), "tbody tr")).toHaveLength(Number(count));
      expect(name).toBe(kind.replaceAll("_", " "));
    }
  });

  test("shows the refusals of the last day by cause", async () => {
    const [{ count } = { count: 0 }] = await admin.database.query<{ count: number }>(
      (sql) => sql`
        select sum(count)::bigint as count from activity_hours
         where code = 'KEY_EXPIRED' and hour >= '2026-11-21T16:00:00Z'`,
    );
    expect(count).toBeGreaterThan(0);
    const text = await open();
    const rows = rowsOf(text, "Refusals of the last day");
    const expired = rows.find((row) => row.startsWith("The license or the key has expiredKEY_EXPIRED"));
    expect(expired).toEndWith(` ${count.toLocaleString("en-US")}`);
    expect(rows.find((row) => row.includes("RATE_LIMIT_EXCEEDED"))).toMatch(
      /most by \S+ of kestrel@demo\.example \(\d\d %\)/,
    );
    expect(attributesOf(text, "main a", "href")).toContain("/console/keys?state=expired");
  });

  test("names what is slow and unusual hours in its first line, with links to them", async () => {
    const text = await open();
    expect(textsOf(text, ".notice")[0]).toStartWith(
      "Needs attention: events have taken 10 times as long since 14:40 (95 % within 240 ms, before within 24 ms; " +
        `at 14:40 a process of version ${VERSION} was started), ` +
        "unusually many answers “too many requests” in 4 hours, the last at 15:00. ",
    );
    expect(linkTo(text, "Show what is slow")).toBe("/health/latency?endpoint=analytics");
    const hours = await open(linkTo(text, "Show unusual hours"));
    const rows = textsOf(hours, ".unusual tbody tr");
    const names = rows.map(
      (row) => /RATE_LIMIT_EXCEEDED.*most by \S+ of (\w+)@demo\.example \(100 %\)$/.exec(row)?.[1],
    );
    expect(names).toEqual(["ternwick", "kestrel", "kestrel", "kestrel"]);
    const [path = ""] = attributesOf(hours, ".unusual a[href^='/console/keys/key_']", "href").slice(-1);
    expect(await open(path.replace("/console", ""))).toContain("kestrel@demo.example");
  });

  test("links to the keys, the accounts, the use and the activity behind each number", async () => {
    const paths = new Set(attributesOf(await open(), "main a", "href"));
    expect(paths.size).toBeGreaterThan(30);
    const { cookie } = await client.logIn("viewer");
    for (const path of paths) {
      const { status } = await client.send(path.replace("/console", ""), { cookie });
      expect({ path, status }).toEqual({ path, status: 200 });
    }
  });
});

describe("The overview of a demo whose figures are not computed yet", () => {
  const { admin, open } = useConsole();

  test("says what is missing", async () => {
    await addDemo(admin.testDatabase, admin.clock.now());
    const text = await open();
    expect(text).toContain("are computed for the first time now");
    expect(text).toContain("The use per day has not been counted yet.");
  });
});

describe("The overview of a demo with the longest names", () => {
  const { admin, open } = useConsole();

  test("shows hostile names as text, and stays small", async () => {
    await addDemo(admin.testDatabase, admin.clock.now());
    const now = admin.clock.now();
    const letters = "é".repeat(200);
    for (let n = 0; n < 12; n++) {
      const email = `${"a".repeat(60)}${n}@${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.example`;
      const organization = n === 0 ? `${HOSTILE}\u202e` : letters;
      const expiresAt = new Date(now.getTime() + 86_400_000);
      const key = await admin.issue({ email, name: letters, organization, expiresAt, monthlyLimit: 1 });
      await admin.database.query(
        (sql) => sql`
          insert into usage (license_id, month, used)
          select license_id, '2026-11-01', ${9_000_000_000_000 - n}::bigint from keys where id = ${uuidOf(key)}::uuid`,
      );
    }
    await compute(admin);
    const text = await open();
    expect(textsOf(text, "main")[0]).toContain(`${HOSTILE}\\u202e`);
    expect(text).not.toContain("<img");
    expect(Buffer.byteLength(text)).toBeLessThan(MAX_BYTES);
  });
});

describe("The overview of a day without refusals", () => {
  const { admin, open } = useConsole();

  test("says that no request was refused", async () => {
    await admin.issue();
    const hourMs = Date.parse("2026-11-22T14:00:00Z");
    await addActivity(admin.database, [
      { hourMs, endpoint: "validate", code: "OK", reason: "", count: 1_234 },
    ]);
    expect(await open()).toContain("No request was refused: 1,234 were answered.");
  });
});
