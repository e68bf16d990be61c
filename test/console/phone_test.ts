/** The console on a phone: the menu, the search box, and rows of lists that begin near the top. */
import { beforeAll, describe, expect, test } from "bun:test";
import { makeNotices } from "../../src/notices/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { countUse } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { addDemo } from "../support/demo.ts";
import { licenseWith, placeMachine } from "../support/machines.ts";
import { useForAll } from "../support/use.ts";
import { startConsole } from "./support/console.ts";

const PHONE = { width: 320, height: 640 };
const LISTS = ["keys", "accounts", "machines", "audit"];
const PAGES = [...LISTS, "overview", "notices", "tiers", "usage", "activity", "models", "health", "access"];

const admin = useForAll(() => startConsole({ clock: createTestClock("2026-11-22T15:43:44Z") }));
beforeAll(async () => {
  await addDemo(admin.testDatabase, admin.clock.now());
  await countUse(admin.database, { clock: admin.clock, isStopping: () => false });
  await computeFigures(admin.database, admin);
  await placeMachine(admin.database, await licenseWith(admin.database, { maxMachines: 5 }), "one");
});

describe("On a phone", () => {
  test.each([320, 360])(
    "the menu is folded at %d px, names the page, and once open has every entry in the window",
    async (width) => {
      await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
        await page.setViewportSize({ ...PHONE, width });
        const menu = page.getByRole("navigation", { name: "Menu" });
        for (const name of PAGES) {
          await page.goto(`${admin.url}/console/${name}`);
          expect([name, await menu.locator("a:visible").count()]).toEqual([name, 0]);
          await menu.getByText(`Menu: ${name.charAt(0).toUpperCase()}${name.slice(1)}`).click();
          const boxes = await Promise.all(
            (await menu.locator("a").all()).map((entry) => entry.boundingBox()),
          );
          expect([name, boxes.length]).toEqual([name, PAGES.length]);
          for (const box of boxes) {
            const { x = -1, y = -1, width: ofEntry = 0, height = 0 } = box ?? {};
            expect([x >= 0, x + ofEntry <= width, y + height <= PHONE.height, height >= 24]).toEqual([
              true,
              true,
              true,
              true,
            ]);
          }
        }
      });
    },
  );

  test("a wider window shows the menu without a click", async () => {
    await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
      for (const width of [641, 768, 1280]) {
        await page.setViewportSize({ ...PHONE, width });
        const menu = page.getByRole("navigation", { name: "Menu" });
        expect(await menu.locator("a:visible").count()).toBe(PAGES.length);
        expect(await menu.locator("summary").isVisible()).toBe(false);
      }
    });
  });

  test("the menu is one line from 768 px on", async () => {
    await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
      for (const width of [768, 1024, 1440]) {
        await page.setViewportSize({ ...PHONE, width });
        const entries = await page.getByRole("navigation", { name: "Menu" }).locator("a").all();
        const tops = await Promise.all(entries.map(async (entry) => (await entry.boundingBox())?.y));
        expect([width, new Set(tops).size]).toEqual([width, 1]);
      }
    });
  });

  test("the search box is as wide as the page while it has the focus", async () => {
    await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
      await page.setViewportSize(PHONE);
      const box = page.getByRole("search").getByRole("searchbox");
      const width = async () => (await page.getByRole("search").boundingBox())?.width;
      expect(await width()).toBeLessThan(PHONE.width / 1.5);
      await box.focus();
      expect(await width()).toBeGreaterThan(PHONE.width - 40);
    });
  });

  test("the name of the product stands above the login, where no search box needs the room", async () => {
    await admin.browser.visit({ url: `${admin.url}/console/enter`, script: false, width: 320 }, (page) =>
      page.getByText("Claviger", { exact: true }).waitFor({ state: "visible" }),
    );
  });

  test("a long name of an operator takes no second row of the frame", async () => {
    await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
      await page.setViewportSize(PHONE);
      const top = page.locator("header");
      const { height } = (await top.boundingBox()) ?? {};
      await page.evaluate(`document.querySelector(".who b").textContent = "${"long".repeat(16)}"`);
      expect((await top.boundingBox())?.height).toBe(height);
    });
  });

  test("no number of a panel is broken, and a button stands without the name of its column", async () => {
    await admin.visitAs("admin", { path: "/overview", script: false }, async (page) => {
      await page.setViewportSize(PHONE);
      // Each line of text is its own box.
      const broken = await page.evaluate(`[...document.querySelectorAll(".panel td")].filter((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell.firstChild);
        return /^[0-9,]+$/.test(cell.firstChild.textContent) && range.getClientRects().length > 1;
      }).map((cell) => cell.textContent)`);
      expect(broken).toEqual([]);
    });
    await admin.visitAs("admin", { path: "/access", script: false }, async (page) => {
      await page.setViewportSize(PHONE);
      const label = await page.evaluate(
        'getComputedStyle(document.querySelector("td:has(> form)"), "::before").display',
      );
      expect(label).toBe("none");
    });
  });

  test.each([320, 390])("no word of a panel is broken at %d px, but in an e-mail", async (width) => {
    await admin.visitAs("admin", { path: "/overview", script: false }, async (page) => {
      await page.setViewportSize({ ...PHONE, width });
      const panel = page.locator(".panel", { has: page.getByRole("heading", { name: "Largest consumers" }) });
      expect(await panel.locator("tbody tr").count()).toBeGreaterThan(0);
      const broken =
        await page.evaluate(`[...document.querySelectorAll(".panel .stays:not(.matrix) td")].flatMap((cell) => {
        const words = [];
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
          const node = texts.currentNode;
          if (node.parentElement.closest("bdi")) continue;
          for (const { 0: word, index } of node.data.matchAll(/[^\\s-]+/g)) {
            const range = document.createRange();
            range.setStart(node, index);
            range.setEnd(node, index + word.length);
            if (range.getClientRects().length > 1) words.push(word);
          }
        }
        return words;
      })`);
      expect(broken).toEqual([]);
    });
  });

  test("the columns by which the keys sort are links above the cards", async () => {
    await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
      await page.setViewportSize(PHONE);
      const link = page.getByRole("columnheader", { name: "Expires" }).getByRole("link");
      expect((await link.boundingBox())?.width).toBeGreaterThan(24);
      await link.click();
      await page.waitForURL(/sort=soonest_expiry/);
    });
  });

  test("the values beside each other in a card stand on one line", async () => {
    await admin.visitAs("admin", { path: "/accounts", script: false }, async (page) => {
      await page.setViewportSize({ ...PHONE, width: 360 });
      // An empty item stands on the line on which the words of its cell stand.
      const lines = await page.evaluate<number[]>(`["Tier", "State"].map((label) => {
        const item = document.createElement("i");
        document.querySelector("td[data-label=" + label + "]").append(item);
        return Math.round(item.getBoundingClientRect().bottom);
      })`);
      expect(lines[0]).toBe(lines[1] ?? 0);
    });
  });

  test.each(LISTS)(
    "the conditions of %s are folded, and say which are set, so that rows begin near the top",
    async (name) => {
      await admin.visitAs("admin", { path: `/${name}`, script: false }, async (page) => {
        const form = page.getByRole("form", { name: "Conditions" });
        await form.waitFor({ state: "visible" });
        await page.setViewportSize(PHONE);
        await form.waitFor({ state: "hidden" });
        expect((await page.locator("tbody tr").first().boundingBox())?.y).toBeLessThan(PHONE.height / 2);
        await page.getByText("Conditions", { exact: true }).click();
        await form.waitFor({ state: "visible" });
        await form.locator("input").first().fill("nobody@example.org");
        await form.getByRole("button", { name: "Show" }).click();
        await page.waitForURL(/nobody/);
        await page.getByText(/^Conditions: (search|account) nobody@example.org$/).waitFor();
        expect(await form.isVisible()).toBe(false);
        if (name === "keys" || name === "accounts") {
          await page.getByRole("link", { name: `Show all ${name}` }).click();
          await page.locator("tbody tr").first().waitFor();
        }
      });
    },
  );

  test("each link to the keys and the notices that need attention is high enough for a finger", async () => {
    await makeNotices(
      { ...admin, isStopping: () => false },
      { days: [30, 7, 1], shares: [80, 100], refusalsAnHour: 100 },
    );
    await admin.visitAs("viewer", { path: "/overview", script: false }, async (page) => {
      await page.setViewportSize(PHONE);
      const links = await page.locator(".ways a").all();
      expect(links.length).toBeGreaterThan(6);
      for (const link of links) expect((await link.boundingBox())?.height).toBeGreaterThanOrEqual(24);
      const [first] = links;
      expect((await first?.boundingBox())?.y).toBeLessThan(PHONE.height);
    });
  });
});
