/** The list of keys, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import type { Database } from "../../src/database/mod.ts";
import { TIERS } from "../../src/licensing/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole } from "./support/console.ts";

const HOSTILE = `<img src=x onerror="document.title='run'"> "'&amp;\u202eevil`;
const LONG = "a-rather-long-name-of-a-department.of-a-rather-long-organization.example.org";

const admin = useForAll(startConsole);

const emailsOf = (page: Page) => page.locator("tbody td > a > bdi").allTextContents();

test("The list is accessible while it is empty", async () => {
  await admin.visitAs("viewer", { path: "/keys" }, async (page) => {
    await page.getByText("No key has been issued yet.").waitFor();
    await takeScreenshots(page, "keys-empty");
    await expectAccessible(page);
  });
});

describe("The list of 60 keys", () => {
  beforeAll(async () => {
    for (let n = 0; n < 60; n++) {
      const tier = TIERS[n % TIERS.length] ?? "free";
      const expiresAt = new Date(admin.clock.nowMs() + (n + 1) * 86_400_000);
      const email = `user${n}@${n === 7 ? LONG : "example.org"}`;
      const names = n % 2 === 0 ? {} : { name: "Grace Hopper", organization: "Compiler Labs" };
      await admin.issue({ email, tier, expiresAt, mode: n === 9 ? "test" : "live", ...names });
    }
    await admin.issue({ email: "hostile@example.org", name: HOSTILE, organization: HOSTILE });
    await giveUse(admin.database, admin.clock.now());
  });

  test("shows 50 keys, and the others on the next page", async () => {
    await admin.visitAs("viewer", { path: "/keys" }, async (page) => {
      const first = await emailsOf(page);
      expect(first).toHaveLength(50);
      expect(first.slice(0, 2)).toEqual(["hostile@example.org", "user59@example.org"]);
      await takeScreenshots(page, "keys");
      await expectAccessible(page);
      await page.getByRole("link", { name: "Next page" }).click();
      await page.getByRole("link", { name: "First page" }).waitFor();
      const second = await emailsOf(page);
      expect(second).toHaveLength(11);
      expect(new Set([...first, ...second]).size).toBe(61);
      expect(await page.getByRole("link", { name: "Next page" }).count()).toBe(0);
      await page.getByText(/^51 to 61 of 61 keys, newest first/).waitFor();
      await takeScreenshots(page, "keys-second-page");
      await expectAccessible(page);
      await page.getByRole("link", { name: "Previous page" }).click();
      await page.getByRole("link", { name: "Next page" }).waitFor();
      expect(await emailsOf(page)).toEqual(first);
    });
  });

  test("is sorted by the heads of its columns and by its form, with its conditions, without script", async () => {
    await admin.visitAs("viewer", { path: "/keys?tier=free", script: false }, async (page) => {
      const sorted = () =>
        page
          .locator("th[aria-sort]")
          .evaluateAll((heads) => heads.map((head) => `${head.textContent} ${head.ariaSort}`));
      expect(await sorted()).toEqual(["Key descending"]);
      const newest = await emailsOf(page);
      await page.getByRole("link", { name: "Expires" }).click();
      await page.getByText(/soonest expiry first, expired ones before; used by/).waitFor();
      expect(await sorted()).toEqual(["Expires ascending"]);
      const soonest = await emailsOf(page);
      expect(soonest.toSorted()).toEqual(newest.toSorted());
      expect(soonest.slice(0, 3)).toEqual(["user0@example.org", "user4@example.org", "user8@example.org"]);
      expect(await page.getByLabel("Order").inputValue()).toBe("soonest_expiry");
      await page.getByRole("link", { name: "Expires" }).click();
      await page.getByText(/latest expiry first; used by/).waitFor();
      expect(await sorted()).toEqual(["Expires descending"]);
      expect(await emailsOf(page)).toEqual(soonest.toReversed());
      await page.getByLabel("Order").selectOption("oldest");
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByText(/ oldest first; used by/).waitFor();
      expect(page.url()).toContain("tier=free");
      expect(await emailsOf(page)).toEqual(newest.toReversed());
    });
  });

  test("is sorted by use as the stored figures have it", async () => {
    await computeFigures(admin.database, { clock: admin.clock });
    await admin.visitAs("viewer", { path: "/keys" }, async (page) => {
      await page.getByRole("link", { name: "Used this month" }).click();
      await page.getByText(/ keys, most used first/).waitFor();
      await page
        .getByText(/^The first 10,000 keys of this order are shown. The list is that of the stored figures/)
        .waitFor();
      expect(await emailsOf(page)).not.toEqual([]);
      await takeScreenshots(page, "keys-most-used");
      await expectAccessible(page);
    });
  });

  test("shows the keys that meet every condition, without script", async () => {
    await admin.visitAs("viewer", { path: "/keys", script: false }, async (page) => {
      await page.getByLabel("Search").fill("grace");
      await page.getByLabel("Tier").selectOption("research");
      await page.getByLabel("State").selectOption("suspended");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "Show all" }).waitFor();
      expect(await emailsOf(page)).toEqual(["user49@example.org", "user5@example.org"]);
      expect(await page.getByLabel("Search").inputValue()).toBe("grace");
      expect(await page.getByLabel("Tier").inputValue()).toBe("research");
      await page.getByLabel("Mode").selectOption("test");
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByText("No key meets these conditions.").waitFor();
      await takeScreenshots(page, "keys-none");
      await page.getByRole("link", { name: "Show all keys" }).click();
      await page.getByRole("link", { name: "Next page" }).waitFor();
      expect(await emailsOf(page)).toHaveLength(50);
    });
  });

  test("shows the keys of an account, those that expire soon, and the key of an order, and says how many", async () => {
    const key = await admin.issue({ email: "order@example.org", externalId: "order 4711", tier: "free" });
    await admin.visitAs("viewer", { path: "/keys" }, async (page) => {
      await page.getByText(/^1 to 50 of 62 keys, newest first; used by these: [\d,]+$/).waitFor();
      await page.getByText("More conditions").click();
      await page.getByLabel("License expires within").fill("2");
      await page.keyboard.press("Enter");
      await page.getByText(/^2 keys, newest first; used by these: \d+$/).waitFor();
      expect(await emailsOf(page)).toEqual(["user1@example.org", "user0@example.org"]);
      await takeScreenshots(page, "keys-more");
      await expectAccessible(page);
      await page.getByLabel("Account").fill("user1@example.org");
      await page.keyboard.press("Enter");
      await page.getByText(/^1 key, newest first/).waitFor();
      expect(page.url()).toContain("account=user1%40example.org&expiring_within=2");
      await page.getByLabel("Account").fill("nobody@example.org");
      await page.keyboard.press("Enter");
      await page.getByText("Cannot list keys: no account has the id or e-mail nobody@example.org.").waitFor();
      await page.goto(`${admin.url}/console/keys?external_id=order+4711`);
      await page.getByRole("link", { name: "svc_live_" }).click();
      await page.getByText(key.id, { exact: true }).waitFor();
      expect(page.url()).toBe(`${admin.url}/console/keys/${key.id}`);
    });
  });

  test("is downloaded as a file with the same conditions", async () => {
    await admin.visitAs("viewer", { path: "/keys?search=user1&tier=research" }, async (page) => {
      const shown = await emailsOf(page);
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: "Download as CSV" }).click(),
      ]);
      const lines = (await Bun.file(await download.path()).text()).trimEnd().split("\r\n");
      expect(lines.slice(1).map((line) => line.split(",")[3])).toEqual(shown);
      expect(download.suggestedFilename()).toMatch(/^keys-.*\.csv$/);
    });
  });

  test("shows hostile names as text, and answers a search for anything", async () => {
    const visit = { path: "/keys?search=hostile", expectedFaults: [/status of 400/] };
    await admin.visitAs("viewer", visit, async (page) => {
      const shown = HOSTILE.replace("\u202e", "\\u202e");
      expect(await page.locator(".more > bdi").allTextContents()).toEqual([shown, shown]);
      expect(await page.title()).toBe("Keys – Claviger");
      for (const search of ["!!", HOSTILE, "a".repeat(5_000), "\u0000", "' or 1=1 --", "%"]) {
        await page.goto(
          `${admin.url}/console/keys?${new URLSearchParams({ search, tier: "x", after: "x" })}`,
        );
        await page.getByRole("heading", { name: "Keys" }).waitFor();
      }
    });
  });

  test("offers a viewer no way to issue a key", async () => {
    await admin.visitAs("viewer", { path: "/keys" }, async (page) => {
      expect(await page.getByText("Issue a key").count()).toBe(0);
    });
    const refused = { path: "/keys/issue", expectedFaults: [/status of 403/] };
    await admin.visitAs("viewer", refused, async (page) => {
      expect(await page.getByRole("alert").textContent()).toBe("Your role, viewer, may not do this.");
      await takeScreenshots(page, "refused");
      await expectAccessible(page);
    });
  });
});

/** Gives keys a use of this month, other states, and a last use. */
async function giveUse(database: Database, now: Date): Promise<void> {
  await database.query(
    (sql) => sql`
      with numbered as (
        select k.id, k.license_id, substring(a.email from 'user(\\d+)@')::int as n
          from keys k join licenses l on l.id = k.license_id join accounts a on a.id = l.account_id
      ),
      used as (
        insert into usage (license_id, month, used)
        select license_id, date_trunc('month', ${now}::timestamptz at time zone 'utc')::date, n * n * 7
          from numbered where n > 0
      )
      update keys k
         set state = case when n % 11 = 5 then 'suspended' when n % 13 = 3 then 'revoked' else state end,
             revoked_at = case when n % 11 <> 5 and n % 13 = 3 then ${now}::timestamptz end,
             last_used_at = case when n % 3 = 1 then ${now}::timestamptz - n * interval '1 hour' end
        from numbered where numbered.id = k.id`,
  );
}
