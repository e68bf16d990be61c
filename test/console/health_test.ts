/** The page Health refreshes itself. `test/admin/health_page_test.ts` has what it says. */
import { describe, expect, test } from "bun:test";
import type { Finding } from "../../src/installation/doctor/mod.ts";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { useForAll } from "../support/use.ts";
import { addDayOfLatency } from "../usage/latency/latency_kit.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { startConsole } from "./support/console.ts";

const HOUR_MS = 3_600_000;
const GOOD: Finding = { name: "database", state: "ok", message: "PostgreSQL 18.6, the one inside" };

const admin = useForAll(() => startConsole({ admin: { examine: async () => findings } }));
let findings: readonly Finding[];

/** Gives the service another state, which the next page shows. */
function become(next: readonly Finding[]): void {
  findings = next;
  admin.clock.advance(60_001);
}

test("The page is accessible with the colors that a reader forces", async () => {
  become([GOOD]);
  const hourMs = Math.floor(admin.clock.nowMs() / HOUR_MS) * HOUR_MS - HOUR_MS;
  await addActivity(admin.database, [{ hourMs, endpoint: "validate", code: "OK", reason: "", count: 7 }]);
  await admin.visitAs("viewer", { path: "/health" }, async (page) => {
    await page.emulateMedia({ forcedColors: "active" });
    await expectAccessible(page);
  });
});

test("Latency of five minutes is accessible, and no wider than a narrow window, with the longest sentences of errors", async () => {
  become([GOOD]);
  const nowMs = admin.clock.nowMs();
  await addDayOfLatency(admin.database, nowMs);
  const answer = { hourMs: Math.floor(nowMs / HOUR_MS) * HOUR_MS, endpoint: "analytics", reason: "" };
  const codes = ["PAYLOAD_TOO_LARGE", "EXPECTATION_FAILED"] as const;
  await addActivity(
    admin.database,
    codes.map((code) => ({ ...answer, code, count: 7 })),
  );
  const at = new Date(nowMs).toISOString().slice(0, 19);
  const path = `/health/latency?endpoint=analytics&at=${at}Z`;
  await admin.visitAs("viewer", { path, width: 320 }, async (page) => {
    await page.getByText("The body has more than").waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    await expectAccessible(page);
  });
  // The next pages say that everything works, and some of it is slow.
  await admin.database.query((sql) => sql`delete from latency_steps`);
});

describe("A page that refreshes itself", () => {
  const MINUTE_MS = 60_000;

  test("shows the state of now each minute, while nobody uses it", async () => {
    become([GOOD]);
    await admin.visitAs("viewer", { path: "/health" }, async (page) => {
      await page.clock.install();
      await page.reload();
      const mark = () => page.evaluate("document.querySelector('main').dataset.old = 'yes'");
      const isOld = () => page.evaluate("document.querySelector('main').dataset.old === 'yes'");
      await mark();
      await page.clock.runFor(MINUTE_MS - 5_001);
      expect(await isOld()).toBe(true);
      become([{ ...GOOD, name: "disk", state: "fail", remedy: "free some space" }]);
      await page.clock.runFor(10_000);
      await page.getByText("Wrong: disk.").waitFor();
      expect(await isOld()).toBe(false);
      // A control with the focus, as for someone who reads by keyboard, keeps the page as it is.
      await page.evaluate(
        `document.querySelector("main").append(Object.assign(document.createElement("input"), { id: "x" }))`,
      );
      await page.locator("#x").fill("typed");
      await page.evaluate("document.activeElement.blur()");
      await mark();
      become([GOOD]);
      await page.clock.runFor(3 * MINUTE_MS);
      expect(await isOld()).toBe(true);
      await page.locator("#x").fill("");
      await page.evaluate("document.activeElement.blur()");
      await page.clock.runFor(10_000);
      await page.getByText("Everything works.").waitFor();
    });
  });

  test("leads to the login when its session has ended, because refreshing does not extend it", async () => {
    await admin.visitAs("viewer", { path: "/health" }, async (page) => {
      await page.clock.install();
      await page.reload();
      for (let minutes = 0; minutes < 2; minutes++) {
        admin.clock.advance(14 * MINUTE_MS);
        const [answer] = await Promise.all([
          page.waitForResponse((response) => response.request().headers()["x-refresh"] === "1"),
          page.clock.runFor(MINUTE_MS + 5_000),
        ]);
        expect(answer.status()).toBe(200);
        await answer.finished();
      }
      admin.clock.advance(3 * MINUTE_MS);
      await page.clock.runFor(MINUTE_MS + 5_000);
      await page.getByText("Your session has ended: log in again.").waitFor();
    });
  });

  test("says that it is old when the service does not answer", async () => {
    const visit = { path: "/health", expectedFaults: [/ERR_FAILED/] };
    await admin.visitAs("viewer", visit, async (page) => {
      await page.clock.install();
      await page.reload();
      await page.route("**/console/health", (route) => route.abort("failed"));
      await page.clock.runFor(2 * MINUTE_MS);
      expect(await page.locator("#old").textContent()).toMatch(
        /^The service does not answer: this page is as it was at \d\d:\d\d UTC\.$/,
      );
      await page.unroute("**/console/health");
      await page.clock.runFor(10_000);
      await page.locator("#old").waitFor({ state: "detached" });
    });
  });
});
