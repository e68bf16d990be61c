/** The list of accounts and the page of an account, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { parseId } from "../../src/base/ids.ts";
import { type IssuedKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges, listAccounts, renewAccount } from "../../src/licensing/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole, tabTo } from "./support/console.ts";

const HOSTILE = `<img src=x onerror="document.title='run'"> "'&amp;\u202eevil`;
const SHOWN = HOSTILE.replace("\u202e", "\\u202e");
const LONG = `${"a-very-long-name-of-a-person".repeat(2)}@${"department.".repeat(15)}example.org`;
const DAY_MS = 86_400_000;
/** A page of the console is never larger. */
const MAX_BYTES = 150_000;

const admin = useForAll(startConsole);

const path = ({ userId }: IssuedKey) => `/accounts/${userId}`;
const rows = (page: Page) => page.locator("tbody tr");
const inDays = (days: number) => new Date(admin.clock.nowMs() + days * DAY_MS);
const by = (reason?: string) => ({ actor: { ...ACTOR, reason }, now: admin.clock.now() });
const accountOf = async (email: string) =>
  (await listAccounts(admin.database)).find((account) => account.email === email);

async function open(page: Page, action: string): Promise<void> {
  await page.locator("summary", { hasText: action }).click();
}

describe("The list of accounts", () => {
  test("says what to do while it is empty", async () => {
    await admin.visitAs("editor", { path: "/accounts" }, async (page) => {
      await page.getByText("the first key of a new e-mail makes one").waitFor();
      await takeScreenshots(page, "accounts-empty");
      await expectAccessible(page);
      await page.getByRole("link", { name: "Issue a key" }).waitFor();
    });
    await admin.visitAs("viewer", { path: "/accounts" }, async (page) => {
      expect(await page.getByRole("link", { name: "Issue a key" }).count()).toBe(0);
    });
  });

  test("shows 50 accounts, and the others on the next page; a search narrows it, without script", async () => {
    for (let n = 0; n < 53; n++) {
      const names = n % 3 === 0 ? { name: "Grace Hopper", organization: "Compiler Labs" } : {};
      await admin.issue({ email: `user${n}@example.org`, ...names });
    }
    await admin.issue({ email: LONG, name: "N".repeat(200), organization: "Organization ".repeat(15) });
    const visit = { path: "/accounts", script: false, expectedFaults: [/status of 400/] };
    await admin.visitAs("viewer", visit, async (page) => {
      expect(await rows(page).count()).toBe(50);
      await page.getByRole("link", { name: "Next page" }).click();
      await page.getByRole("link", { name: "First page" }).waitFor();
      expect(await rows(page).count()).toBe(4);
      await page.getByLabel("Search").fill("hopper");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "Show all" }).waitFor();
      expect(await rows(page).count()).toBe(18);
      await page.getByLabel("Search").fill("nobody");
      await page.getByRole("button", { name: "Show" }).click();
      await page.getByText("No account matches.").waitFor();
      await page.getByLabel("Search").fill("!!");
      await page.getByRole("button", { name: "Show" }).click();
      await page.getByText("Nothing is shown: search must be one line").waitFor();
    });
    await admin.visitAs("viewer", { path: "/accounts" }, async (page) => {
      await takeScreenshots(page, "accounts");
      await expectAccessible(page);
      expect((await page.content()).length).toBeLessThan(MAX_BYTES);
      await page.getByRole("link", { name: "user52@example.org" }).click();
      await page.getByRole("heading", { name: "user52@example.org" }).waitFor();
    });
  });
});

describe("The page of an account", () => {
  let grace: IssuedKey;

  beforeAll(async () => {
    const email = "grace@example.org";
    grace = await admin.issue({ email, tier: "commercial", expiresAt: inDays(12), externalId: "order-7" });
    const second = await admin.issue({ email, tier: "free", mode: "test", expiresAt: inDays(200) });
    await suspendKey(
      createLicenseChanges(admin.database),
      parseId("key", second.id) ?? "",
      by("unpaid <b>bill</b>"),
    );
    const twoDaysAgo = { ...by("paid"), now: inDays(-2) };
    await renewAccount(createLicenseChanges(admin.database), parseId("usr", second.userId) ?? "", twoDaysAgo);
    for (const [month, used] of [0, 40, 90_000, 120_000, 200, 7_000].entries()) {
      await admin.database.query(
        (sql) => sql`
          insert into usage (license_id, month, used)
          values (${grace.licenseUuid}::uuid,
                  (date_trunc('month', ${admin.clock.now()}::timestamptz at time zone 'utc')
                    - make_interval(months => ${month}::int))::date, ${used}::bigint)`,
      );
    }
  });

  test("shows facts, licenses with their keys, use and history", async () => {
    await admin.visitAs("viewer", { path: path(grace) }, async (page) => {
      const text = (await page.locator("main").textContent()) ?? "";
      for (const part of [grace.userId, "order-7", "commercial", "license.renew", "unpaid <b>bill</b>"]) {
        expect(text).toContain(part);
      }
      expect(await page.locator(`a[href="/console/keys/${grace.id}"]`).count()).toBeGreaterThan(0);
      await page.getByRole("img", { name: "Inferences by month" }).waitFor();
      await page.getByText("Numbers").click();
      await page.getByRole("cell", { name: "120,000" }).waitFor();
      expect((await page.content()).length).toBeLessThan(MAX_BYTES);
      await takeScreenshots(page, "account");
      await expectAccessible(page);
    });
  });

  test("says first which keys are refused and why, then shows the licenses, before actions and use", async () => {
    await admin.visitAs("editor", { path: path(grace) }, async (page) => {
      const box = page.locator(".notice.warning");
      expect(await box.textContent()).toMatch(
        /^The service refuses requests with 1 key of this account\.svc_test_\w{4}…\w{4}: It is suspended\.$/,
      );
      const places = await Promise.all(
        [
          box.getByRole("link"),
          page.getByRole("heading", { name: "Licenses" }),
          page.locator("summary", { hasText: "Renew" }),
          page.getByRole("img", { name: "Inferences by month" }),
        ].map(async (part) => (await part.boundingBox())?.y ?? 0),
      );
      expect(places).toEqual(places.toSorted((a, b) => a - b));
      expect(places.every((y) => y > 0)).toBe(true);
    });
    const works = await admin.issue({ email: "works@example.org" });
    await admin.visitAs("viewer", { path: path(works) }, async (page) => {
      expect(await page.locator(".notice").count()).toBe(0);
    });
  });

  test("offers each role what it may do", async () => {
    const offered = (role: "viewer" | "editor" | "admin") =>
      admin.visitAs(role, { path: path(grace) }, (page) =>
        page.locator(".action > summary, a.ending").allTextContents(),
      );
    expect(await offered("viewer")).toEqual([]);
    expect(await offered("editor")).toEqual(["Renew by a year…", "Change…"]);
    expect(await offered("admin")).toEqual(["Renew by a year…", "Change…", "Erase…"]);
  });

  test("is accessible with each action open", async () => {
    await admin.visitAs("admin", { path: path(grace) }, async (page) => {
      for (const action of ["Change", "Renew"]) {
        await open(page, action);
        await takeScreenshots(page, `account-${action.toLowerCase()}`);
        await expectAccessible(page);
      }
      await page.getByRole("link", { name: "Erase…" }).click();
      await page.getByLabel("to confirm").waitFor();
      await takeScreenshots(page, "account-erase");
      await expectAccessible(page);
    });
  });

  test("leads to the form that issues another key for the account, if the role may issue keys", async () => {
    const link = (page: Page) => page.getByRole("link", { name: "Issue a key" });
    await admin.visitAs("viewer", { path: path(grace) }, async (page) => {
      expect(await link(page).count()).toBe(0);
    });
    await admin.visitAs("editor", { path: path(grace), script: false }, async (page) => {
      await link(page).click();
      expect(await page.getByLabel("E-mail of the account").inputValue()).toBe("grace@example.org");
    });
  });

  test("renews every license by keyboard alone, and says so", async () => {
    await admin.visitAs("editor", { path: path(grace) }, async (page) => {
      admin.forgotten.length = 0;
      await tabTo(page, page.locator("summary", { hasText: "Renew" }));
      await page.keyboard.press("Enter");
      await tabTo(page, page.getByRole("textbox", { name: "Reason" }));
      await page.keyboard.type("paid until next year");
      await page.keyboard.press("Enter");
      await page.getByText("Licenses of the account were renewed.").waitFor();
      const text = (await page.locator("main").textContent()) ?? "";
      expect(text).toContain("paid until next year");
      expect(text).toContain("emil, in the console");
      expect(admin.forgotten).toHaveLength(2);
      await takeScreenshots(page, "account-renewed");
      await expectAccessible(page);
    });
  });

  test("renews once if the form is sent twice, and offers nothing if no license can be renewed", async () => {
    const key = await admin.issue({ email: "twice@example.org", expiresAt: inDays(3) });
    const visit = { path: path(key), expectedFaults: [/status of 409/] };
    await admin.visitAs("editor", visit, async (page) => {
      const second = await page.context().newPage();
      await second.goto(page.url());
      for (const each of [page, second]) {
        await open(each, "Renew");
        await each.getByText("One license gets another year").waitFor();
      }
      await page.getByRole("button", { name: "Renew every license" }).click();
      await page.getByText("Licenses of the account were renewed.").waitFor();
      await second.getByRole("button", { name: "Renew every license" }).click();
      await second.getByRole("alert").getByText("Nothing was renewed").waitFor();
    });
    const endless = await admin.issue();
    await admin.visitAs("editor", { path: path(endless) }, async (page) => {
      await page.getByText("No license can be renewed now").waitFor();
      expect(await page.locator(".action > summary").allTextContents()).toEqual(["Change…"]);
    });
  });

  test("leaves what takes long with very many keys to a link and to the command", async () => {
    const key = await admin.issue({ email: "many@example.org", expiresAt: inDays(3) });
    const add = (keys: number) =>
      admin.database.query(
        (sql) => sql`
          insert into listed_keys (key_id, account_id, tier, mode, state, expires_at)
          select gen_random_uuid(), account_id, tier, mode, state, expires_at
            from listed_keys cross join generate_series(1, ${keys}::integer)
           where key_id = ${parseId("key", key.id) ?? ""}::uuid`,
      );
    const link = (page: Page) => page.getByRole("link", { name: "Show the inferences by month" });
    const noUse = (page: Page) => page.getByText("No inference was reported in the last twelve months.");
    await add(499);
    await admin.visitAs("editor", { path: path(key) }, async (page) => {
      await noUse(page).waitFor();
      expect(await link(page).count()).toBe(0);
    });
    await add(501);
    await admin.visitAs("editor", { path: path(key) }, async (page) => {
      await page.getByText(`claviger accounts renew ${key.userId}`).waitFor();
      expect(await page.locator(".action > summary").allTextContents()).toEqual(["Change…"]);
      expect(await noUse(page).count()).toBe(0);
      await expectAccessible(page);
      await link(page).click();
      await noUse(page).waitFor();
    });
  });

  test("keeps what was entered when a change is refused, without script", async () => {
    const key = await admin.issue({ email: "changing@example.org" });
    const visit = { path: path(key), script: false, expectedFaults: [/status of 400/] };
    await admin.visitAs("editor", visit, async (page) => {
      await open(page, "Change");
      await page.getByLabel("Name").fill("N".repeat(201));
      await page.getByLabel("Organization").fill(HOSTILE.replace("\u202e", ""));
      await page.getByRole("button", { name: "Change the account" }).click();
      await page.getByText("It must be one line of 1 to 200 characters").waitFor();
      expect(await page.getByLabel("Organization").inputValue()).toBe(HOSTILE.replace("\u202e", ""));
      await takeScreenshots(page, "account-refused");
      await page.getByLabel("Name").fill("Grace");
      await page.getByRole("button", { name: "Change the account" }).click();
      await page.getByText("The account was changed.").waitFor();
      expect(await accountOf("changing@example.org")).toMatchObject({
        name: "Grace",
        organization: HOSTILE.replace("\u202e", ""),
      });
    });
    await admin.visitAs("editor", { path: path(key) }, async (page) => {
      await open(page, "Change");
      await page.getByRole("button", { name: "Change the account" }).click();
      await page.getByText("Nothing changed").waitFor();
    });
  });

  test("shows what goes and what stays, and erases the person with all keys when the e-mail is typed", async () => {
    const email = "leaving@example.org";
    const key = await admin.issue({ email, name: "Leaving", externalId: "order of Leaving" });
    await admin.issue({ email });
    const visit = { path: path(key), expectedFaults: [/status of 400/] };
    await admin.visitAs("admin", visit, async (page) => {
      await page.getByRole("link", { name: "Erase…" }).click();
      expect(await page.locator(".facts dd").allTextContents()).toEqual([
        email,
        "Leaving",
        "2",
        "1",
        "0",
        "their texts and metadata, in the background",
      ]);
      await page.getByText("2 licenses, 2 keys, and their use").waitFor();
      await page.getByText("license files that were downloaded earlier").waitFor();
      const erase = async (email: string) => {
        await page.getByLabel("to confirm").fill(email);
        await page.getByRole("button", { name: "Revoke all keys and erase the person" }).click();
      };
      await erase("leaving@example.com");
      await page.getByText("It must be leaving@example.org").waitFor();
      await takeScreenshots(page, "account-erase-refused");
      await expectAccessible(page);
      await erase(email);
      await page.getByText("All keys are revoked, and the person was erased.").waitFor();
      expect(await page.locator(".notice").count()).toBe(1);
      expect(await page.locator("main").textContent()).not.toMatch(/leaving/i);
      expect(await page.locator(".action").count()).toBe(0);
      await takeScreenshots(page, "account-erased");
      await expectAccessible(page);
      await page.getByRole("link", { name: "Back to the account" }).click();
      await page.getByText("The texts and metadata of the person's events are being removed.").waitFor();
      expect(await page.getByRole("link", { name: "Erase…" }).count()).toBe(0);
    });
  });

  test("shows hostile and long names as text, and answers any id", async () => {
    const key = await admin.issue({ email: "hostile@example.org", name: HOSTILE, organization: HOSTILE });
    await admin.visitAs("admin", { path: path(key) }, async (page) => {
      expect(await page.locator(".facts bdi").allTextContents()).toEqual([SHOWN, SHOWN]);
      expect(await page.title()).toBe("hostile@example.org – Claviger");
    });
    const long = await accountOf(LONG);
    await admin.visitAs("admin", { path: `/accounts/${long?.id}` }, async (page) => {
      await page.getByRole("link", { name: "Erase…" }).click();
      await page.getByLabel("to confirm").waitFor();
      await takeScreenshots(page, "account-long");
      await expectAccessible(page);
    });
    const unknown = { path: `/accounts/usr_${"0".repeat(32)}`, expectedFaults: [/status of 404/] };
    await admin.visitAs("viewer", unknown, async (page) => {
      await page.getByText("Cannot show account: no account has that id.").waitFor();
    });
  });
});
