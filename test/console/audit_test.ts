/** The audit log, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { parseId } from "../../src/base/ids.ts";
import { type IssuedKey, revokeKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { changeLicense, createLicenseChanges } from "../../src/licensing/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole } from "./support/console.ts";

const HOSTILE = `<img src=x onerror="document.title='run'"> "'&amp;\u202eevil`;
const GRACE = { kind: "operator", name: "grace", address: "192.0.2.7" } as const;
const DAY_MS = 86_400_000;

const admin = useForAll(startConsole);
let key: IssuedKey;

const uuidOf = ({ id }: IssuedKey) => parseId("key", id) ?? "";
const rowsOf = (page: Page) => page.locator("tbody tr");
/** The actions on the page, from top to bottom. */
const actionsOf = (page: Page) => page.locator('td[data-label="What"] code.more').allTextContents();
const submit = (page: Page) =>
  Promise.all([page.waitForURL(/\?/), page.getByRole("button", { name: "Show" }).click()]);

test("The log is accessible while it is empty", async () => {
  await admin.visitAs("viewer", { path: "/audit?action=database.restore" }, async (page) => {
    await page.getByText("No change meets these conditions.").waitFor();
    await expectAccessible(page);
  });
});

describe("The log of 70 changes", () => {
  beforeAll(async () => {
    for (let n = 0; n < 60; n++) await admin.issue({ email: `user${n}@example.org` });
    key = await admin.issue({ email: "ada@example.org", tier: "research" });
    const now = admin.clock.now();
    const by = { actor: { ...GRACE, reason: "has paid for more" }, now };
    await changeLicense(
      createLicenseChanges(admin.database),
      { keyUuid: uuidOf(key) },
      { change: { tier: "commercial", monthlyLimit: 5_000 }, ...by },
    );
    await suspendKey(createLicenseChanges(admin.database), uuidOf(key), {
      actor: { ...GRACE, reason: HOSTILE },
      now,
    });
    const lastWeek = new Date(now.getTime() - 7 * DAY_MS);
    const revoked = await admin.issue({ email: "bob@example.org" });
    const why = { ...GRACE, reason: "the key was on a public page" };
    await revokeKey(
      createLicenseChanges(admin.database),
      { uuid: uuidOf(revoked) },
      { actor: why, now: lastWeek },
    );
  });

  test("shows who changed what, from which value to which, and why", async () => {
    await admin.visitAs("viewer", { path: "/audit?action=license.change" }, async (page) => {
      const row = rowsOf(page);
      expect(await row.count()).toBe(1);
      const text = ((await row.textContent()) ?? "").replaceAll(/\s+/g, " ");
      for (const part of ["grace, in the console", "operator:grace, from 192.0.2.7", "has paid for more"])
        expect(text).toContain(part);
      const changes = await page.locator(".altered li").allTextContents();
      expect(changes).toEqual(["tier from research to commercial", "monthly limit from the tier's to 5,000"]);
      const concerned = await page
        .locator('td[data-label="What"] a')
        .evaluateAll((links) => links.map((link) => [link.getAttribute("href"), link.textContent]));
      expect(concerned).toEqual([
        [`/console/keys/${key.id}`, `…${key.apiKey.slice(-4)}`],
        [`/console/accounts/${key.userId}`, "ada@example.org"],
      ]);
      expect(text).toContain(`changed the license of the key …${key.apiKey.slice(-4)} of ada@example.org`);
    });
  });

  test("shows 50 rows, newest first, and the others on the next page", async () => {
    await admin.visitAs("viewer", { path: "/audit" }, async (page) => {
      expect(await rowsOf(page).count()).toBe(50);
      const first = await actionsOf(page);
      expect(first[0]).toBe("session.begin");
      expect(first).toContain("key.suspend");
      await takeScreenshots(page, "audit");
      await expectAccessible(page);
      await page.getByRole("link", { name: "Next page" }).click();
      await page.getByRole("link", { name: "First page" }).waitFor();
      expect(await page.getByRole("link", { name: "Next page" }).count()).toBe(0);
      const second = await actionsOf(page);
      expect(new Set(second)).toEqual(
        new Set(["key.issue"]).union(new Set(second.filter((one) => !one.startsWith("key.")))),
      );
      await page.getByRole("link", { name: "First page" }).click();
      await page.getByRole("link", { name: "Next page" }).waitFor();
      expect(await actionsOf(page)).toEqual(first);
    });
  });

  test("fits a window of 320 pixels", async () => {
    await admin.visitAs("viewer", { path: "/audit" }, async (page) => {
      await page.setViewportSize({ width: 320, height: 640 });
      expect(await page.evaluate<number>("document.documentElement.scrollWidth")).toBe(320);
    });
  });

  test("tells who revoked a key last week and why, without script, and keeps the conditions in the address", async () => {
    await admin.visitAs("viewer", { path: "/audit", script: false }, async (page) => {
      await page.getByLabel("Action").selectOption("key.revoke");
      const day = new Date(admin.clock.nowMs() - 7 * DAY_MS).toISOString().slice(0, 10);
      await page.getByLabel("From").fill(day);
      await page.getByLabel("To", { exact: true }).fill(day);
      await submit(page);
      expect(await rowsOf(page).count()).toBe(1);
      expect(await rowsOf(page).textContent()).toContain("the key was on a public page");
      await takeScreenshots(page, "audit-revoked");
      await page.reload();
      expect(await page.getByLabel("From").inputValue()).toBe(day);
      expect(await page.getByLabel("Action").inputValue()).toBe("key.revoke");
      await page.getByRole("link", { name: "grace, in the console" }).click();
      await page.waitForURL(/actor=operator%3Agrace$/);
      expect(await actionsOf(page)).toEqual(["key.revoke", "key.suspend", "license.change"].toSorted());
    });
  });

  test("finds the changes of an account by e-mail and of a key by id", async () => {
    await admin.visitAs("viewer", { path: `/audit?key=${key.id}` }, async (page) => {
      expect(await actionsOf(page)).toEqual(["key.suspend", "license.change", "key.issue"]);
      await page.goto(`${admin.url}/console/audit?account=ada@example.org&action=key.issue`);
      expect(await actionsOf(page)).toEqual(["key.issue"]);
      await page.goto(`${admin.url}/console/audit?account=nobody@example.org`);
      await page.getByText("No account has the id or e-mail nobody@example.org.").waitFor();
      await page.goto(`${admin.url}/console/audit?account=${key.userId}&until=2001-01-01`);
      await page.getByText("No change meets these conditions.").waitFor();
    });
  });

  test("shows hostile reasons as text, and answers any query", async () => {
    const visit = { path: "/audit?action=key.suspend", expectedFaults: [/status of 400/] };
    await admin.visitAs("viewer", visit, async (page) => {
      expect(await page.locator('td[data-label="Reason"] bdi').textContent()).toBe(
        HOSTILE.replace("\u202e", "\\u202e"),
      );
      expect(await page.title()).toBe("Audit – Claviger");
      for (const text of [HOSTILE, "a".repeat(1_000), "\u0000", "' or 1=1 --", "%", "key_1", "9999-99-99"]) {
        const query = {
          actor: text,
          action: text,
          key: text,
          account: text,
          since: text,
          until: text,
          after: text,
        };
        await page.goto(`${admin.url}/console/audit?${new URLSearchParams(query)}`);
        await page.getByRole("heading", { name: "Audit" }).waitFor();
      }
    });
  });

  test("is smaller than 150 kB with the longest reasons and values", async () => {
    const text = `"<&>'\u202e💡`.repeat(300).slice(0, 2_000);
    await admin.database.query(
      (sql) => sql`
        insert into audit (at, actor, action, account_id, key_id, before, after, reason, door, address)
        select ${admin.clock.now()}::timestamptz, 'http:2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', 'account.erase',
               gen_random_uuid(), gen_random_uuid(), jsonb_build_object('name', ${text}::text),
               jsonb_build_object('name', ${text}::text || n, 'organization', ${text.slice(0, 70)}::text), ${text}::text, 'client',
               '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'
          from generate_series(1, 50) n`,
    );
    const client = createConsoleClient(admin);
    const { cookie } = await client.logIn("viewer");
    const { text: html } = await client.send("/audit?action=account.erase", { cookie });
    expect(html.match(/<tr>/g)).toHaveLength(51);
    expect(Buffer.byteLength(html)).toBeLessThan(150_000);
    await admin.visitAs("viewer", { path: "/audit?action=account.erase" }, async (page) => {
      await takeScreenshots(page, "audit-longest");
      await expectAccessible(page);
    });
  });
});
