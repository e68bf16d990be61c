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

/** Each width and each color scheme once. The narrow one is the width of WCAG 1.4.10, which small phones have. */
const LOOKS = [
  { width: 320, colorScheme: "light" },
  { width: 1280, colorScheme: "dark" },
] as const;

/**
 * Expects that axe finds nothing against WCAG 2.2 AA, by default in the whole page and otherwise in what the selector
 * finds, and that the page is not wider than a window.
 */
export async function expectAccessible(page: Page, within = "html"): Promise<void> {
  const size = page.viewportSize() ?? { width: 1280, height: 800 };
  // Not as a script of the page: the page's policy refuses such scripts.
  await page.evaluate(`${AXE};0`);
  for (const { width, colorScheme } of LOOKS) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ ...size, width });
    const run = `axe.run("${within}", { runOnly: ${JSON.stringify(RULES)}, resultTypes: ["violations"] })`;
    const found = await page.evaluate<readonly Finding[]>(`${run}.then(({ violations }) => violations)`);
    const findings = found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html}`);
    expect(findings, `axe at ${width} pixels, ${colorScheme}`).toEqual([]);
    const excess = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    expect(excess, `pixels beyond a window of ${width}`).toBeLessThanOrEqual(0);
  }
  await page.setViewportSize(size);
}

/** Opens every closed part of the page at once, also those of which the page opens one at a time. Returns their number. */
export function openAll(page: Page): Promise<number> {
  return page.evaluate<number>(`[...document.querySelectorAll("main details:not([open])")].map((part) => {
    part.removeAttribute("name");
    part.open = true;
  }).length`);
}

/** What only a script shows: beside it the page has another way, or nothing is missing without it. */
const SCRIPTED = [
  "button[data-copies]",
  "form[data-upload]",
  "form[data-upload] progress",
  "form[data-uploads-after] [hidden]",
  "form[data-selection]",
  "[data-with-file]",
];

/** Expects of a page without script that its title, its forms and all their fields can be seen and used. */
export async function expectUsableWithoutScript(page: Page): Promise<void> {
  await openAll(page);
  const { unseen, hidden } = await page.evaluate<{ unseen: string[]; hidden: string[] }>(`(() => {
    const tagOf = (element) => element.outerHTML.match(/^<[^>]*>/)[0];
    const isSeen = (element) => element.checkVisibility({ visibilityProperty: true });
    const forms = [...document.querySelectorAll("main form:not([hidden])")];
    const controls = forms.flatMap((form) => [...form.elements])
      .filter((control) => control.matches("input:not([type=hidden]), select, textarea, button") && !control.closest("[hidden]"));
    const unseen = [document.querySelector("h1"), ...controls].filter((each) => !isSeen(each)).map(tagOf);
    const unsent = forms.filter((form) => !form.querySelector("button:not([type=button])")).map(tagOf);
    const hidden = [...document.querySelectorAll("main [hidden]")]
      .filter((each) => !each.matches(${JSON.stringify(SCRIPTED.join(", "))})).map(tagOf);
    return { unseen: [...unseen, ...unsent], hidden };
  })()`);
  expect({ unseen, hidden }).toEqual({ unseen: [], hidden: [] });
}
