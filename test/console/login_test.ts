/** The beginning and the end of a session, in a real browser. */
import { describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { useForAll } from "../support/use.ts";
import { startConsole, tabTo } from "./support/console.ts";

const UNAUTHORIZED = /status of 401/;

const admin = useForAll(startConsole);

const enterUrl = () => `${admin.url}/console/enter`;
const isLoggedIn = (page: Page) => page.getByRole("heading", { name: "Overview" }).waitFor();

describe("the login page", () => {
  test("redeems the code of a link, and no address that was sent contains it", async () => {
    const code = await admin.code();
    await admin.browser.visit({ url: "about:blank", otherOrigins: [admin.url] }, async (page) => {
      const addresses: string[] = [];
      page.on("request", (request) => addresses.push(request.url()));
      await page.addInitScript(
        `addEventListener("submit", () => sessionStorage.setItem("bar", location.href))`,
      );
      await page.goto(`${enterUrl()}#${code}`);
      await isLoggedIn(page);
      expect(page.url()).toBe(`${admin.url}/console/overview`);
      // While the code was being redeemed, the address bar no longer showed it.
      expect(await page.evaluate(`sessionStorage.getItem("bar")`)).toBe(enterUrl());
      expect(addresses.length).toBeGreaterThan(2);
      expect(addresses.filter((address) => address.replace(/#.*/, "").includes(code))).toEqual([]);
    });
  });

  test("redeems a second link that is opened in the same tab", async () => {
    const code = await admin.code();
    const visit = { url: `${enterUrl()}#00`, expectedFaults: [UNAUTHORIZED] };
    await admin.browser.visit(visit, async (page) => {
      await page.getByText("This code does not work").waitFor();
      await page.locator("#code[aria-invalid]:focus").waitFor();
      expect(page.url()).toBe(enterUrl());
      await page.goto(`${enterUrl()}#${code}`);
      await isLoggedIn(page);
    });
  });

  for (const [how, faults] of [
    ["", []],
    [", also after a code that does not work", [UNAUTHORIZED]],
  ] as const)
    test(`leads back to the page that asked for it, by a link in the same tab${how}`, async () => {
      const asked = `${admin.url}/console/keys?state=active`;
      const code = await admin.code();
      await admin.browser.visit({ url: asked, expectedFaults: faults }, async (page) => {
        await page.getByLabel("Login code").waitFor();
        if (faults.length > 0) {
          await page.goto(`${enterUrl()}#00`);
          await page.getByText("This code does not work").waitFor();
        }
        await page.goto(`${enterUrl()}#${code}`);
        await page.getByRole("heading", { name: "Keys" }).waitFor();
        expect(page.url()).toBe(asked);
        // The next login in this tab was asked for by no page.
        await page.goto(`${enterUrl()}#${await admin.code()}`);
        await isLoggedIn(page);
      });
    });

  test("takes a typed code without script, by keyboard alone", async () => {
    const code = await admin.code();
    await admin.browser.visit({ url: enterUrl(), script: false }, async (page) => {
      await page.locator("#code:focus").waitFor();
      await page.keyboard.type(code);
      await page.keyboard.press("Enter");
      await isLoggedIn(page);
    });
  });

  test("sets a cookie that no script reads, whose name contains the port", async () => {
    await admin.browser.visit({ url: `${enterUrl()}#${await admin.code()}` }, async (page) => {
      await isLoggedIn(page);
      const [cookie, ...others] = await page.context().cookies();
      expect(others).toEqual([]);
      expect(cookie).toMatchObject({
        name: `claviger_${new URL(admin.url).port}`,
        httpOnly: true,
        secure: false,
        sameSite: "Strict",
        path: "/",
        expires: -1,
      });
      expect(await page.evaluate("document.cookie")).toBe("");
    });
  });

  test("asks before a link ends the session of a colleague", async () => {
    const code = await admin.code();
    await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
      const before = await page.context().cookies();
      await page.goto(`${enterUrl()}#${code}`);
      await page.getByText("is logged in with this browser. The login ends that session.").waitFor();
      expect(await page.context().cookies()).toEqual(before);
      await page.getByRole("button", { name: "Log in" }).click();
      await isLoggedIn(page);
      expect(await page.context().cookies()).not.toEqual(before);
    });
  });
});

test("Log out ends the session, by keyboard", async () => {
  await admin.visitAs("admin", { path: "/keys" }, async (page) => {
    const cookies = await page.context().cookies();
    await tabTo(page, page.getByRole("button", { name: "Log out" }));
    await page.keyboard.press("Enter");
    await page.getByLabel("Login code").waitFor();
    expect(await page.context().cookies()).toEqual([]);
    await page.context().addCookies(cookies);
    await page.goto(`${admin.url}/console/overview`);
    await page.getByText("Your session has ended: log in again.").waitFor();
  });
});
