/** What was typed into a form is still there after a login that the end of the session needed, and never otherwise. */
import { describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { toId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import type { Role } from "../../src/operators/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { licenseWith, placeMachine } from "../support/machines.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { startConsole } from "./support/console.ts";

const MINUTE_MS = 60_000;
const REFUSED = [/status of 400/];

const admin = useForAll(startConsole);

const url = (path: string) => `${admin.url}/console${path}`;
const kept = async (page: Page) => {
  // By then the scripts of the page ran.
  await page.waitForLoadState();
  return await page.evaluate<string | null>("sessionStorage.getItem('kept')");
};
const idle = (minutes = 40) => admin.clock.advance(minutes * MINUTE_MS);
const newCode = (name: string, role: Role) => createConsoleClient(admin).newCode(name, role);
const notice = (page: Page) => page.getByText("Filled in again");

const emailOf = (page: Page) => page.getByLabel("E-mail of the account");
const heading = (page: Page, name: string) => page.getByRole("heading", { name, exact: true }).waitFor();

/** Types a code into the page of the login. */
async function logIn(page: Page, code: string) {
  await page.getByLabel("Login code").fill(code);
  await page.getByRole("button", { name: "Log in" }).click();
}

async function fillIssueForm(page: Page) {
  await emailOf(page).fill("Ada+1@example.org");
  await page.getByLabel("Tier", { exact: true }).selectOption("commercial");
  await page.getByLabel("Name (optional)").fill(`Ada "& <b>Löwe</b>`);
  await page.getByText("More: organization").click();
  await page.getByLabel("test", { exact: true }).check();
  await page.getByLabel("Never", { exact: false }).first().check();
}

/** Expects that the page shows the form as it is for everybody who opens it. */
async function expectUntouched(page: Page) {
  await heading(page, "Issue a key");
  await page.waitForLoadState();
  expect(await emailOf(page).inputValue()).toBe("");
  expect(await page.getByLabel("Tier", { exact: true }).inputValue()).toBe("");
  expect(await page.getByLabel("live", { exact: true }).isChecked()).toBe(true);
  expect(await notice(page).count()).toBe(0);
  expect(await kept(page)).toBeNull();
}

/** Opens the form of an action of a key, and types a reason. */
async function typeReason(page: Page, action: string, reason: string) {
  await page.locator(`#${action} summary`).click();
  await page.locator(`#${action}`).getByLabel("Reason").fill(reason);
}

const visitKey = (
  key: IssuedKey,
  act: (page: Page) => Promise<void>,
  expectedFaults: readonly RegExp[] = [],
) => admin.visitAs("admin", { path: `/keys/${key.id}`, expectedFaults }, act);

describe("After the end of the session", () => {
  test("a form that is sent is filled in again, and then issues the key", async () => {
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      await fillIssueForm(page);
      idle();
      await page.getByRole("button", { name: "Issue the key" }).click();
      await page.getByText("Your session has ended: log in again.").waitFor();
      await logIn(page, await admin.code());
      await notice(page).waitFor();
      await expectAccessible(page);
      expect(page.url()).toBe(url("/keys/issue"));
      expect(await emailOf(page).inputValue()).toBe("Ada+1@example.org");
      expect(await page.getByLabel("Name (optional)").inputValue()).toBe(`Ada "& <b>Löwe</b>`);
      expect(await page.getByLabel("test", { exact: true }).isChecked()).toBe(true);
      expect(await page.getByLabel("test", { exact: true }).isVisible()).toBe(true);
      expect(await page.getByLabel("Never", { exact: false }).first().isChecked()).toBe(true);
      // It is filled in once.
      expect(await kept(page)).toBeNull();
      await page.getByRole("button", { name: "Issue the key" }).click();
      await heading(page, "Key issued");
      expect(await page.locator("main").textContent()).toContain("commercial, test");
      expect(await kept(page)).toBeNull();
      await page.goto(url("/keys/issue"));
      await expectUntouched(page);
    });
  });

  test("the form of an action is open and filled in again after a login by a link in the same tab", async () => {
    const key = await admin.issue({ tier: "free" });
    await visitKey(key, async (page) => {
      await typeReason(page, "suspend", "invoice 4711 is late");
      idle();
      await page.getByRole("button", { name: "Suspend the key" }).click();
      await page.getByLabel("Login code").waitFor();
      await page.goto(url(`/enter#${await admin.code()}`));
      await notice(page).waitFor();
      const form = page.locator("#suspend");
      expect(await form.getAttribute("open")).not.toBeNull();
      expect(await form.getByLabel("Reason").inputValue()).toBe("invoice 4711 is late");
      await page.getByRole("button", { name: "Suspend the key" }).click();
      await page.getByText("invoice 4711 is late").first().waitFor();
      expect(page.url()).toContain(`/keys/${key.id}?done=`);
    });
  });

  test("a page that is loaded anew is filled in again, also after a code that does not work", async () => {
    const visit = { path: "/keys/issue", expectedFaults: [/status of 401/] };
    await admin.visitAs("admin", visit, async (page) => {
      await fillIssueForm(page);
      idle();
      await page.reload();
      await logIn(page, "00");
      await page.getByText("This code does not work").waitFor();
      await logIn(page, await admin.code());
      await notice(page).waitFor();
      expect(await emailOf(page).inputValue()).toBe("Ada+1@example.org");
    });
  });

  test("a form that was refused before is filled in again on the page that it belongs to", async () => {
    const key = await admin.issue({ tier: "free" });
    const act = async (page: Page) => {
      const form = page.locator("#limit");
      await form.locator("summary").click();
      await form.getByRole("textbox").first().fill("many");
      await form.getByLabel("Reason").fill("asked by mail");
      await form.getByRole("button").click();
      await form.locator(".notice.bad").waitFor();
      await form.getByLabel("Reason").fill("asked by phone");
      idle();
      await form.getByRole("button").click();
      await logIn(page, await admin.code());
      await notice(page).waitFor();
      expect(new URL(page.url()).pathname).toBe(`/console/keys/${key.id}`);
      expect(await form.getByRole("textbox").first().inputValue()).toBe("many");
      expect(await form.getByLabel("Reason").inputValue()).toBe("asked by phone");
    };
    await visitKey(key, act, REFUSED);
  });
});

test("A form that needs a fresh login is filled in again after it, by the same operator without a question", async () => {
  await newCode("vera", "viewer");
  await admin.visitAs("admin", { path: "/access/operators/vera" }, async (page) => {
    idle(6);
    await page.reload();
    const form = page.locator("#role");
    await form.locator("summary").click();
    await form.getByLabel("Role").selectOption("editor");
    await form.getByLabel("Reason").fill("works in support now");
    await form.getByRole("link", { name: "Log in again" }).click();
    await page.getByText("This needs a login of the last five minutes.").waitFor();
    await logIn(page, await admin.code());
    await notice(page).waitFor();
    expect(await form.getByLabel("Role").inputValue()).toBe("editor");
    await form.getByRole("button", { name: "Change the role" }).click();
    await page.getByText("The operator has another role.").waitFor();
  });
});

test("The form of a token that was refused for an old login is filled in again after a new one, and issues the token", async () => {
  const visit = { path: "/access", expectedFaults: [/status of 403/] };
  await admin.visitAs("admin", visit, async (page) => {
    await page.locator("#issue-token > summary").click();
    const form = page.locator("#issue-token-form");
    await form.getByLabel("Name", { exact: true }).fill("shop-of-support");
    await form.getByText("Scopes", { exact: true }).click();
    for (const box of ["keys:issue", "accounts:join", "free", "research"])
      await form.getByRole("checkbox", { name: new RegExp(`^${box}`) }).check();
    await form.getByLabel("Mode of the keys").selectOption("live");
    idle(6);
    await form.getByRole("button", { name: "Issue the token" }).click();
    await form.getByRole("link", { name: "Log in again" }).click();
    await logIn(page, await admin.code());
    await notice(page).waitFor();
    await page.getByRole("button", { name: "Issue the token" }).click();
    await page.getByText("Copy the token now.").waitFor();
    const facts = await page.locator(".facts").textContent();
    expect(facts).toContain("Scopeskeys:issue, accounts:joinTiersfree, researchModelive");
    // The page shows the token, and the tab does not have it.
    expect(await kept(page)).toBeNull();
  });
});

test("Keys that were selected are selected again after a login that their change needs", async () => {
  const email = "selected@example.org";
  const expiresAt = new Date(admin.clock.nowMs() + 400 * 24 * 60 * MINUTE_MS);
  for (let n = 0; n < 11; n++) await admin.issue({ email, expiresAt });
  const visit = { path: `/keys?search=${email}`, expectedFaults: [/status of 403/] };
  await admin.visitAs("admin", visit, async (page) => {
    for (const box of await page.getByRole("checkbox", { name: "svc_" }).all()) await box.check();
    await page.getByRole("button", { name: "Change the selected keys" }).click();
    await heading(page, "11 keys");
    idle(6);
    for (const [action, fill] of [
      ["revoke", () => page.getByLabel("Type the number of keys to confirm: 11").fill("11")],
      ["renew", () => page.locator("#renew").getByLabel("Never").check()],
    ] as const) {
      await page.locator(`#${action} summary`).click();
      await fill();
      await page.locator(`#${action}`).getByLabel("Reason").fill("sold twice");
      await page.locator(`#${action}`).getByRole("button", { name: "Show what will change" }).click();
      const link = page.locator(`#${action}`).getByRole("link", { name: "Log in again" });
      await link.click();
      await logIn(page, await admin.code());
      await heading(page, "11 keys");
      await page.getByText("Selected: rows of the list").waitFor();
      await page.locator(`#${action}[open]`).waitFor();
      if (action === "revoke") idle(6);
    }
    // What cannot be undone is typed again; the form of the renewal is as it was.
    await notice(page).waitFor();
    expect(await page.locator("#renew").getByLabel("Never").isChecked()).toBe(true);
    expect(await page.locator("#renew").getByLabel("Reason").inputValue()).toBe("sold twice");
    await page.locator("#renew").getByRole("button", { name: "Show what will change" }).click();
    await page.getByText("11 licenses will change").waitFor();
  });
});

test("Machines that a list selected are selected again after a login that their release needs", async () => {
  const license = await licenseWith(admin.database, { maxMachines: 11 });
  for (let n = 0; n < 11; n++) await placeMachine(admin.database, license, `${n}`);
  const path = `/machines?license=${toId("lic", license.licenseUuid)}`;
  await admin.visitAs("admin", { path, expectedFaults: [/status of 403/] }, async (page) => {
    await page.getByRole("button", { name: "Release all 11 active machines" }).click();
    await page.getByText("11 places become free at once").waitFor();
    await page.getByLabel("Reason").fill("the old laboratory");
    idle(6);
    await page.getByRole("button", { name: "Release 11 machines" }).click();
    await page.getByRole("link", { name: "Log in again" }).click();
    await logIn(page, await admin.code());
    await heading(page, "11 active machines");
    await notice(page).waitFor();
    expect(await page.getByLabel("Reason").inputValue()).toBe("the old laboratory");
    await page.getByRole("button", { name: "Release 11 machines" }).click();
    await page.getByText("Released 11 machines: 11 places are free").waitFor();
  });
});

test("Another tab than that of the selection has no key selected after the login", async () => {
  await admin.visitAs("admin", { path: "/keys/many?open=revoke" }, async (page) => {
    await page.getByText("No key is selected").waitFor();
    await page.getByRole("link", { name: "Back to the keys" }).click();
    await heading(page, "Keys");
  });
});

describe("Nothing is filled in", () => {
  /** Types into the form, lets the session end, and opens the page again. */
  async function typeAndEnd(page: Page) {
    await fillIssueForm(page);
    idle();
    await page.reload();
    await page.getByLabel("Login code").waitFor();
    expect(await kept(page)).toContain("Ada");
  }

  test("for another operator, and then not for the first one either", async () => {
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      await typeAndEnd(page);
      await logIn(page, await newCode("emil", "editor"));
      await expectUntouched(page);
      idle();
      await page.reload();
      await logIn(page, await admin.code());
      await expectUntouched(page);
    });
  });

  test("after a logout", async () => {
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      await fillIssueForm(page);
      expect(await kept(page)).toContain("Ada");
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByText("You are logged out.").waitFor();
      expect(await kept(page)).toBeNull();
      await logIn(page, await admin.code());
      await heading(page, "Overview");
      await page.goto(url("/keys/issue"));
      await expectUntouched(page);
    });
  });

  test("after an hour, and then the tab has forgotten it", async () => {
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      await typeAndEnd(page);
      await page.clock.setFixedTime(Date.now() + 60 * MINUTE_MS);
      await logIn(page, await admin.code());
      await expectUntouched(page);
    });
  });

  test("after an hour on the page of the login, which forgets it by itself", async () => {
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      await page.clock.install();
      await typeAndEnd(page);
      await page.clock.runFor(59 * MINUTE_MS);
      expect(await kept(page)).toContain("Ada");
      await page.clock.runFor(MINUTE_MS);
      expect(await kept(page)).toBeNull();
    });
  });

  for (const [how, shown, leave] of [
    [
      "was refused",
      ".notice.bad",
      (page: Page) => page.getByRole("button", { name: "Issue the key" }).click(),
    ],
    [
      "was cancelled",
      "h1 bdi:text-is('Keys')",
      (page: Page) => page.getByRole("link", { name: "Cancel" }).click(),
    ],
    [
      "was left",
      "h1 bdi:text-is('Overview')",
      (page: Page) => page.getByRole("link", { name: "Overview" }).click(),
    ],
  ] as const)
    test(`after a form ${how}`, async () => {
      const expectedFaults = how === "was refused" ? REFUSED : [];
      await admin.visitAs("admin", { path: "/keys/issue", expectedFaults }, async (page) => {
        await emailOf(page).fill("ada");
        await leave(page);
        await page.locator(shown).first().waitFor();
        expect(await kept(page)).toBeNull();
        await page.goto(url("/keys/issue"));
        idle();
        await page.reload();
        await logIn(page, await admin.code());
        await expectUntouched(page);
      });
    });

  test("after Escape or Cancel closed the form of an action", async () => {
    const key = await admin.issue({ tier: "free" });
    await visitKey(key, async (page) => {
      for (const close of [
        () => page.keyboard.press("Escape"),
        () => page.locator("#suspend").getByRole("link", { name: "Cancel" }).click(),
      ]) {
        await typeReason(page, "suspend", "invoice 4711");
        expect(await kept(page)).toContain("4711");
        await close();
        expect(await kept(page)).toBeNull();
      }
    });
  });

  test("if another page of the console was opened after the login", async () => {
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      await typeAndEnd(page);
      await page.goto(url("/enter"));
      await logIn(page, await admin.code());
      await heading(page, "Overview");
      await page.goto(url("/keys/issue"));
      await expectUntouched(page);
    });
  });
});

describe("The tab keeps", () => {
  test("no key, token or code that was typed, however it is written", async () => {
    const key = await admin.issue({ tier: "free" });
    const hex = "0123456789abcdef".repeat(2);
    await visitKey(key, async (page) => {
      for (const secret of [
        key.apiKey,
        `it is ${key.apiKey.toUpperCase()}, revoke it`,
        hex,
        hex.replaceAll(/(.{4})/g, "$1 - "),
        await admin.token(),
      ]) {
        await typeReason(page, "suspend", secret);
        expect(await kept(page)).not.toBeNull();
        expect(new URLSearchParams((await kept(page)) ?? "").get("values")).toBe("");
        await page.keyboard.press("Escape");
      }
    });
  });

  test("nothing of a form that erases or ends something for good, of the search box and of the login", async () => {
    const key = await admin.issue({ email: "erased@example.org", tier: "free" });
    await visitKey(key, async (page) => {
      await typeReason(page, "revoke", "leaked");
      expect(await kept(page)).toBeNull();
      await page.locator("#find").fill("erased@example.org");
      expect(await kept(page)).toBeNull();
      await page.goto(url(`/accounts/${key.userId}/erasure`));
      const form = page.locator("#erase");
      if ((await form.getAttribute("open")) === null) await form.locator("summary").click();
      await form.getByLabel("Reason").fill("asked for it");
      await form.getByLabel("to confirm").fill("erased@example.org");
      expect(await kept(page)).toBeNull();
      idle();
      await form.getByRole("button").click();
      await page.getByLabel("Login code").pressSequentially("abc");
      expect(await kept(page)).toBeNull();
      await logIn(page, await admin.code());
      await heading(page, "Erase erased@example.org");
      expect(await form.getByLabel("Reason").inputValue()).toBe("");
    });
  });
});

describe("Foreign content in the storage of the tab", () => {
  const askedOf = (form: string, values: string, more: Record<string, string> = {}) =>
    `${new URLSearchParams({
      form: url(form),
      operator: "olga",
      at: `${Date.now()}`,
      asked: "",
      values,
      ...more,
    })}`;
  const asked = (key: IssuedKey, values: string, more: Record<string, string> = {}) =>
    askedOf(`/keys/${key.id}/suspend`, values, more);

  test("fills only fields of the form, and only as text", async () => {
    const key = await admin.issue({ tier: "free" });
    const html = `"><img src=x onerror="document.title='run'">`;
    await visitKey(key, async (page) => {
      const before = await page.locator("#suspend form").evaluate("form => form.outerHTML");
      const values = new URLSearchParams([
        ["reason", html],
        ["repeat", "x"],
        ["code", "x"],
        ["action", "https://evil.example"],
        ["__proto__", "x"],
        ["unknown", html],
      ]);
      const record = asked(key, `${values}`);
      await page.evaluate((text) => sessionStorage.setItem("kept", text), record);
      await page.reload();
      await notice(page).waitFor();
      expect(await page.locator("#suspend").getByLabel("Reason").inputValue()).toBe(html);
      expect(await page.title()).not.toBe("run");
      await page.evaluate("document.querySelector('#suspend [role=status]').remove()");
      expect(await page.locator("#suspend form").evaluate("form => form.outerHTML")).toEqual(before);
      expect(await page.getByText("onerror").count()).toBe(0);
    });
  });

  test("changes no choice to a value that the form does not have, and no hidden field", async () => {
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      const values = new URLSearchParams({ tier: "emperor", mode: "none", email: "ada@example.org" });
      const record = askedOf("/keys/issue", `${values}`);
      await page.evaluate((text) => sessionStorage.setItem("kept", text), record);
      await page.reload();
      await notice(page).waitFor();
      expect(await page.getByLabel("Tier", { exact: true }).inputValue()).toBe("");
      expect(await page.getByLabel("live", { exact: true }).isChecked()).toBe(true);
    });
  });

  test("changes neither a hidden field nor a code, a file or a text to repeat", async () => {
    const controls = `
      <input type="hidden" name="hidden" value="own">
      <input type="password" name="password" value="own">
      <input type="file" name="file">
      <input name="code" value="own"><input name="repeat" value="own"><input name="own" value="own">`;
    await admin.visitAs("admin", { path: "/keys/issue" }, async (page) => {
      await page.route("**/keys/issue", async (route) => {
        const answer = await route.fetch();
        const body = (await answer.text()).replace(/data-kept=""[^>]*>/, (form) => form + controls);
        await route.fulfill({ response: answer, body });
      });
      await page.reload();
      await page.locator("[name=own]").fill("typed");
      expect(new URLSearchParams((await kept(page)) ?? "").get("values")).toStartWith("own=typed&email=");
      const names = ["hidden", "password", "file", "code", "repeat", "own"];
      const values = new URLSearchParams(Object.fromEntries(names.map((name) => [name, "foreign"])));
      const record = askedOf("/keys/issue", `${values}`);
      await page.evaluate((text) => sessionStorage.setItem("kept", text), record);
      await page.reload();
      await notice(page).waitFor();
      const shown = names.map((name) => page.locator(`[name=${name}]`).inputValue());
      expect(await Promise.all(shown)).toEqual(["own", "own", "", "own", "own", "foreign"]);
    });
  });

  test("without the form, the operator, the time or the login that it needs changes nothing, and is removed", async () => {
    const key = await admin.issue({ tier: "free" });
    const later = `${Date.now() + 2 * 60 * MINUTE_MS}`;
    const contents = [
      "",
      "{",
      "null",
      '{"form":{},"values":[]}',
      "<script>document.title='run'</script>",
      "%",
      "a".repeat(100_000),
      asked(key, "reason=x", { form: "https://evil.example/suspend" }),
      asked(key, "reason=x", { form: url("/search") }),
      asked(key, "reason=x", { form: url("/logout") }),
      asked(key, "reason=x", { form: url(`/keys/${key.id}/revoke`) }),
      asked(key, "reason=x", { operator: "emil" }),
      asked(key, "reason=x", { operator: "" }),
      asked(key, "reason=x", { at: later }),
      asked(key, "reason=x", { at: "0" }),
      asked(key, "reason=x", { at: "NaN" }),
      asked(key, "reason=x", { at: "Infinity" }),
      asked(key, "reason=x").replace("asked=", "other="),
    ];
    await visitKey(key, async (page) => {
      for (const content of contents) {
        await page.evaluate((text) => sessionStorage.setItem("kept", text), content);
        await page.reload();
        expect([content.slice(0, 200), await notice(page).count(), await kept(page)]).toEqual([
          content.slice(0, 200),
          0,
          null,
        ]);
        expect(await page.locator("details[open]").count()).toBe(0);
      }
      expect(await page.title()).not.toBe("run");
    });
  });
});
