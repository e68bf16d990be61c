/** The style of the console has no rule for a class that no page has. */
import { expect, test } from "bun:test";
import { Glob } from "bun";

const ADMIN = new URL("../../src/admin/", import.meta.url).pathname;

/** Returns the text of all files, without comments. */
async function textOf(pattern: string): Promise<string> {
  const paths = [...new Glob(pattern).scanSync({ cwd: ADMIN, absolute: true })];
  const texts = await Promise.all(paths.map((path) => Bun.file(path).text()));
  return texts.join("\n").replaceAll(/\/\*.*?\*\/|^\s*\/\/.*?$/gms, "");
}

/** Classes that carry the number of a column or of a part of a chart. */
const withoutNumber = (name: string) => name.replace(/-\d$/, "");

test("every class of the style is in a text of the pages or their scripts", async () => {
  const [style, pages] = await Promise.all([textOf("**/*.css"), textOf("**/*.{ts,tsx,js}")]);
  const selectors = style.replaceAll(/\{[^{}]*\}/g, "");
  const classes = new Set(
    [...selectors.matchAll(/\.([a-z][\w-]*)/g)].map(([, name = ""]) => withoutNumber(name)),
  );
  const texts = [...pages.matchAll(/"([^"\n]*)"|`([^`]*)`/g)].map(
    ([, text = "", template = ""]) => text + template,
  );
  const words = new Set(texts.flatMap((text) => text.match(/[a-z]+(?:-[a-z]+)*/g) ?? []));
  expect(classes.size).toBeGreaterThan(80);
  expect([...classes].filter((name) => !words.has(name))).toEqual([]);
});
