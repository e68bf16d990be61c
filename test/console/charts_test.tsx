/** @jsxImportSource hono/jsx */
/** Charts, in a real browser. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Hono } from "hono";
import { serveAsset } from "../../src/admin/frame/console/assets.ts";
import { Bars } from "../../src/admin/frame/console/components/charts.tsx";
import { renderPage } from "../../src/admin/frame/console/page.tsx";
import type { AdminEnv } from "../../src/admin/frame/options.ts";
import { toTimestamp } from "../../src/base/calendar.ts";
import { TIERS } from "../../src/licensing/mod.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { type Browser, openBrowser } from "./support/browser.ts";
import { tabTo } from "./support/console.ts";

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
          unit="inferences"
          compared={{ columns: MONTHS.slice(0, -2), than: "the five months before" }}
          limit={LIMIT}
        />
        <Bars caption="Inferences by day" columnName="Day" parts={TIERS} series={DAYS} unit="inferences" />
        <Bars
          unit="refusals"
          caption="Refusals by week"
          columnName="Week"
          parts={["expired", "over quota", "revoked", "suspended", "too fast", "unknown"]}
          series={[6, 1, 3, 2].map((n, week) => ({ label: `Week ${week}`, values: [n, 2, n, 3, 1, 2] }))}
        />
        <Bars caption="Downloads" columnName="Day" parts={["Downloads"]} series={[]} unit="downloads" />
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
    const summary = shown.getByText("Numbers").first();
    await summary.focus();
    await shown.keyboard.press("Enter");
    await shown.getByRole("cell", { name: "1,040" }).waitFor();
  });
  await browser.visit({ url }, async (shown) => {
    for (const summary of await shown.getByText("Numbers").all()) await summary.click();
    await expectAccessible(shown);
  });
});

test("A chart shows its values at the pointer at once, without script", async () => {
  await browser.visit({ url, script: false }, async (shown) => {
    const plot = shown.locator(".values").nth(1);
    const { width } = (await plot.boundingBox()) ?? { width: 0 };
    await plot.hover({ position: { x: width * 0.999, y: 20 } });
    expect(await plot.locator("b:visible").allInnerTexts()).toEqual([
      "2026-10-29\nfree 23\nresearch 37\ncommercial 181\nenterprise 178\nAll 419",
    ]);
    await plot.hover({ position: { x: 1, y: 150 } });
    expect(await plot.locator("b:visible").textContent()).toStartWith("2026-08-01\n");
  });
});

test("A chart shows the values of one column while it has the focus, and keys move the column", async () => {
  await browser.visit({ url, width: 320 }, async (shown) => {
    const plot = shown.getByRole("slider", { name: "Values of the chart: Inferences by month" });
    const seen = () => plot.locator("b:visible").allInnerTexts();
    expect(await seen()).toEqual([]);
    await tabTo(shown, plot);
    expect(await seen()).toEqual(["2026-11\nInferences 1"]);
    for (const [key, month] of [
      ["ArrowLeft", "2026-10"],
      ["PageDown", "2026-03"],
      ["ArrowUp", "2026-04"],
      ["Home", "2025-12"],
      ["ArrowLeft", "2025-12"],
      ["End", "2026-11"],
    ] as const) {
      await shown.keyboard.press(key);
      expect((await seen()).map((text) => text.slice(0, 7))).toEqual([month]);
      expect(await plot.getAttribute("aria-valuetext")).toStartWith(month);
    }
    expect(await plot.getAttribute("aria-valuenow")).toBe("12");
    await shown.keyboard.press("Escape");
    expect(await seen()).toEqual([]);
    await shown.keyboard.press("ArrowLeft");
    expect((await seen()).map((text) => text.slice(0, 7))).toEqual(["2026-10"]);
    await expectAccessible(shown);
  });
});

const PARTS = `[...document.querySelectorAll(".legend")].at(-1).querySelectorAll("rect")`;

for (const media of [{ forcedColors: "active" }, { media: "print" }] as const) {
  test(`The parts of a bar are told apart by borders with ${Object.keys(media)[0]}`, async () => {
    await browser.visit({ url }, async (shown) => {
      await shown.emulateMedia(media);
      const looks = await shown.evaluate<string[]>(
        `[...${PARTS}].map((part) => getComputedStyle(part)).map(({ fill, stroke }) => fill + " in " + stroke)`,
      );
      // The parts with a border are the second, the fourth and the last one.
      expect(looks.map((look) => !look.endsWith("none"))).toEqual([false, true, false, true, false, true]);
      expect(looks[0]).not.toBe(looks[2]);
      const dashes = await shown.evaluate<string[]>(
        `[...${PARTS}].map((part) => getComputedStyle(part)).map(({ strokeDasharray }) => strokeDasharray)`,
      );
      expect(new Set([dashes[1], dashes[3], dashes[5]]).size).toBe(3);
      await expectAccessible(shown);
    });
  });
}

/** The labels that are shown, with their places in pixels. */
const LABELS = `[...document.querySelectorAll(".plot text")].map((text) => {
  const { left, right, top } = text.getBoundingClientRect();
  return { left, right, top, size: getComputedStyle(text).fontSize };
}).filter(({ left, right }) => right > left)`;

for (const width of [320, 375, 720, 1000, 1280]) {
  test(`The labels of charts are readable and do not overlap at ${width} pixels`, async () => {
    await browser.visit({ url, width }, async (shown) => {
      const labels =
        await shown.evaluate<{ left: number; right: number; top: number; size: string }[]>(LABELS);
      // In the narrowest window the three charts have room for seven.
      expect(labels.length).toBeGreaterThan(6);
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
