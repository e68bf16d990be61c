/**
 * What the crawl does at each page. axe examines it in a narrow window and in a wide one, and nothing may be wider than
 * the window. No id occurs twice. The visit fails, too, if the page has an error of a script, a violation of its policy or a request to
 * another origin. Then the page is opened without script.
 */
import { expect } from "bun:test";
import type { Page } from "playwright-core";
import type { Role } from "../../../src/operators/mod.ts";
import type { SampleVisit } from "../../admin/sample_visits.ts";
import { expectAccessible, expectUsableWithoutScript, openAll } from "./accessibility.ts";
import { takeScreenshots } from "./browser.ts";
import type { TestConsole } from "./console.ts";

export interface Seen {
  /** Below `/console`. */
  readonly path: string;
  /** Without a role nobody is logged in. */
  readonly role?: Role;
  /** The status of a refusal. */
  readonly refused?: number;
  /** The name of the pictures; by default it is made from the path. */
  readonly name?: string;
}

/** Examines a page, also with all its closed parts open, and then without script. */
export async function examinePage(admin: TestConsole, seen: Seen): Promise<void> {
  const { path, name = nameIn(path) } = seen;
  await visit(admin, seen, async (page) => {
    await takeScreenshots(page, name);
    await expectAccessible(page);
    await expectEachIdOnce(page);
    if ((await openAll(page)) === 0) return;
    await takeScreenshots(page, `${name}-open`);
    // The rest of the page is as before, and examining it takes most of the time.
    await expectAccessible(page, "main details");
  });
  await visit(admin, { ...seen, script: false }, expectUsableWithoutScript);
}

/** A label or a link with an id that occurs twice names the first of them. axe examines only some of these. */
async function expectEachIdOnce(page: Page): Promise<void> {
  const ids = await page.locator("[id]").evaluateAll((elements) => elements.map(({ id }) => id));
  expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
}

/** Sends a form from a page of the console, and examines the answer. */
export async function examineAnswer(
  admin: TestConsole,
  { path, form = {} }: SampleVisit,
  { name = nameIn(path), refused }: Pick<Seen, "name" | "refused">,
): Promise<void> {
  // The page from which it is sent says little.
  await visit(admin, { path: "/search", role: "admin", ...(refused && { refused }) }, async (page) => {
    await send(page, `${admin.url}/console${path}`, form);
    await takeScreenshots(page, name);
    await expectAccessible(page);
  });
}

function visit(
  admin: TestConsole,
  { path, role, refused, script = true }: Seen & { readonly script?: boolean },
  act: (page: Page) => Promise<void>,
): Promise<void> {
  const expectedFaults = refused === undefined ? [] : [new RegExp(`status of ${refused}`)];
  const options = { path, script, expectedFaults };
  return role === undefined
    ? admin.browser.visit({ ...options, url: `${admin.url}/console${path}` }, act)
    : admin.visitAs(role, options, act);
}

/** Sends a form as a page of the console does, and waits for the answer. */
async function send(page: Page, action: string, fields: NonNullable<SampleVisit["form"]>): Promise<void> {
  const answered = page.waitForEvent("load");
  await page.evaluate(`(() => {
    const form = Object.assign(document.createElement("form"), { method: "post", action: ${JSON.stringify(action)} });
    for (const [name, value] of ${JSON.stringify(Object.entries(fields))})
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    document.body.append(form);
    form.submit();
  })()`);
  await answered;
}

const nameIn = (path: string) => path.replaceAll(/[^a-z0-9]+/gi, "-").replaceAll(/^-|-$/g, "");
