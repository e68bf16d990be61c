/** Where the focus is, for people who use the console without a mouse, in a real browser. */
import { describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { startConsole } from "./support/console.ts";

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
        if (script) await expectAccessible(page);
      });
  });

  test("is on the first empty field of a form that issues a key, and on the first wrong one after a refusal", async () => {
    const visit = { path: "/keys/issue", expectedFaults: REFUSED };
    for (const script of [false, true])
      await admin.visitAs("editor", { ...visit, script }, async (page) => {
        await focusOn(page, "#issue-email");
        await page.keyboard.type("ada@example.org");
        await page.getByLabel("Monthly limit").fill("many");
        await page.getByRole("button", { name: "Issue the key" }).click();
        await focusOn(page, "#issue-tier[aria-invalid]");
        await page.goto(`${admin.url}/console/keys/issue?email=ada@example.org`);
        await focusOn(page, "#issue-tier");
      });
  });

  test("is on the button that copies the new key", async () => {
    await admin.visitAs("editor", { path: "/keys/issue?email=ada@example.org" }, async (page) => {
      await page.getByLabel("Tier").selectOption("free");
      await page.getByRole("button", { name: "Issue the key" }).click();
      await focusOn(page, "[data-copies=api-key]");
    });
  });

  test("is on the name of a new model, and every field that needs a value is marked in the first round", async () => {
    await admin.visitAs("editor", { path: "/models/_add", expectedFaults: REFUSED }, async (page) => {
      await focusOn(page, "#add-name");
      await page.keyboard.type("motor");
      await page.getByRole("button", { name: "Add the model" }).click();
      await focusOn(page, "#add-type[aria-invalid]");
      expect(await page.locator("#add-type-error").textContent()).toBe("It must be chosen");
      expect(await page.locator("[aria-invalid]").count()).toBe(5);
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
