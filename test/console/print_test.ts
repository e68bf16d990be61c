/** The pages of the console on paper. */
import { beforeAll, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import { uuidOf } from "../support/keys.ts";
import { useForAll } from "../support/use.ts";
import { addDayOfLatency } from "../usage/latency/latency_kit.ts";
import { startConsole } from "./support/console.ts";

/** The width of A4 without its margins. */
const PAPER = { width: 718, height: 1_000 };
const PRESSED = "button, .button, input, select, summary, nav, .skip-link";

const admin = useForAll(() => startConsole());
beforeAll(async () => {
  for (const name of ["Ada", "Grace of the Department with a Long Name"])
    await admin.issue({
      ...{ email: `${name.toLowerCase().replaceAll(" ", "-")}@example.org`, name },
      expiresAt: new Date(admin.clock.nowMs() + 300 * 86_400_000),
    });
  // A wide row: places, and a state of many words.
  const hurried = await admin.issue({
    email: "many.requests@example.org",
    tier: "commercial",
    ...{ maxMachines: 100, seatMinutes: 15 },
  });
  await admin.database.query(
    (sql) => sql`
      insert into too_many_requests (key_id, began_at, requests, refused)
      values (${uuidOf(hurried)}::uuid, ${admin.clock.now()}::timestamptz, 240, 173)`,
  );
  await addDayOfLatency(admin.database, admin.clock.nowMs());
});

test("a list prints the conditions that are set, with their values", async () => {
  const path = "/keys?state=active&tier=free";
  await admin.visitAs("admin", { path, script: false }, async (page) => {
    await page.setViewportSize(PAPER);
    const printed = page.locator(".folded > summary");
    expect(await printed.isVisible()).toBe(false);
    await page.emulateMedia({ media: "print" });
    expect(await printed.isVisible()).toBe(true);
    expect(await printed.textContent()).toBe("Conditions: state active, tier free");
  });
});

test("a page that is only a form prints the form without its buttons", async () => {
  await admin.visitAs("admin", { path: "/keys/issue", script: false }, async (page) => {
    await page.emulateMedia({ media: "print" });
    expect(await page.getByLabel("E-mail").first().isVisible()).toBe(true);
    expect(await page.locator("#main button:visible, #main form .actions a:visible").count()).toBe(0);
  });
});

test("a list prints no column of buttons", async () => {
  await admin.visitAs("admin", { path: "/access", script: false }, async (page) => {
    const end = page.getByText("End", { exact: true }).first();
    expect(await end.isVisible()).toBe(true);
    await page.emulateMedia({ media: "print" });
    expect(await end.isVisible()).toBe(false);
  });
});

test("what is folded on the page of a license is printed", async () => {
  const key = await admin.issue({ email: "folded@example.org" });
  const path = `/licenses/${toId("lic", key.licenseUuid)}`;
  await admin.visitAs("admin", { path, script: false }, async (page) => {
    const folded = page.getByText("Offline days", { exact: true });
    expect(await folded.isVisible()).toBe(false);
    await page.emulateMedia({ media: "print" });
    expect(await folded.isVisible()).toBe(true);
  });
});

test("the bar that confirms a change of many keys covers no row that it changes", async () => {
  await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
    await page.getByRole("checkbox", { name: "svc_" }).first().check();
    await page.getByRole("button", { name: "Change the selected keys" }).click();
    await page.locator("summary", { hasText: "Change limit…" }).click();
    const form = page.locator("details[open] > form");
    await form.getByLabel("Monthly limit").fill("7");
    await form.getByRole("button", { name: "Show what will change" }).click();
    const bar = page.locator(".confirms > .actions");
    await bar.waitFor({ state: "visible" });
    await page.emulateMedia({ media: "print" });
    expect(await bar.isVisible()).toBe(false);
    expect(await page.locator(".confirms tbody tr").isVisible()).toBe(true);
  });
});

test("no day in the list of keys is broken", async () => {
  await admin.visitAs("admin", { path: "/keys", script: false }, async (page) => {
    await page.setViewportSize(PAPER);
    await page.emulateMedia({ media: "print" });
    expect(await page.locator("td time").count()).toBeGreaterThan(1);
    const broken = await page.evaluate(`[...document.querySelectorAll("td time")].filter((time) => {
      const range = document.createRange();
      range.setStart(time.firstChild, 0);
      range.setEnd(time.firstChild, "2026-11-22".length);
      return range.getClientRects().length > 1;
    }).map((time) => time.textContent)`);
    expect(broken).toEqual([]);
  });
});

test("the line of a mark is seen on a black area", async () => {
  await admin.database.query(
    (sql) => sql`
      insert into starts (kind, id, version, at)
      values ('process', 'a', '0.5.0', ${admin.clock.now()}::timestamptz - interval '3 hours')`,
  );
  await admin.visitAs("viewer", { path: "/health/latency?endpoint=validate" }, async (page) => {
    const shadow = () =>
      page.evaluate<string>("getComputedStyle(document.querySelector('.latency .limit')).filter");
    expect(await shadow()).toBe("none");
    await page.emulateMedia({ media: "print" });
    expect(await shadow()).toContain("drop-shadow(rgb(255, 255, 255)");
  });
});

for (const path of ["/overview", "/usage", "/keys", "/accounts", "/audit", "/health/latency"])
  test(`${path} has nothing to press, and its tables stay tables within the paper`, async () => {
    await admin.visitAs("admin", { path, script: false }, async (page) => {
      await page.setViewportSize(PAPER);
      const shown = (selector: string) =>
        page.evaluate<string[]>(
          `[...document.querySelectorAll(${JSON.stringify(selector)})]
             .filter((each) => each.checkVisibility()).map((each) => each.outerHTML.slice(0, 100))`,
        );
      expect((await shown(PRESSED)).length).toBeGreaterThan(5);
      await page.emulateMedia({ media: "print" });
      // The numbers of a chart stay folded below their summary.
      expect(await shown(PRESSED.replace("summary", "summary:not(.numbers > *)"))).toEqual([]);
      const cards = await page.evaluate(
        '[...document.querySelectorAll("tbody tr")].filter((row) => getComputedStyle(row).display !== "table-row").length',
      );
      expect(cards).toBe(0);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(PAPER.width);
    });
  });

for (const path of ["/keys", "/audit", "/health/latency", "/health/latency?endpoint=validate"])
  test(`${path} is no wider than paper that is as narrow as a phone, and shows nothing to sort by`, async () => {
    await admin.visitAs("admin", { path, script: false }, async (page) => {
      await page.setViewportSize({ width: 390, height: 1_000 });
      await page.emulateMedia({ media: "print" });
      expect(await page.locator("tbody tr").count()).toBeGreaterThan(1);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
      expect(await page.locator("thead a:visible").count()).toBe(0);
    });
  });
