/** The console for tests: the listener for operators, a browser, and operators with login codes. */
import type { Locator, Page } from "playwright-core";
import { loginOperator, type Role } from "../../../src/operators/mod.ts";
import { isRefusal } from "../../../src/refusal.ts";
import { startAdmin, type TestAdmin } from "../../support/admin.ts";
import { ACTOR } from "../../support/issue.ts";
import { type Browser, openBrowser, type Visit } from "./browser.ts";

/** A name of this machine that the console does not know. */
export const FOREIGN_HOST = "evil.test";

export interface TestConsole extends TestAdmin {
  readonly browser: Browser;
  /** Returns a new login code; creates the operator if the name is new. */
  code(name: string, role?: Role): Promise<string>;
  /** Logs an operator in with a link, opens a page below `/console`, and runs `act` on it. */
  visitAs<Result>(
    operator: { readonly name: string; readonly role?: Role },
    visit: Omit<Visit, "url"> & { readonly path: string },
    act: (page: Page) => Promise<Result>,
  ): Promise<Result>;
}

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

export async function startConsole(options: Parameters<typeof startAdmin>[0] = {}): Promise<TestConsole> {
  const admin = await startAdmin(options);
  const browser = await openBrowser({ hostRules: `MAP ${FOREIGN_HOST} 127.0.0.1` });

  async function code(name: string, role: Role = "admin"): Promise<string> {
    const made = await loginOperator(
      admin.database,
      { name, role },
      { actor: ACTOR, now: admin.clock.now() },
    );
    if (isRefusal(made)) throw new Error(made.sentence);
    return made.code;
  }

  return {
    ...admin,
    browser,
    code,
    visitAs: async ({ name, role }, { path, ...visit }, act) => {
      const url = `${admin.url}/console/enter`;
      const typed = await code(name, role);
      return browser.visit({ url, ...visit }, async (page) => {
        await page.getByLabel("Login code").fill(typed);
        await page.getByRole("button", { name: "Log in" }).click();
        await page.getByText(name).waitFor();
        await page.goto(`${admin.url}/console${path}`);
        return act(page);
      });
    },
    async close() {
      await browser.close();
      await admin.close();
    },
  };
}
