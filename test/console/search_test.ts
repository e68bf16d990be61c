/** The search box of every page, in a real browser. */
import { beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { add } from "../admin/list_kit.ts";
import { useForAll } from "../support/use.ts";
import { startConsole, tabTo } from "./support/console.ts";

const admin = useForAll(startConsole);
let ada = {} as IssuedKey;
beforeAll(async () => {
  ada = await admin.issue({
    email: "ada@example.org",
    name: "Ada Lovelace",
    organization: "Analytical Engines",
  });
  await admin.issue({
    email: "ada.king@example.org",
    name: "Ada King",
    externalId: "order-17",
    tier: "commercial",
  });
  await add(admin, "adaptive_filter");
});

const box = (page: Page) => page.getByRole("search").getByRole("searchbox");
const hasFocus = async (page: Page) => (await page.locator(":focus").and(box(page)).count()) === 1;

test("/ and Ctrl-K put the focus into the box, but / not while another field has it", async () => {
  await admin.visitAs("viewer", { path: "/keys" }, async (page) => {
    expect(await hasFocus(page)).toBe(false);
    await page.keyboard.press("/");
    expect(await hasFocus(page)).toBe(true);
    // Now it is a letter like any other.
    await page.keyboard.type("a/b");
    expect(await box(page).inputValue()).toBe("a/b");
    await page.getByLabel("Search").focus();
    await page.keyboard.press("/");
    expect(await page.getByLabel("Search").inputValue()).toBe("/");
    await page.keyboard.press("Control+k");
    expect(await hasFocus(page)).toBe(true);
    // The text is selected, so that the next one takes its place.
    await page.keyboard.type("ada");
    expect(await box(page).inputValue()).toBe("ada");
  });
});

test("the box finds a key by its whole text, and Back leads to the page before", async () => {
  await admin.visitAs("editor", { path: "/models" }, async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type(ada.apiKey);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/console/keys/${ada.id}`);
    await page.goBack();
    expect(page.url()).toEndWith("/console/models");
  });
});

test("Back leads from the page of a result to the results", async () => {
  await admin.visitAs("admin", { path: "/overview" }, async (page) => {
    await box(page).fill("ada");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Models" }).waitFor();
    expect(page.url()).toEndWith("/console/search?q=ada");
    expect(await box(page).inputValue()).toBe("ada");
    await page.getByRole("link", { name: "ada@example.org" }).first().click();
    await page.goBack();
    await page.getByRole("heading", { name: "Models" }).waitFor();
  });
});

test("the button of the box is in sight at every width, and sends the text with the mouse", async () => {
  for (const width of [320, 1280])
    await admin.visitAs("viewer", { path: "/overview", script: false, width }, async (page) => {
      const button = page.getByRole("search").getByRole("button", { name: "Find" });
      const [{ x = 0, width: shown = 0 } = {}, input] = await Promise.all([
        button.boundingBox().then((found) => found ?? {}),
        box(page).boundingBox(),
      ]);
      // Beside the field, and not behind it or cut.
      expect(x).toBeGreaterThanOrEqual((input?.x ?? 0) + (input?.width ?? 0) - 1);
      expect(x + shown).toBeLessThanOrEqual(width);
      await box(page).fill("order-17");
      await button.click();
      await page.waitForURL("**/console/keys/key_*");
    });
});

test("the button of the box works with the keyboard, without script", async () => {
  await admin.visitAs("viewer", { path: "/overview", script: false }, async (page) => {
    await box(page).fill("order-17");
    const button = page.getByRole("search").getByRole("button");
    await tabTo(page, button);
    expect((await button.boundingBox())?.width).toBeGreaterThan(24);
    await page.keyboard.press("Enter");
    await page.waitForURL("**/console/keys/key_*");
    await page.getByText("ada.king@example.org").first().waitFor();
  });
});

test("the hint of the box is shown whole on a phone", async () => {
  await admin.visitAs("viewer", { path: "/overview" }, async (page) => {
    await page.setViewportSize({ width: 375, height: 800 });
    await page.reload();
    // The width of the text in the font of the box, and the room that the box has for it.
    const [text = 1, room = 0] = await page.evaluate<number[]>(`(() => {
      const box = document.getElementById("find");
      const { font, paddingLeft, paddingRight } = getComputedStyle(box);
      const hint = document.body.appendChild(document.createElement("span"));
      hint.textContent = box.placeholder;
      hint.style.font = font;
      return [hint.getBoundingClientRect().width, box.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight)];
    })()`);
    // The browser keeps room for the button that empties the box, which is as wide as its font.
    expect(text + 15).toBeLessThanOrEqual(room);
  });
});
