import { expect } from "bun:test";
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";

const AXE = readFileSync(Bun.resolveSync("axe-core/axe.min.js", import.meta.dir), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"];

interface Finding {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** Each width and each color scheme once. */
const LOOKS = [
  { width: 375, colorScheme: "light" },
  { width: 1280, colorScheme: "dark" },
] as const;

/** Expects that axe finds nothing against WCAG 2.2 AA, and that the page is not wider than a window. */
export async function expectAccessible(page: Page): Promise<void> {
  const size = page.viewportSize() ?? { width: 1280, height: 800 };
  // Not as a script of the page: the page's policy refuses such scripts.
  await page.evaluate(`${AXE};0`);
  for (const { width, colorScheme } of LOOKS) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ ...size, width });
    const run = `axe.run({ runOnly: ${JSON.stringify(RULES)} })`;
    const found = await page.evaluate<readonly Finding[]>(`${run}.then(({ violations }) => violations)`);
    const findings = found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html}`);
    expect(findings, `axe at ${width} pixels, ${colorScheme}`).toEqual([]);
    const excess = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    expect(excess, `pixels beyond a window of ${width}`).toBeLessThanOrEqual(0);
  }
  await page.setViewportSize(size);
}
