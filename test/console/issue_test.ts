/** The form that issues a key, in a real browser. */
import { describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { findKey, hashApiKey } from "../../src/licensing/keys/mod.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole, tabTo } from "./support/console.ts";

const KEY = /^svc_(live|test)_[0-9a-f]{48}$/;
const REFUSED = [/status of 400/];

const admin = useForAll(() => startConsole({ admin: { publicUrl: "https://keys.example.org" } }));

/** Returns the key that the page shows, and its row in the database. */
async function shownKey(page: Page) {
  await page.getByText("Copy the key now.").waitFor();
  const apiKey = (await page.locator("#new-key").textContent()) ?? "";
  const found = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
  return { apiKey, found };
}

const countKeys = async () =>
  (await admin.database.query<{ n: number }>((sql) => sql`select count(*)::int as n from keys`))[0]?.n;

describe("Issue a key", () => {
  test("issues a key by keyboard alone, and shows it once", async () => {
    await admin.visitAs("editor", { path: "/keys" }, async (page) => {
      await page.keyboard.press("Tab");
      expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
      await page.keyboard.press("Enter");
      await tabTo(page, page.getByRole("link", { name: "Issue a key" }));
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Issue a key" }).waitFor();
      await takeScreenshots(page, "issue");
      await expectAccessible(page);
      await tabTo(page, page.getByLabel("E-mail of the account"));
      await page.keyboard.type("Ada@example.org");
      expect(await page.getByLabel("Tier").locator('option[value=""]').allTextContents()).toEqual(["choose"]);
      await tabTo(page, page.getByLabel("Tier"));
      await page.keyboard.type("com");
      await tabTo(page, page.getByRole("button", { name: "Issue the key" }));
      await page.keyboard.press("Enter");
      const { apiKey, found } = await shownKey(page);
      expect(apiKey).toMatch(KEY);
      expect(found).toMatchObject({
        email: "ada@example.org",
        tier: "commercial",
        mode: "live",
        state: "active",
      });
      await takeScreenshots(page, "issued");
      await expectAccessible(page);
      await page.reload();
      await page
        .getByText("It is not shown again: rotate the key, or renew the token, for another.")
        .waitFor();
      expect(page.url()).toBe(`${admin.url}/console/keys/${found?.id}?done=shown`);
      expect(await page.content()).not.toContain(apiKey);
      expect(await countKeys()).toBe(1);
    });
  });

  test("issues a key with every field, without script", async () => {
    await admin.visitAs("editor", { path: "/keys/issue", script: false }, async (page) => {
      await page.getByLabel("E-mail of the account").fill("grace@example.org");
      await page.getByLabel("Tier").selectOption("research");
      await page.getByLabel("Name").fill("  Grace Hopper ");
      await page.getByLabel("Organization").fill("Compiler Labs");
      await page.getByLabel("External id").fill("order-4711");
      await page.getByLabel("Monthly limit").fill("1234");
      await page.getByLabel("Machine limit").fill("30");
      await page.getByLabel("Seat minutes").fill("15");
      await page.getByLabel("Last day").fill("2028-02-29");
      await page.getByLabel("test", { exact: true }).check();
      const [answer] = await Promise.all([
        page.waitForResponse((response) => response.request().method() === "POST"),
        page.getByRole("button", { name: "Issue the key" }).click(),
      ]);
      expect({ status: answer.status(), cache: answer.headers()["cache-control"] }).toEqual({
        status: 200,
        cache: "no-store",
      });
      const { found } = await shownKey(page);
      expect(found).toMatchObject({
        email: "grace@example.org",
        name: "Grace Hopper",
        organization: "Compiler Labs",
        externalId: "order-4711",
        tier: "research",
        mode: "test",
        monthlyLimit: 1234,
        maxMachines: 30,
        seatMinutes: 15,
        expiresAt: new Date("2028-02-29T23:59:59Z"),
      });
      await page.getByText("30 floating seats of 15 minutes").waitFor();
      // Without script the key can be selected by one click.
      expect(await page.getByRole("button", { name: "Copy the key" }).isVisible()).toBe(false);
    });
  });

  test("copies the key", async () => {
    await admin.visitAs("editor", { path: "/keys/issue" }, async (page) => {
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await page.getByLabel("E-mail of the account").fill("copy@example.org");
      await page.getByLabel("Tier").selectOption("free");
      await page.getByLabel("It never expires").check();
      await page.getByRole("button", { name: "Issue the key" }).click();
      const { apiKey } = await shownKey(page);
      await page.getByRole("button", { name: "Copy the key" }).click();
      await page.getByRole("status").getByText("Copied").waitFor();
      expect(await page.evaluate("navigator.clipboard.readText()")).toBe(apiKey);
      await page.getByRole("button", { name: "Copy the message" }).click();
      await page.getByRole("status").getByText("Copied").nth(1).waitFor();
      expect(await page.evaluate("navigator.clipboard.readText()")).toBe(
        [
          "This is your API key (free, live; it does not expire):",
          apiKey,
          "To try it:",
          `curl -s https://keys.example.org/v1/auth/validate -d '{"api_key":"${apiKey}"}'`,
          "Keep it secret: anyone who has it can use your quota.",
        ].join("\n\n"),
      );
    });
  });

  test("names every wrong field, and keeps what was entered", async () => {
    await admin.visitAs("editor", { path: "/keys/issue", expectedFaults: REFUSED }, async (page) => {
      await page.getByLabel("Name").fill("Grace <b>");
      await page.getByLabel("Monthly limit").fill("many");
      await page.getByLabel("Last day").fill("2001-01-01");
      await page.getByRole("button", { name: "Issue the key" }).click();
      await page.getByText("No key was issued: correct the 4 marked fields.").waitFor();
      const email = page.getByLabel("E-mail of the account");
      expect(await email.getAttribute("aria-invalid")).toBe("true");
      expect(await page.locator("#issue-email-error").textContent()).toBe(
        "It must be an e-mail address, and no API key",
      );
      expect(await page.locator("#issue-tier-error").textContent()).toBe(
        "It must be one of free, research, commercial, enterprise",
      );
      expect(await page.getByLabel("Name").inputValue()).toBe("Grace <b>");
      expect(await page.getByLabel("Monthly limit").inputValue()).toBe("many");
      await takeScreenshots(page, "issue-wrong");
      await expectAccessible(page);
    });
  });

  test("says that the account has another name", async () => {
    await admin.issue({ email: "known@example.org", name: "Known" });
    const visit = { path: "/keys/issue", expectedFaults: [/status of 409/] };
    await admin.visitAs("editor", visit, async (page) => {
      await page.getByLabel("E-mail of the account").fill("known@example.org");
      await page.getByLabel("Tier").selectOption("free");
      await page.getByLabel("Name").fill("Another");
      await page.getByRole("button", { name: "Issue the key" }).click();
      const refusal = await page.getByRole("alert").textContent();
      expect(refusal).toContain(
        "Cannot issue key: the account known@example.org has another name or organization",
      );
      expect(refusal).not.toContain("claviger ");
    });
  });

  test("sends the form once if the button is clicked twice", async () => {
    const before = (await countKeys()) ?? 0;
    await admin.visitAs("editor", { path: "/keys/issue" }, async (page) => {
      await page.getByLabel("E-mail of the account").fill("twice@example.org");
      await page.getByLabel("Tier").selectOption("free");
      const submissions = await page.evaluate(`(() => {
        let submissions = 0;
        addEventListener("submit", () => { submissions++ });
        const button = document.querySelector("main form button");
        button.click();
        button.click();
        return submissions;
      })()`);
      expect(submissions).toBe(1);
      await shownKey(page);
    });
    expect(await countKeys()).toBe(before + 1);
  });
});
