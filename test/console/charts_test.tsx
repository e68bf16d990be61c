/** @jsxImportSource hono/jsx */
/** Charts, in a real browser. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Hono } from "hono";
import { serveAsset } from "../../src/admin/frame/console/assets.ts";
import { Bars } from "../../src/admin/frame/console/components/charts.tsx";
import { renderPage } from "../../src/admin/frame/console/page.tsx";
import type { AdminEnv } from "../../src/admin/frame/options.ts";
import { toTimestamp } from "../../src/calendar.ts";
import { TIERS } from "../../src/licensing/mod.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { type Browser, openBrowser, takeScreenshots } from "./support/browser.ts";

const MONTHS = Array.from({ length: 12 }, (_, index) => ({
  label: toTimestamp(new Date(Date.UTC(2026, index - 1))).slice(0, 7),
  values: [[0, 0, 120, 340, 333, 560, 800, 790, 1_000, 1_040, 12, 1][index] ?? 0],
}));
const DAYS = Array.from({ length: 90 }, (_, index) => ({
  label: toTimestamp(new Date(Date.UTC(2026, 7, 1 + index))).slice(0, 10),
  values: [(index * 7) % 40, 20 + ((index * 13) % 60), (index * 29) % 200, index * 2],
}));
const LIMIT = { value: 1_000, label: "Limit: 1,000 a month" };

const page = renderPage(
  {
    title: "Charts",
    body: (
      <>
        <Bars
          caption="Inferences by month"
          columnName="Month"
          parts={["Inferences"]}
          series={MONTHS}
          limit={LIMIT}
        />
        <Bars id="days" caption="Inferences by day" columnName="Day" parts={TIERS} series={DAYS} />
        <Bars
          id="weeks"
          caption="Refusals by week"
          columnName="Week"
          parts={["expired", "over quota", "revoked", "suspended", "too fast", "unknown"]}
          series={[6, 1, 3, 2].map((n, week) => ({ label: `Week ${week}`, values: [n, 2, n, 3, 1, 2] }))}
        />
        <Bars caption="Downloads" columnName="Day" parts={["Downloads"]} series={[]} />
      </>
    ),
  },
  { menu: [], session: undefined, path: "/" },
);

let browser: Browser;
let server: ReturnType<typeof Bun.serve>;
let url: string;
beforeAll(async () => {
  const app = new Hono<AdminEnv>().get("/console/assets/:name", serveAsset).get("/", (c) => c.html(page));
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: app.fetch });
  url = `http://127.0.0.1:${server.port}/`;
  browser = await openBrowser();
});
afterAll(async () => {
  await browser?.close();
  await server?.stop(true);
});

test("Charts are accessible, also with their numbers open, and open them by keyboard without script", async () => {
  await browser.visit({ url, script: false }, async (shown) => {
    await takeScreenshots(shown, "charts");
    const summary = shown.getByText("Numbers").first();
    await summary.focus();
    await shown.keyboard.press("Enter");
    await shown.getByRole("cell", { name: "1,040" }).waitFor();
  });
  await browser.visit({ url }, async (shown) => {
    for (const summary of await shown.getByText("Numbers").all()) await summary.click();
    await takeScreenshots(shown, "charts-numbers");
    await expectAccessible(shown);
  });
});

/** The labels that are shown, with their places in pixels. */
const LABELS = `[...document.querySelectorAll(".plot text")].map((text) => {
  const { left, right, top } = text.getBoundingClientRect();
  return { left, right, top, size: getComputedStyle(text).fontSize };
}).filter(({ left, right }) => right > left)`;

for (const width of [375, 720, 1000, 1280]) {
  test(`The labels of charts are readable and do not overlap at ${width} pixels`, async () => {
    await browser.visit({ url, width }, async (shown) => {
      const labels =
        await shown.evaluate<{ left: number; right: number; top: number; size: string }[]>(LABELS);
      expect(labels.length).toBeGreaterThan(9);
      for (const [index, { left, right, top, size }] of labels.entries()) {
        expect(size).toBe("12px");
        expect(left).toBeGreaterThan(0);
        expect(right).toBeLessThan(width);
        const next = labels[index + 1];
        if (next?.top === top) expect(right).toBeLessThan(next.left);
      }
    });
  });
}
