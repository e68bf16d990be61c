/** The use of a month and of a year, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import { monthOf } from "../../src/base/calendar.ts";
import { countUse, listUsage, readUsageCsv } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { addDemo } from "../support/demo.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole } from "./support/console.ts";

const HOSTILE = `<img src=x onerror="document.title='run'"> "'&amp;\u202eevil`;
const OCTOBER = monthOf(Date.parse("2026-10-15T00:00:00Z"));

const admin = useForAll(() => startConsole({ clock: createTestClock("2026-11-22T15:43:44Z") }));

const count = () => countUse(admin.database, { clock: admin.clock, isStopping: () => false });

test("The usage says what is missing before anything was used", async () => {
  await admin.visitAs("viewer", { path: "/usage" }, async (page) => {
    await page.getByText("has not been counted yet").waitFor();
    await page.getByText("No license used anything in 2026-11.").waitFor();
    await takeScreenshots(page, "usage-empty");
    await expectAccessible(page);
  });
});

describe("The usage of a demo", () => {
  beforeAll(async () => {
    await addDemo(admin.testDatabase, admin.clock.now());
    await count();
  });

  test("shows the month that was chosen by tier and by customer, without script", async () => {
    await admin.visitAs("viewer", { path: "/usage", script: false }, async (page) => {
      await page.locator("#month").selectOption("2026-10");
      await page.getByRole("button", { name: "Show" }).click();
      await page.getByRole("heading", { name: "Customers in 2026-10" }).waitFor();
      const used = await listUsage(admin.database, OCTOBER);
      const all = used.reduce((sum, each) => sum + each.used, 0).toLocaleString("en-US");
      const tiers = page.getByRole("table", { name: /by the tier/ });
      expect(await tiers.getByRole("row", { name: /^all/ }).locator("td").allTextContents()).toEqual([
        all,
        all,
        "0",
      ]);
      const customers = page.getByRole("table", { name: /licenses? that used anything/ });
      expect(await customers.locator("tbody code").allTextContents()).toEqual(
        used.map(({ licenseId }) => licenseId),
      );
      const [first] = used;
      expect(await customers.getByRole("link").first().getAttribute("href")).toBe(
        `/console/accounts/${first?.userId}`,
      );
      expect(await page.locator("#month").inputValue()).toBe("2026-10");
    });
  });

  test("shows twelve months next to each other, with imported use", async () => {
    await admin.visitAs("viewer", { path: "/usage?month=2026-10" }, async (page) => {
      expect(await page.locator(".values i").count()).toBe(12);
      const [{ used } = { used: 0 }] = await admin.database.query<{ used: number }>(
        (sql) => sql`
          select sum(used)::bigint as used from usage where month = '2026-11-01'`,
      );
      await page.getByText("Numbers").click();
      expect(
        await page
          .getByRole("row", { name: /^2026-11/ })
          .locator("td")
          .last()
          .textContent(),
      ).toBe(used.toLocaleString("en-US"));
      await page.getByText("Numbers").click();
      await takeScreenshots(page, "usage-demo");
      await expectAccessible(page);
    });
  });

  test("downloads the rows of the command and of the API", async () => {
    await admin.visitAs("viewer", { path: "/usage?month=2026-10" }, async (page) => {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: "Download 2026-10 as CSV" }).click(),
      ]);
      expect(download.suggestedFilename()).toBe("usage-2026-10.csv");
      const parts = await Array.fromAsync(readUsageCsv(admin.database, OCTOBER));
      expect(await Bun.file(await download.path()).text()).toBe(parts.join(""));
    });
  });

  test("shows 50 customers, the others on the next page, and hostile names as text", async () => {
    for (let n = 0; n < 52; n++) {
      const email = `user${n}@${"a".repeat(60)}.${"b".repeat(60)}.example`;
      await admin.issue({
        email,
        organization: n === 51 ? HOSTILE : "é".repeat(200),
        externalId: `${"x".repeat(200)}${n}`,
      });
    }
    await admin.database.query(
      (sql) => sql`
        insert into usage (license_id, month, used)
        select l.id, '2026-05-01', 7 from licenses l join accounts a on a.id = l.account_id where a.email like 'user%'`,
    );
    await admin.visitAs("viewer", { path: "/usage?month=2026-05" }, async (page) => {
      const body = await (await page.request.get(page.url())).body();
      expect(body.length).toBeLessThan(150_000);
      await takeScreenshots(page, "usage-longest");
      await expectAccessible(page);
      expect(await page.locator("tbody code").count()).toBe(50);
      await page.getByRole("link", { name: "Next page" }).click();
      await page.getByRole("link", { name: "First page" }).waitFor();
      expect(await page.locator("tbody code").count()).toBe(2);
      expect(await page.locator(".more").allTextContents()).toContain(HOSTILE.replace("\u202e", "\\u202e"));
      expect(await page.title()).toBe("Usage – Claviger");
    });
  });

  test("refuses a text that is no month, and a text that is no license id, and shows nothing", async () => {
    for (const query of [
      "month=2026-13&after=x",
      "month=%00",
      "month=9999-99",
      "after=lic_1",
      "month=0000-01",
    ]) {
      const visit = { path: `/usage?${query}`, expectedFaults: [/status of 400/] };
      await admin.visitAs("viewer", visit, async (page) => {
        await page.getByText("Nothing is shown: ").waitFor();
      });
    }
  });
});
