/** The first page after the login, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { parseId } from "../../src/base/ids.ts";
import { listKeys } from "../../src/licensing/keys/mod.ts";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { countUse } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { addDemo } from "../support/demo.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole } from "./support/console.ts";

const NOW = "2026-11-22T15:43:44Z";
const HOSTILE = `<img src=x onerror="document.title='run'"> "'&amp;\u202eevil`;
const MAX_BYTES = 150_000;

const admin = useForAll(() => startConsole({ clock: createTestClock(NOW) }));

/** A part of the page, by its title. */
const panel = (page: Page, title: string) =>
  page.locator("section").filter({ has: page.getByRole("heading", { name: title }) });

async function compute() {
  await computeFigures(admin.database, { clock: admin.clock });
  await countUse(admin.database, { clock: admin.clock, isStopping: () => false });
}

describe("The overview without a key", () => {
  test("is the first page after the login, and says what to do", async () => {
    await admin.visitAs("admin", { path: "/" }, async (page) => {
      await page.getByText("No key has been issued yet.").waitFor();
      expect(new URL(page.url()).pathname).toBe("/console/overview");
      expect(
        await page.getByRole("navigation", { name: "Menu" }).getByRole("link").first().textContent(),
      ).toBe("Overview");
      await takeScreenshots(page, "overview-empty");
      await expectAccessible(page);
      await page.getByRole("link", { name: "Issue the first key" }).click();
      await page.getByRole("heading", { name: "Issue a key" }).waitFor();
    });
  });

  test("offers a viewer no way to issue one", async () => {
    await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
      await page.getByText("An editor or an admin can issue the first key.").waitFor();
      expect(await page.locator("a[href*=issue]").count()).toBe(0);
    });
  });
});

describe("The overview of a demo", () => {
  beforeAll(() => addDemo(admin.testDatabase, admin.clock.now()));

  test("says what is missing before the figures are computed", async () => {
    await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
      await page.getByText("are computed for the first time now").waitFor();
      await page.getByText("The use per day has not been counted yet.").waitFor();
      await takeScreenshots(page, "overview-new");
      await expectAccessible(page);
    });
  });

  test("shows what was counted, without script", async () => {
    await compute();
    await admin.visitAs("viewer", { path: "/overview", script: false }, async (page) => {
      const keys = await listKeys(admin.database, { now: admin.clock.now() });
      const research = panel(page, "Keys by tier and state").getByRole("row", { name: /^research/ });
      const ofResearch = keys.filter(({ tier }) => tier === "research");
      const active = ofResearch.filter(({ state }) => state === "active");
      expect(await research.locator("td").first().textContent()).toBe(String(active.length));
      expect(await research.locator("td").last().textContent()).toBe(String(ofResearch.length));

      const [most] = keys.toSorted((a, b) => b.used - a.used);
      const first = panel(page, "Largest consumers").locator("tbody tr").first();
      expect(await first.textContent()).toContain(most?.email ?? "");
      expect(await first.textContent()).toContain(most?.used.toLocaleString("en-US") ?? "");

      const rowsOf = (title: string) => panel(page, title).locator("tbody tr").count();
      expect(await rowsOf("Largest consumers")).toBe(10);
      expect(await rowsOf("Near their quota")).toBe(4);
      expect(await rowsOf("Quota runs out")).toBe(4);
      const usedUp = panel(page, "Quota runs out").locator("tbody tr").first();
      expect(await usedUp.textContent()).toMatch(/used uprefused until 2026-12-01/);
      expect(await rowsOf("Expiring soon")).toBe(3);
      expect(await panel(page, "Unused keys").getByRole("row", { name: "90 days" }).textContent()).toContain(
        "2",
      );
      expect(await page.locator(".values i").count()).toBe(90);
      const [{ used } = { used: 0 }] = await admin.database.query<{ used: number }>(
        (sql) => sql`select sum(by_day[20])::bigint as used from usage where month = '2026-11-01'`,
      );
      await page.getByText("Numbers").click();
      expect(
        await page
          .getByRole("row", { name: /^2026-11-20/ })
          .locator("td")
          .last()
          .textContent(),
      ).toBe(used.toLocaleString("en-US"));
    });
  });

  test("shows the refusals of the last day by cause", async () => {
    const [{ count } = { count: 0 }] = await admin.database.query<{ count: number }>(
      (sql) => sql`
        select sum(count)::bigint as count from activity_hours
         where code = 'KEY_EXPIRED' and hour >= '2026-11-21T16:00:00Z'`,
    );
    expect(count).toBeGreaterThan(0);
    await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
      const row = panel(page, "Refusals of the last day").getByRole("row", { name: "KEY_EXPIRED" });
      expect(await row.locator("td").textContent()).toBe(count.toLocaleString("en-US"));
      const limited = panel(page, "Refusals of the last day").getByRole("row", {
        name: "RATE_LIMIT_EXCEEDED",
      });
      expect(await limited.textContent()).toMatch(/most by \S+ of kestrel@demo\.example \(\d\d %\)/);
      expect(await row.getByRole("link").getAttribute("href")).toBe("/console/keys?state=expired");
      await takeScreenshots(page, "overview-demo");
      await expectAccessible(page);
    });
  });

  test("names unusual hours in its first line, with a link to them", async () => {
    await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
      expect(await page.locator(".notice").first().textContent()).toStartWith(
        "Needs attention: unusually many RATE_LIMIT_EXCEEDED answers in 4 hours, the last at 15:00. ",
      );
      await page.getByRole("link", { name: "Show unusual hours" }).click();
      const rows = page.getByRole("table", { name: "Unusual hours, the latest first" }).locator("tbody tr");
      const names = (await rows.allTextContents()).map(
        (text) => /RATE_LIMIT_EXCEEDED.*most by \S+ of (\w+)@demo\.example \(100 %\)$/.exec(text)?.[1],
      );
      expect(names).toEqual(["ternwick", "kestrel", "kestrel", "kestrel"]);
      await takeScreenshots(page, "activity-demo");
      await expectAccessible(page);
      await rows.last().getByRole("link").first().click();
      await page.getByText("kestrel@demo.example").first().waitFor();
      expect(new URL(page.url()).pathname).toStartWith("/console/keys/key_");
    });
  });

  test("links to the keys, the accounts, the use and the activity behind each number", async () => {
    await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
      const paths = new Set(
        await page
          .locator("main a")
          .evaluateAll((links) => links.map((link) => String(link.getAttribute("href")))),
      );
      expect(paths.size).toBeGreaterThan(30);
      for (const path of paths) {
        const answer = await page.request.get(`${admin.url}${path}`);
        expect({ path, status: answer.status() }).toEqual({ path, status: 200 });
      }
      await panel(page, "Keys by tier and state")
        .getByRole("row", { name: /^commercial/ })
        .getByRole("link")
        .first()
        .click();
      await page.getByRole("heading", { name: "Keys" }).waitFor();
      const states = await page.locator("tbody .state").allTextContents();
      // One of them sends too many requests.
      expect(states.toSorted()).toEqual([...Array.from({ length: 6 }, () => "active"), "too many requests"]);
    });
  });

  test("shows hostile names as text, and stays small with the longest ones", async () => {
    const now = admin.clock.now();
    const letters = "é".repeat(200);
    for (let n = 0; n < 12; n++) {
      const email = `${"a".repeat(60)}${n}@${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.example`;
      const organization = n === 0 ? HOSTILE : letters;
      const key = await admin.issue({
        email,
        name: letters,
        organization,
        expiresAt: new Date(now.getTime() + 86_400_000),
        monthlyLimit: 1,
      });
      await admin.database.query(
        (sql) => sql`
          insert into usage (license_id, month, used)
          select license_id, '2026-11-01', ${9_000_000_000_000 - n}::bigint from keys where id = ${parseId("key", key.id) ?? ""}::uuid`,
      );
    }
    await compute();
    await admin.visitAs("admin", { path: "/overview" }, async (page) => {
      const shown = HOSTILE.replace("\u202e", "\\u202e");
      expect(await page.getByText(shown).count()).toBeGreaterThan(0);
      expect(await page.title()).toBe("Overview – Claviger");
      const body = await (await page.request.get(page.url())).body();
      expect(body.length).toBeLessThan(MAX_BYTES);
      await takeScreenshots(page, "overview-longest");
      await expectAccessible(page);
    });
  });

  test("says so when no request was refused", async () => {
    await admin.database.query((sql) => sql`delete from activity_hours`);
    const hourMs = Date.parse("2026-11-22T14:00:00Z");
    await addActivity(admin.database, [
      { hourMs, endpoint: "validate", code: "OK", reason: "", count: 1_234 },
    ]);
    await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
      await page.getByText("No request was refused: 1,234 were answered.").waitFor();
    });
  });
});
