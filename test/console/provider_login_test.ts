/**
 * The login at an identity provider, in a real browser. The console is at `localhost` and the provider at `127.0.0.1`, so
 * they are different sites: a browser treats cookies and forms between them as it does in an organisation.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { listKeys } from "../../src/licensing/keys/mod.ts";
import { listTokens } from "../../src/operators/mod.ts";
import { startConsoleWithProvider, startIdentityProvider } from "../support/identity_provider.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { openBrowser, type Visit } from "./support/browser.ts";

const MINUTE_MS = 60_000;

const admin = useForAll(() => startConsoleWithProvider(startIdentityProvider, { host: "localhost" }));
const browser = useForAll(() => openBrowser());
const OLGA = { subject: "248289761001", name: "olga@example.org" };

beforeEach(() => {
  // The provider has a clock of its own, which no test moves.
  admin.clock.setWall(new Date().toISOString());
  admin.provider.setPeople({ olga: { ...OLGA, groups: ["licensing-admins"] } });
});

const url = (path: string) => `${admin.adminUrl}/console${path}`;

function visit<Result>(path: string, act: (page: Page) => Promise<Result>, more: Partial<Visit> = {}) {
  return browser.visit({ url: url(path), otherOrigins: [admin.provider.issuer], ...more }, act);
}

const offer = (page: Page) => page.getByRole("link", { name: "Log in with Example Staff" });

/** Signs in on the page of the provider. */
async function signIn(page: Page, name = "olga") {
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Logs in at the provider, which leads to the page with the title. */
async function logIn(page: Page, title: string) {
  await offer(page).click();
  await signIn(page);
  await heading(page, title);
}

const heading = (page: Page, name: string) => page.getByRole("heading", { name, exact: true }).waitFor();

describe("Log in with the provider", () => {
  for (const script of [true, false])
    test(`leads to the page that asked for it, ${script ? "by keyboard alone" : "without script"}`, async () => {
      await visit(
        "/keys?tier=free",
        async (page) => {
          await page.locator("a.button:focus").waitFor();
          if (script) await expectAccessible(page);
          await page.keyboard.press("Enter");
          await signIn(page);
          await heading(page, "Keys");
          expect(page.url()).toBe(url("/keys?tier=free"));
          const names = (await page.context().cookies(admin.adminUrl)).map(({ name }) => name);
          expect(names.filter((name) => name.startsWith("claviger_"))).toEqual([
            `claviger_${new URL(admin.adminUrl).port}`,
          ]);
        },
        { script },
      );
    });

  test("is not begun by a page of another site", async () => {
    await browser.visit(
      {
        url: `${admin.provider.issuer}/login/none`,
        otherOrigins: [admin.adminUrl],
        expectedFaults: [/status of 403/],
      },
      async (page) => {
        await page.evaluate(`location.href = ${JSON.stringify(url("/enter/provider"))}`);
        await page.getByText("Another website led here").waitFor();
        expect(await page.context().cookies(admin.adminUrl)).toEqual([]);
      },
    );
  });
});

describe("After 40 idle minutes", () => {
  test("a login at the provider leads back to the form, with what was typed", async () => {
    await visit("/keys/issue", async (page) => {
      await logIn(page, "Issue a key");
      await page.getByLabel("E-mail of the account").fill("grace@example.org");
      await page.getByLabel("Tier", { exact: true }).selectOption("commercial");
      admin.clock.advance(40 * MINUTE_MS);
      await page.getByRole("button", { name: "Issue the key" }).click();
      await page.getByText("Your session has ended: log in again.").waitFor();
      await offer(page).click();
      // The provider has a session, so it asks for nothing.
      await page.getByText("Filled in again").waitFor();
      expect(page.url()).toBe(url("/keys/issue"));
      await page.getByRole("button", { name: "Issue the key" }).click();
      await heading(page, "Key issued");
      const keys = await listKeys(admin.database, { now: admin.clock.now() });
      expect(keys.map(({ email, tier }) => [email, tier])).toEqual([["grace@example.org", "commercial"]]);
    });
  });
});

test("An admin makes a token for a shop after a new login at the provider, and not before", async () => {
  await visit("/access", async (page) => {
    await logIn(page, "Access");
    await admin.database.query(
      (sql) => sql`update operator_sessions set proved_at = proved_at - interval '6 minutes'`,
    );
    await page.goto(url("/access?open=issue-token"));
    const form = page.locator("#issue-token-form");
    await form.getByLabel("Name", { exact: true }).fill("shop");
    await form.locator("summary").click();
    await form.getByLabel("keys:issue").check();
    expect(await form.locator(".notice").textContent()).toContain("Log in again with Example Staff");
    await form.getByRole("link", { name: "Log in again" }).click();
    await page.getByText("This needs a login of the last five minutes").waitFor();
    await offer(page).click();
    // The provider has a session, and asks for the name all the same.
    await signIn(page);
    await page.getByText("Filled in again").waitFor();
    expect(await form.getByLabel("Name", { exact: true }).inputValue()).toBe("shop");
    await form.getByRole("button", { name: "Issue the token" }).click();
    await page.getByText("Copy the token now.").waitFor();
    const tokens = await listTokens(admin.database, { now: admin.clock.now() });
    expect(tokens.map(({ name, createdBy }) => [name, createdBy])).toEqual([["shop", "operator:olga"]]);
  });
});

describe("Log out", () => {
  test("offers the logout of the provider, too", async () => {
    await visit("/overview", async (page) => {
      await logIn(page, "Overview");
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByText("You are logged out.").waitFor();
      await page.getByRole("link", { name: "Log out of Example Staff, too" }).click();
      await page.getByRole("button", { name: "Yes, sign me out" }).click();
      await page.getByText("You are logged out.").waitFor();
      expect(page.url()).toStartWith(url("/enter"));
      await offer(page).click();
      await page.getByLabel("Name").waitFor();
    });
  });
});
