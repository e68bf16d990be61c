/** The console for tests: the listener for operators, a browser, and operators with login codes. */
import type { Locator, Page } from "playwright-core";
import type { Role } from "../../../src/operators/mod.ts";
import { createConsoleClient } from "../../admin/console_client.ts";
import { startAdmin, type TestAdmin } from "../../support/admin.ts";
import { type Browser, openBrowser, type Visit } from "./browser.ts";

/** A name of this machine that the console does not know. */
export const FOREIGN_HOST = "evil.test";

export interface TestConsole extends TestAdmin {
  readonly browser: Browser;
  /** Returns a new login code of the operator `olga`, an admin. */
  code(): Promise<string>;
  /** Begins a session of an operator with the role, opens a page below `/console`, and runs `act` on it. */
  visitAs<Result>(
    role: Role,
    visit: Omit<Visit, "url" | "cookies"> & { readonly path: string },
    act: (page: Page) => Promise<Result>,
  ): Promise<Result>;
}

/** The operators of the tests. */
const NAMES: Readonly<Record<Role, string>> = { viewer: "vera", editor: "emil", admin: "olga" };

/** More than any page has. */
const MAX_TABS = 100;

/** Presses the tabulator until the control has the focus, as people without a mouse do. */
export async function tabTo(page: Page, control: Locator): Promise<void> {
  const focused = page.locator(":focus").and(control);
  for (let presses = 0; presses < MAX_TABS; presses++) {
    await page.keyboard.press("Tab");
    if ((await focused.count()) === 1) return;
  }
  throw new Error(`The tabulator does not reach ${control}`);
}

/** Clicks a button twice before the answer to the first click, and returns how often its form was submitted. */
export function submitTwice(page: Page, button: string): Promise<number> {
  return page.evaluate<number>(`(() => {
    let submissions = 0;
    addEventListener("submit", () => { submissions++ });
    const button = document.querySelector("${button}");
    button.click();
    button.click();
    return submissions;
  })()`);
}

export async function startConsole(options: Parameters<typeof startAdmin>[0] = {}): Promise<TestConsole> {
  const admin = await startAdmin(options);
  const browser = await openBrowser({ hostRules: `MAP ${FOREIGN_HOST} 127.0.0.1` });
  const client = createConsoleClient(admin);
  return {
    ...admin,
    browser,
    code: () => client.newCode(NAMES.admin),
    async visitAs(role, { path, ...visit }, act) {
      const [name = "", value = ""] = (await client.logIn(role, NAMES[role])).cookie.split("=");
      // As the console sets it; `login_test.ts` shows that.
      const cookie = { name, value, url: admin.url, httpOnly: true, sameSite: "Strict" } as const;
      return await browser.visit({ url: `${admin.url}/console${path}`, ...visit, cookies: [cookie] }, act);
    },
    async close() {
      await browser.close();
      await admin.close();
    },
  };
}
