/** The form that issues a key, with keyboard and script. `test/admin/issue_page_test.ts` has what it says. */
import { expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { findKey, hashApiKey } from "../../src/licensing/keys/mod.ts";
import { useForAll } from "../support/use.ts";
import { startConsole, submitTwice, tabTo } from "./support/console.ts";

const KEY = /^svc_(live|test)_[0-9a-f]{48}$/;

const admin = useForAll(startConsole);

/** Returns the key that the page shows, and its row in the database. */
async function shownKey(page: Page) {
  await page.getByText("Copy the key now.").waitFor();
  const apiKey = (await page.locator("#new-key").textContent()) ?? "";
  const found = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
  return { apiKey, found };
}

const countKeys = async () =>
  (await admin.database.query<{ n: number }>((sql) => sql`select count(*)::int as n from keys`))[0]?.n;

test("A key is issued by keyboard alone, and a reload neither shows it again nor issues another", async () => {
  await admin.visitAs("editor", { path: "/keys" }, async (page) => {
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await tabTo(page, page.getByRole("link", { name: "Issue a key" }));
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Issue a key" }).waitFor();
    await tabTo(page, page.getByLabel("E-mail of the account"));
    await page.keyboard.type("Ada@example.org");
    await tabTo(page, page.getByLabel("Tier", { exact: true }));
    await page.keyboard.type("com");
    await tabTo(page, page.getByRole("button", { name: "Issue the key" }));
    await page.keyboard.press("Enter");
    const { apiKey, found } = await shownKey(page);
    expect(apiKey).toMatch(KEY);
    expect(found).toMatchObject({ email: "ada@example.org", tier: "commercial", mode: "live" });
    await page.reload();
    await page.getByText("It is not shown again: rotate the key, or renew the token, for another.").waitFor();
    expect(page.url()).toBe(`${admin.url}/console/keys/${found?.id}?done=shown`);
    expect(await page.content()).not.toContain(apiKey);
    expect(await countKeys()).toBe(1);
  });
});

test("The key and the message for the customer are copied by their buttons, which nobody sees without script", async () => {
  const issue = async (page: Page) => {
    await page.getByLabel("E-mail of the account").fill("copy@example.org");
    await page.getByLabel("Tier", { exact: true }).selectOption("free");
    await page.getByLabel("It never expires").check();
    await page.getByRole("button", { name: "Issue the key" }).click();
    return await shownKey(page);
  };
  await admin.visitAs("editor", { path: "/keys/issue" }, async (page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const { apiKey } = await issue(page);
    await page.getByRole("button", { name: "Copy the key" }).click();
    await page.getByRole("status").getByText("Copied").waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(apiKey);
    await page.getByRole("button", { name: "Copy the message" }).click();
    await page.getByRole("status").getByText("Copied").nth(1).waitFor();
    const copied = await page.evaluate<string>("navigator.clipboard.readText()");
    expect(copied).toBe((await page.locator("#message").textContent()) ?? "");
    expect(copied.split("\n\n")[2]).toBe(apiKey);
  });
  await admin.visitAs("editor", { path: "/keys/issue", script: false }, async (page) => {
    await issue(page);
    // The key can be selected by one click.
    expect(await page.getByRole("button", { name: "Copy the key" }).isVisible()).toBe(false);
  });
});

test("The form is sent once if its button is clicked twice", async () => {
  const before = (await countKeys()) ?? 0;
  await admin.visitAs("editor", { path: "/keys/issue" }, async (page) => {
    await page.getByLabel("E-mail of the account").fill("twice@example.org");
    await page.getByLabel("Tier", { exact: true }).selectOption("free");
    expect(await submitTwice(page, "main form button")).toBe(1);
    await shownKey(page);
  });
  expect(await countKeys()).toBe(before + 1);
});
