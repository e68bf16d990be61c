/** Tables in windows of every width: which become cards, which columns they lose, and that nothing is wider than the window. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { parseId, toId } from "../../src/base/ids.ts";
import { makeNotices, mute } from "../../src/notices/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { countUse } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { addDemo } from "../support/demo.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { licenseWith, placeMachine } from "../support/machines.ts";
import { useForAll } from "../support/use.ts";
import { addDayOfLatency } from "../usage/latency/latency_kit.ts";
import { startConsole } from "./support/console.ts";

const HEIGHT = 800;
const LISTS = [
  "/keys",
  "/accounts",
  "/machines",
  "/notices",
  "/notices/muted",
  "/models",
  "/audit",
  "/usage",
  "/activity",
  "/health",
  "/health/latency",
  "/health/latency?endpoint=validate",
  "/access",
];

const LONG_EMAIL =
  "administration.licenses+billing_2026@neurotechnology-department.university-hospital.example";

const admin = useForAll(() => startConsole({ clock: createTestClock("2026-11-22T15:43:44Z") }));
let license: string;
let refusedKey: string;
beforeAll(async () => {
  await addDemo(admin.testDatabase, admin.clock.now());
  await countUse(admin.database, { clock: admin.clock, isStopping: () => false });
  await computeFigures(admin.database, admin);
  await makeNotices(
    { database: admin.database, clock: admin.clock, isStopping: () => false },
    { days: [30, 7, 1], shares: [80, 100], refusalsAnHour: 100 },
  );
  const of = await licenseWith(admin.database, { maxMachines: 5 });
  await placeMachine(admin.database, of, "one");
  license = `/licenses/${toId("lic", of.licenseUuid)}`;
  const { id } = await admin.issue();
  refusedKey = `/keys/${id}`;
  await admin.database.query(
    (sql) => sql`
      insert into refusals (key_id, code, reason, count, last_at)
      values (${parseId("key", id) ?? ""}, 'RATE_LIMIT_EXCEEDED', 'analytics_batch', 3, '2026-11-22T15:00:00Z')`,
  );
  orThrow(await mute(admin.database, of, { actor: ACTOR, now: admin.clock.now() }));
  await addDayOfLatency(admin.database, admin.clock.nowMs());
  await admin.issue({ email: LONG_EMAIL });
});

/** Opens a page, and runs `act` with a function that gives the window another width. */
async function visit(
  path: string,
  act: (page: Page, widen: (width: number) => Promise<void>) => Promise<void>,
) {
  await admin.visitAs("admin", { path, script: false }, (page) =>
    act(page, (width) => page.setViewportSize({ width, height: HEIGHT })),
  );
}

/** Returns how many rows of the tables that are shown are cards. */
const cardsIn = (page: Page, tables = "table") =>
  page.evaluate<number>(`[...document.querySelectorAll("${tables} > tbody > tr")]
    .filter((row) => row.checkVisibility() && getComputedStyle(row).display !== "table-row").length`);

/** Returns the heads of the columns that a window has. */
const headsIn = (page: Page) => page.locator("thead th:visible").allTextContents();

test("The conditions of the audit log stand beside each other at 1,440 px", async () => {
  await visit("/audit", async (page, widen) => {
    await widen(1_440);
    const fields = await page.getByRole("form", { name: "Conditions" }).locator(".field").all();
    expect(fields.length).toBe(6);
    const tops = await Promise.all(fields.map(async (field) => (await field.boundingBox())?.y));
    expect(new Set(tops).size).toBe(1);
  });
});

test("The fields of the form that imports a report are equally wide", async () => {
  await visit("/usage/reports", async (page, widen) => {
    await widen(1_440);
    const fields = await page.locator("#main form .field:visible").all();
    expect(fields.length).toBeGreaterThan(3);
    const widths = await Promise.all(fields.map(async (field) => (await field.boundingBox())?.width));
    expect(widths).toEqual(widths.map(() => widths[0]));
  });
});

test.each(["/keys", "/audit", "/accounts", "/machines", "/usage"])(
  "Each line of an e-mail of %s ends after a sign at 768 px",
  async (path) => {
    await visit(path, async (page, widen) => {
      await widen(768);
      // The position of each letter tells its line.
      const [lines, broken] = await page.evaluate<[number, string[]]>(`(() => {
        let lines = 0;
        const broken = [];
        for (const email of document.querySelectorAll("table bdi")) {
          if (!email.textContent.includes("@") || !email.checkVisibility()) continue;
          let last;
          const texts = document.createTreeWalker(email, NodeFilter.SHOW_TEXT);
          while (texts.nextNode()) for (let at = 0; at < texts.currentNode.length; at++) {
            const range = document.createRange();
            range.setStart(texts.currentNode, at);
            range.setEnd(texts.currentNode, at + 1);
            const letter = { sign: range.toString(), bottom: range.getBoundingClientRect().bottom };
            if (last && letter.bottom > last.bottom + 1) {
              lines++;
              if (!"@._+-".includes(last.sign)) broken.push(email.textContent);
            }
            last = letter;
          }
        }
        return [lines, broken];
      })()`);
      expect(broken).toEqual([]);
      if (path !== "/keys") return;
      expect(lines).toBeGreaterThan(0);
      expect(await page.getByRole("link", { name: LONG_EMAIL, exact: true }).count()).toBe(1);
    });
  },
);

test("The values of a change in the audit log stand beside each other where they fit", async () => {
  await visit("/audit", async (page, widen) => {
    for (const width of [600, 768, 1_440]) {
      await widen(width);
      const tops = await page
        .locator("ul.altered", { hasText: "kind: quota_used" })
        .first()
        .locator("li")
        .evaluateAll((values) => values.map((value) => value.getBoundingClientRect().top));
      expect(tops.length).toBeGreaterThan(2);
      expect(new Set(tops).size).toBeLessThan(tops.length);
    }
  });
});

test("The link beside a button of a row is not broken", async () => {
  await visit("/notices", async (page, widen) => {
    for (const width of [768, 1_440]) {
      await widen(width);
      const links = page.locator("td button + a");
      expect(await links.count()).toBeGreaterThan(0);
      expect(
        await links.evaluateAll((all) => all.filter((link) => link.getClientRects().length > 1).length),
      ).toBe(0);
    }
  });
});

describe("A table", () => {
  test.each([...LISTS, "/overview", "/tiers"])(
    "of %s is a table from 481 px on, within the window",
    async (path) => {
      await visit(path, async (page, widen) => {
        for (const width of [481, 600, 737, 768, 1_024, 1_100, 1_440]) {
          await widen(width);
          expect([width, await cardsIn(page)]).toEqual([width, 0]);
          expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
        }
      });
    },
  );

  test("of a license and of its history is one, too", async () => {
    await visit(license, async (page, widen) => {
      for (const width of [481, 768]) {
        await widen(width);
        expect([width, await cardsIn(page)]).toEqual([width, 0]);
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
      }
    });
  });

  test("of refusals has a sentence in its first column, which wraps in every window", async () => {
    await visit(refusedKey, async (page, widen) => {
      await page.getByRole("rowheader", { name: /^Too many .* in a minute: / }).waitFor();
      for (const width of [320, 390, 481, 768, 1_024, 1_100, 1_440]) {
        await widen(width);
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
      }
    });
  });

  test("of many columns loses the least important ones first, and cards have all", async () => {
    await visit("/keys", async (page, widen) => {
      const all = ["Key", "Account", "State", "Tier, mode", "Used this month", "Expires", "Last used"];
      await widen(1_280);
      expect(await headsIn(page)).toEqual(all);
      await widen(768);
      expect(await headsIn(page)).toEqual(all.slice(0, -1));
      await widen(600);
      expect(await headsIn(page)).toEqual(["Key", "Account", "State", "Used this month"]);
      await widen(480);
      expect(await cardsIn(page)).toBeGreaterThan(30);
      const labels = await page
        .locator("tbody tr")
        .first()
        .locator("td:visible")
        .evaluateAll((cells) => cells.map((cell) => cell.getAttribute("data-label")));
      expect(labels).toEqual(all.slice(1));
    });
  });

  test("whose cells are numbers or whose columns are few stays one on a phone", async () => {
    await visit("/overview", async (page, widen) => {
      await widen(320);
      expect(await page.locator("tbody tr:visible").count()).toBeGreaterThan(20);
      expect(await cardsIn(page, ".columns table")).toBe(0);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(320);
    });
  });
});
