/** Where the focus is, for people who use the console without a mouse, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { countUse } from "../../src/usage/mod.ts";
import { useForAll } from "../support/use.ts";
import { startConsole, tabTo } from "./support/console.ts";

const REFUSED = [/status of 400/];

const admin = useForAll(startConsole);

/** Waits until what the selector finds has the focus: the browser gives it when it draws the page. */
const focusOn = (page: Page, selector: string) => page.locator(`:is(${selector}):focus`).waitFor();

describe("The focus", () => {
  test("is on the message about a change, which is read out, and is not taken by one that is always there", async () => {
    const { id } = await admin.issue();
    for (const script of [false, true])
      await admin.visitAs("editor", { path: `/keys/${id}`, script }, async (page) => {
        await page.getByText("The key works").waitFor();
        expect(await page.locator("[role=status].notice, .notice:focus").count()).toBe(0);
        for (const action of ["suspend", "resume"]) {
          await page.locator(`#${action} summary`).click();
          await page.locator(`#${action} button`).click();
          await focusOn(page, ".notice.good[role=status]");
        }
      });
  });

  test("is on the first empty field of a form that issues a key, and on the first wrong one after a refusal", async () => {
    const visit = { path: "/keys/issue", expectedFaults: REFUSED };
    for (const script of [false, true])
      await admin.visitAs("editor", { ...visit, script }, async (page) => {
        await focusOn(page, "#issue-email");
        await page.keyboard.type("ada@example.org");
        await page.getByText("More: organization").click();
        await page.getByLabel("Monthly limit").fill("many");
        await page.getByRole("button", { name: "Issue the key" }).click();
        await focusOn(page, "#issue-tier[aria-invalid]");
        await page.getByLabel("Tier", { exact: true }).selectOption("free");
        await page.getByRole("button", { name: "Issue the key" }).click();
        await focusOn(page, "#issue-monthly_limit[aria-invalid]");
        await page.goto(`${admin.url}/console/keys/issue?email=ada@example.org`);
        await focusOn(page, "#issue-tier");
      });
  });

  test("is on the first scope of a token without one, below what is wrong", async () => {
    const path = "/access?open=issue-token#issue-token-form";
    for (const script of [false, true])
      await admin.visitAs("admin", { path, script, expectedFaults: REFUSED }, async (page) => {
        await page.locator("#issue-token-name").fill("shop");
        await page.getByRole("button", { name: "Issue the token" }).press("Enter");
        await focusOn(page, "fieldset[aria-invalid] [value='keys:read']");
        expect(await page.locator("[aria-invalid]").count()).toBe(1);
        const at = async (selector: string) => (await page.locator(selector).boundingBox())?.y ?? 0;
        expect(await at("#issue-token-scopes-error")).toBeLessThan(await at("[value='keys:read']"));
      });
  });

  test("is on the button that copies the new key", async () => {
    await admin.visitAs("editor", { path: "/keys/issue?email=ada@example.org" }, async (page) => {
      await page.getByLabel("Tier", { exact: true }).selectOption("free");
      await page.getByRole("button", { name: "Issue the key" }).click();
      await focusOn(page, "[data-copies=new-key]");
    });
  });

  test("is on the name of a new model, and on the first wrong field after a refusal", async () => {
    await admin.visitAs("editor", { path: "/models/_add", expectedFaults: REFUSED }, async (page) => {
      await focusOn(page, "#add-name");
      await page.keyboard.type("motor");
      await page.getByRole("button", { name: "Add the model" }).click();
      await focusOn(page, "#add-type[aria-invalid]");
    });
  });
});

describe("A list of two pages", () => {
  beforeAll(async () => {
    for (let n = 0; n < 52; n++) await admin.issue({ email: `user${n}@example.org`, tier: "enterprise" });
  });

  for (const script of [false, true])
    test(`has a link past its rows, to the selection and to the pages, ${script ? "with" : "without"} script`, async () => {
      for (const [role, path, skip, first] of [
        ["editor", "/keys?tier=enterprise", "Skip to the selection and the pages", "[name=all]"],
        ["viewer", "/keys?tier=enterprise", "Skip to the pages", ".pages a"],
        ["viewer", "/accounts", "Skip to the pages", ".pages a"],
      ] as const)
        await admin.visitAs(role, { path, script }, async (page) => {
          const link = page.getByRole("link", { name: skip, exact: true });
          await tabTo(page, link);
          await expect(link.boundingBox()).resolves.toMatchObject({ y: 4 });
          await page.keyboard.press("Enter");
          await page.keyboard.press("Tab");
          if (script && role === "editor") await page.keyboard.press("Tab");
          await focusOn(page, first);
        });
    });

  test("puts the focus on the count after a change of the conditions, the order or the page, not when it opens", async () => {
    for (const script of [false, true])
      await admin.visitAs("editor", { path: "/keys?tier=enterprise", script }, async (page) => {
        await page.getByText(/^1 to 50 of 52 keys, newest first/).waitFor();
        expect(await page.locator("main :focus").count()).toBe(0);
        for (const [act, text] of [
          [
            () => page.getByRole("button", { name: "Show", exact: true }).press("Enter"),
            "1 to 50 of 52 keys, newest",
          ],
          [
            () => page.getByRole("link", { name: "Expires" }).press("Enter"),
            "1 to 50 of 52 keys, soonest expiry",
          ],
          [() => page.getByRole("link", { name: "Next page" }).press("Enter"), "51 to 52 of 52 keys"],
        ] as const) {
          await act();
          await page.locator(":focus", { hasText: text }).waitFor();
          expect(await page.evaluate("scrollY")).toBe(0);
        }
        await page.keyboard.press("Tab");
        await focusOn(page, ".skip-link");
        await page.goto(`${admin.url}/console/keys?search=nobody`);
        await page.getByRole("button", { name: "Show", exact: true }).press("Enter");
        await page.locator(":focus", { hasText: "No key meets these conditions." }).waitFor();
      });
  });
});

test("A text is selected if the browser lets no page copy it", async () => {
  const { id } = await admin.issue();
  await admin.visitAs("viewer", { path: `/keys/${id}` }, async (page) => {
    await page.evaluate("navigator.clipboard.writeText = () => Promise.reject()");
    await page.getByRole("button", { name: `Copy ${id}` }).click();
    await page.getByText("the text is selected, copy it").waitFor();
    expect(await page.evaluate("getSelection().toString()")).toBe(id);
  });
});

test("Log out is not reached just before the content, although it stands there", async () => {
  await admin.visitAs("viewer", { path: "/keys", script: false }, async (page) => {
    await page.locator(".who button").focus();
    await page.keyboard.press("Tab");
    await focusOn(page, "header nav a");
    for (const width of [1440, 1100, 375]) {
      await page.setViewportSize({ width, height: 800 });
      const [menu, who] = await Promise.all(
        ["header nav", ".who"].map((part) => page.locator(part).boundingBox()),
      );
      expect([width, (who?.x ?? 0) + (who?.width ?? 0) > width - 60]).toEqual([width, true]);
      expect([width, (who?.y ?? 0) < (menu?.y ?? 0)]).toEqual([width, width < 1200]);
    }
  });
});

test("The page of an erasure opens at its title, and not at the form below what goes", async () => {
  const { userId } = await admin.issue({ email: "gone@example.org" });
  await admin.visitAs("admin", { path: `/accounts/${userId}` }, async (page) => {
    await page.getByRole("link", { name: "Erase…" }).press("Enter");
    await focusOn(page, "#title");
    await page.getByRole("heading", { name: "What goes" }).waitFor();
    await Bun.sleep(100);
    expect(await page.locator("#title:focus").count()).toBe(1);
    expect(await page.locator(".action[open]").count()).toBe(1);
    expect(await page.evaluate("scrollY")).toBe(0);
  });
});

test("A form that opens in place is in sight with its buttons", async () => {
  const { id } = await admin.issue();
  await admin.visitAs("admin", { path: `/keys/${id}` }, async (page) => {
    await page.setViewportSize({ width: 1280, height: 640 });
    for (const action of ["tier", "revoke"]) {
      await page.evaluate("scrollTo(0, 0)");
      await page.locator(`#${action} summary`).press("Enter");
      await page.locator(`#${action} form :focus`).waitFor();
      const { y = 0, height = 0 } = (await page.locator(`#${action} form`).boundingBox()) ?? {};
      expect([action, y >= 0, y + height <= 640]).toEqual([action, true, true]);
    }
  });
});

test("After a renewal the page leads to the license file", async () => {
  const { id } = await admin.issue({ expiresAt: new Date(admin.clock.nowMs() + 30 * 86_400_000) });
  await admin.visitAs("editor", { path: `/keys/${id}?open=renew#renew-form` }, async (page) => {
    await page.getByRole("button", { name: "Renew the license" }).press("Enter");
    await page.locator(".notice").getByRole("link", { name: "Export license file" }).press("Enter");
    await focusOn(page, "#license-days");
  });
});

test("A slash in the empty search box is no text, and a leading one is not searched", async () => {
  await admin.visitAs("viewer", { path: "/keys" }, async (page) => {
    const box = page.getByLabel("Find anything");
    await page.keyboard.press("/");
    await focusOn(page, "#find");
    await page.keyboard.press("/");
    expect(await box.inputValue()).toBe("");
    await box.fill("/nobody at all");
    await box.press("Enter");
    await page.waitForURL(/search\?q=nobody\+at\+all$/);
  });
});

test("One row that can be selected is named as one", async () => {
  await admin.issue({ email: "single@example.org" });
  await admin.visitAs("editor", { path: "/keys?search=single@example.org" }, async (page) => {
    await page.getByRole("button", { name: "Select this one" }).press("Enter");
    await page.getByText("1 selected").waitFor();
  });
});

test("Escape leaves the search box, and keeps its text and an open form with its values", async () => {
  const { id } = await admin.issue();
  await admin.visitAs("editor", { path: `/keys/${id}?open=limit#limit-form` }, async (page) => {
    await page.getByLabel("Monthly limit").fill("7");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("ada");
    await page.keyboard.press("Escape");
    expect(await page.locator("#find:focus").count()).toBe(0);
    expect(await page.locator("#find").inputValue()).toBe("ada");
    expect(await page.locator("#limit[open]").getByLabel("Monthly limit").inputValue()).toBe("7");
  });
});

test("The space bar follows a link that looks like a button", async () => {
  const { userId } = await admin.issue();
  for (const [path, name, to] of [
    ["/keys", "Issue a key", /\/keys\/issue$/],
    [`/accounts/${userId}`, "Erase…", /\/erasure\?/],
  ] as const)
    await admin.visitAs("admin", { path }, async (page) => {
      await page.getByRole("link", { name }).press(" ");
      await page.waitForURL(to);
    });
});

test("A slash leads from a check box and from a choice to the search box", async () => {
  await admin.issue();
  await admin.visitAs("editor", { path: "/keys" }, async (page) => {
    for (const control of ["[name=id]", "[name=tier]"]) {
      await page.locator(control).first().press("/");
      await focusOn(page, "#find");
    }
  });
});

test("Enter in the check box of a row sends nothing", async () => {
  await admin.issue();
  await admin.visitAs("editor", { path: "/keys" }, async (page) => {
    await page.getByRole("button", { name: /^Select / }).waitFor();
    await page.locator("[name=id]").first().press("Enter");
    await Bun.sleep(200);
    expect(page.url()).toEndWith("/console/keys");
  });
});

test("The results of a search have the focus, also if nothing was found", async () => {
  for (const name of ["parks", "luxemburg"]) await admin.issue({ email: `rosa.${name}@example.org` });
  for (const script of [false, true])
    for (const [text, focused] of [
      ["rosa", "2 found"],
      ["nobody", "Nothing was found for nobody."],
    ] as const)
      await admin.visitAs("viewer", { path: "/keys", script }, async (page) => {
        await page.getByLabel("Find anything").fill(text);
        await page.getByLabel("Find anything").press("Enter");
        await page.locator(":focus", { hasText: focused }).waitFor();
      });
});

test("A new key is read out as shown only once, when it is issued, rotated or replaced", async () => {
  for (const script of [false, true]) {
    const { id } = await admin.issue();
    await admin.visitAs("editor", { path: `/keys/${id}?open=rotate#rotate-form`, script }, async (page) => {
      const shown = page.locator(".notice.good[role=status]", { hasText: "shown only once" });
      await page.getByRole("button", { name: "Issue the new key" }).press("Enter");
      await shown.waitFor();
      await focusOn(page, script ? "[data-copies=new-key]" : ".notice.good");
    });
  }
});

test("The page of many keys begins at the keys, and says at the end what was done to how many", async () => {
  for (const n of [1, 2]) await admin.issue({ email: `many${n}@example.org` });
  for (const script of [false, true])
    await admin.visitAs("editor", { path: "/keys?search=many", script }, async (page) => {
      for (const at of [0, 1]) await page.locator("[name=id]").nth(at).check();
      await page.getByRole("button", { name: "Change the selected keys…" }).press("Enter");
      await page.locator(":focus", { hasText: "Selected: rows of the list" }).waitFor();
      for (const [action, done] of [
        ["suspend", "Suspend: 2 keys done. Failed: 0. Left: 0."],
        ["resume", "Resume: 2 keys done. Failed: 0. Left: 0."],
      ] as const) {
        if (action === "suspend") await page.locator("#suspend summary").click();
        else await page.getByRole("button", { name: "Resume these 2 keys" }).press("Enter");
        await page.locator(`#${action} form button`).press("Enter");
        await page.locator(".confirms .actions button").first().press("Enter");
        await page.locator(":focus", { hasText: done }).waitFor();
      }
    });
});

test("Another month or another time puts the focus on what is shown", async () => {
  await countUse(admin.database, { clock: admin.clock, isStopping: () => false });
  for (const script of [false, true])
    for (const [path, act, shown] of [
      ["/usage", "Show", /^Tiers in \d{4}-\d\d$/],
      ["/activity", "Show", /^By cause, for each hour from /],
      ["/activity?step=day", "Earlier", /^By cause, for each day from /],
    ] as const)
      await admin.visitAs("viewer", { path, script }, async (page) => {
        expect(await page.locator("main :focus").count()).toBe(0);
        await page.locator("main").getByText(act, { exact: true }).press("Enter");
        await page.locator(":focus", { hasText: shown }).waitFor();
        expect(await page.evaluate("scrollY")).toBe(0);
      });
});

test("The open form of an erasure has no button that opens it, and Cancel shows that button", async () => {
  const { userId } = await admin.issue({ email: "opened@example.org" });
  await admin.visitAs("admin", { path: `/accounts/${userId}/erasure?open=erase` }, async (page) => {
    const opener = page.locator("#erase summary");
    await page.getByRole("button", { name: "Revoke all keys" }).waitFor();
    expect(await opener.isVisible()).toBe(false);
    await page.getByRole("link", { name: "Cancel" }).press("Enter");
    await focusOn(page, "#erase summary");
  });
});
