/** The health of the service, in a real browser. */
import { describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { newUuid } from "../../src/base/ids.ts";
import type { Finding } from "../../src/installation/doctor/mod.ts";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole } from "./support/console.ts";

const DAY_MS = 86_400_000;
const GOOD: Finding = {
  name: "database",
  state: "ok",
  message: "PostgreSQL 18.6 in /var/lib/claviger, the one inside",
};
const HOSTILE = `<img src=x onerror="document.title='run'">\u202eevil`;

const admin = useForAll(async () => {
  const examine = async () => findings;
  return await startConsole({
    admin: { examine, processUuid, certificateExpiresAt: () => certificateExpiresAt },
  });
});
let findings: readonly Finding[];
let certificateExpiresAt: Date | undefined;
const processUuid = newUuid();

/** Gives the service another state, which the next page shows. */
function become(next: readonly Finding[], expiresAt?: Date): void {
  findings = next;
  certificateExpiresAt = expiresAt;
  admin.clock.advance(60_001);
}

async function insertProcess(address: string, { uuid = newUuid(), age = "20 seconds" } = {}): Promise<void> {
  await admin.database.query(
    (sql) => sql`
      insert into processes (id, version, host, address, started_at, seen_at, p50_ms, p95_ms)
      values (${uuid}::uuid, '0.9.1', 'node-a.example.org', ${address}, now() - interval '3 days', now() - ${age}::interval,
              0.6321, 1234.5)`,
  );
}

const summaryOf = async (page: Page) => (await page.locator(".notice").first().textContent())?.trim();
const tableOf = (page: Page, heading: string) => page.locator(`h2:has-text("${heading}") + table`);

describe("Health", () => {
  test("says in one line that everything works", async () => {
    become([GOOD]);
    await insertProcess("http://10.0.0.1:8080", { uuid: processUuid });
    await admin.visitAs("viewer", { path: "/health" }, async (page) => {
      expect(await summaryOf(page)).toBe("Everything works. 1 process serves this database.");
      expect(await tableOf(page, "Processes").locator("tbody tr").textContent()).toMatch(
        /http:\/\/10\.0\.0\.1:8080shows you this pagenode-a\.example\.orgserving0\.9\.1.*3 days agohalf within 0\.63 ms95 % within 1,200 msnow$/,
      );
      await page.getByText("The service has no certificate of its own.").waitFor();
      await takeScreenshots(page, "health");
      await expectAccessible(page);
    });
  });

  test("names what is wrong and what will fail, each with its remedy", async () => {
    const remedy = "free some space, or move the data folder to a larger disk";
    const found: Finding[] = [
      { name: "disk", state: "fail", message: `12 MB free for ${HOSTILE}`, remedy },
      { name: "schema", state: "warn", message: "21", remedy: "run `claviger migrate`" },
      { name: "writes", state: "skip", message: "cannot be seen", remedy: "run as root" },
    ];
    become(found, new Date(admin.clock.nowMs() + 5.5 * DAY_MS));
    await insertProcess("http://10.0.0.2:8080", { age: "6 minutes" });
    const expiresAt = new Date(admin.clock.nowMs() + 10 * DAY_MS);
    await admin.token({ name: "shop", expiresAt });
    await admin.visitAs("admin", { path: "/health" }, async (page) => {
      expect(await summaryOf(page)).toBe(
        "Wrong: disk. Needs attention: schema, certificate expires soon, token shop expires soon, a process is lost.",
      );
      const checks = await tableOf(page, "Checks").locator("tbody tr").allTextContents();
      expect(checks[0]).toBe(`diskwrong12 MB free for ${HOSTILE.replace("\u202e", "\\u202e")}${remedy}`);
      expect(await page.title()).toBe("Health – Claviger");
      expect(await page.locator("td code").first().textContent()).toBe("claviger migrate");
      const expiries = await tableOf(page, "Expiry").locator("tbody tr").allTextContents();
      expect(expiries[0]).toMatch(/^certificateexpires soon.*in [56] daysreplace its files/);
      expect(expiries[1]).toContain("claviger tokens renew shop --expires-at TIME");
      await takeScreenshots(page, "health-bad");
      await expectAccessible(page);
    });
  });

  test("shows the names of tokens to admins only", async () => {
    for (const role of ["viewer", "editor"] as const) {
      const client = createConsoleClient(admin);
      const { cookie } = await client.logIn(role, `reader-${role}`);
      const { text } = await client.send("/health", { cookie });
      expect(text).toContain("certificate");
      expect(text).not.toContain("shop");
    }
  });
});

describe("The requests of the last day", () => {
  const hour = (hoursAgo: number) => {
    const nowMs = admin.clock.nowMs();
    return nowMs - (nowMs % 3_600_000) - hoursAgo * 3_600_000;
  };

  test("say so when there was none", async () => {
    become([GOOD]);
    await admin.visitAs("viewer", { path: "/health" }, async (page) => {
      await page.getByText("No request was counted in the last day.").waitFor();
    });
  });

  test("are shown by endpoint and hour, without script, and unusual hours in the first line", async () => {
    const rows = Array.from({ length: 61 }, (_, hoursAgo) => {
      const of = (endpoint: string, code: string, count: number) =>
        ({ hourMs: hour(hoursAgo), endpoint, code, reason: "", count }) as const;
      return [
        of("validate", "OK", 1_000 + hoursAgo * 10),
        of("validate", "INVALID_KEY", 12),
        ...(hoursAgo % 3 === 0 ? [of("machine_heartbeat", "OK", 40)] : []),
        ...(hoursAgo === 2 ? [of("analytics", "SERVER_ERROR", 31)] : []),
      ];
    });
    await addActivity(admin.database, rows.flat());
    await admin.visitAs("viewer", { path: "/health", script: false }, async (page) => {
      expect(await summaryOf(page)).toMatch(
        /^Needs attention: .*unusually many SERVER_ERROR answers at \d\d:00\. Show unusual hours$/,
      );
      const endpoints = page.getByRole("table", { name: /^Each endpoint links/ }).locator("tbody tr");
      const texts = await endpoints.allTextContents();
      expect(texts.slice(0, 2)).toEqual(["validate27,0482880", "machine_heartbeat32000"]);
      expect(texts[2]).toBe("analytics31031");
      expect(await endpoints.first().getByRole("img").getAttribute("aria-label")).toMatch(
        /^Most at \d\d:00: 1,242$/,
      );
      const headline = page.locator(".total");
      expect(await headline.textContent()).toMatch(
        /^27,\d{3} requests, 1\d % less than in the 24 hours before$/,
      );
      await page.getByRole("link", { name: "analytics", exact: true }).click();
      await page.getByText("Requests by hour, analytics").first().waitFor();
      expect(await headline.textContent()).toBe("31 requests, none in the 24 hours before");
      await page.getByText("Numbers").click();
      const numbers = await page.locator(".numbers tbody tr").allTextContents();
      expect(numbers).toHaveLength(24);
      expect(numbers[2]).toMatch(/^\d\d:00003131$/);
      await page.getByRole("link", { name: "Show all endpoints" }).click();
      await page.getByText("Requests by hour, all endpoints").first().waitFor();
      await page.getByRole("link", { name: "Show unusual hours" }).click();
      await page.getByRole("table", { name: "Unusual hours, the latest first" }).waitFor();
    });
    await admin.visitAs("viewer", { path: "/health" }, async (page) => {
      await takeScreenshots(page, "health-requests");
      await expectAccessible(page);
      await page.emulateMedia({ forcedColors: "active" });
      await expectAccessible(page);
    });
  });
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
      await page.getByText("Needs attention: a process is lost").waitFor();
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
