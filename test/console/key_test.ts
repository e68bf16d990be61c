/** The page of a key and its changes, in a real browser. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { listAudit } from "../../src/audit/mod.ts";
import { parseId } from "../../src/base/ids.ts";
import { findKey, hashApiKey, type IssuedKey, revokeKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import {
  listSigningKeys,
  parseLicenseFile,
  type Verified,
  verifySignature,
} from "../../src/licensing/signed_licenses/mod.ts";
import { setPlaces } from "../support/machines.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole, type TestConsole, tabTo } from "./support/console.ts";

// axe examines each open action in two widths and two colour schemes, which took 28 s on a busy machine.
setDefaultTimeout(120_000);
const HOSTILE = `<img src=x onerror="document.title='run'"> "'&amp;\u202eevil`;
const MAX_BYTES = 150_000;

const admin = useForAll(startConsole);

const uuidOf = ({ id }: IssuedKey) => parseId("key", id) ?? "";
const find = (key: IssuedKey) => findKey(admin.database, { uuid: uuidOf(key) }, { now: admin.clock.now() });
const lastChange = async (key: IssuedKey) =>
  (await listAudit(admin.database, { keyUuid: uuidOf(key), limit: 1 }))[0];

/** Opens the page of a key. */
function visit(
  role: Parameters<TestConsole["visitAs"]>[0],
  key: IssuedKey,
  act: (page: Page) => Promise<void>,
  more: {
    readonly query?: string;
    readonly script?: boolean;
    readonly width?: number;
    readonly expectedFaults?: readonly RegExp[];
  } = {},
) {
  const { query = "", ...rest } = more;
  return admin.visitAs(role, { path: `/keys/${key.id}${query}`, ...rest }, act);
}

/** Opens an action of the page, fills it and sends it. */
async function change(page: Page, action: string, fields: Readonly<Record<string, string>>, submit: string) {
  const form = page.locator(`#${action}`);
  await form.locator("summary").click();
  // The page scrolls to the open form and gives it the focus a moment later: before that a click could miss.
  await form.locator("form :focus").waitFor();
  for (const [label, value] of Object.entries(fields)) await form.getByLabel(label).fill(value);
  await form.getByRole("button", { name: submit }).click();
}

test("A key that was used shows its use by day, its refusals and its history, with hostile texts as text", async () => {
  const key = await admin.issue({
    email: "a-rather-long-name-of-a-department@of-a-rather-long-organization.example.org",
    name: HOSTILE,
    organization: HOSTILE,
    externalId: "order-4711",
    tier: "free",
    expiresAt: new Date(admin.clock.nowMs() + 12.5 * 86_400_000),
  });
  await giveUse(key);
  const suspend = { reason: HOSTILE };
  await visit("admin", key, async (page) => {
    await change(page, "suspend", { Reason: suspend.reason }, "Suspend the key");
    // What was done is no warning.
    await page
      .locator(".notice.good")
      .getByText("The key is suspended: it is refused from now on.")
      .waitFor();
    await page.getByText("by olga, in the console; reason: <img").waitFor();
    await takeScreenshots(page, "key-suspended");
    await expectAccessible(page);
    const text = (await page.locator("main").textContent()) ?? "";
    // The notice says once that the key is suspended.
    expect(await page.getByText("suspended since").count()).toBe(1);
    expect(text).not.toContain("It is suspended.");
    const sees = (await page.locator(".sees").textContent()) ?? "";
    for (const part of ["401 INVALID_KEY: The API key is invalid or inactive", "free: batch inference"])
      expect(sees).toContain(part);
    expect(sees).toContain("Refused lately");
    expect(text).toMatch(/in 1[23] days/);
    for (const part of ["7,100 of 10,000", "Too many requests in a minute", "olga, in the console"])
      expect(text).toContain(part);
    expect(await page.getByText(HOSTILE.replace("\u202e", "\\u202e")).count()).toBe(4);
    expect(await page.title()).toStartWith("Key svc_live_");
    expect((await page.content()).length).toBeLessThan(MAX_BYTES);
    await page.getByRole("link", { name: "Month before" }).click();
    await page.getByRole("heading", { name: "Use in 2026-10" }).waitFor();
    await page.getByRole("link", { name: "Month after" }).waitFor();
  });
});

describe("An action", () => {
  test("is made by keyboard alone, without script, and is in the history with its reason", async () => {
    const key = await admin.issue();
    const act = async (page: Page) => {
      await tabTo(page, page.locator("#suspend summary"));
      await page.keyboard.press("Enter");
      await tabTo(page, page.locator("#suspend-reason"));
      await page.keyboard.type("unpaid");
      await tabTo(page, page.getByRole("button", { name: "Suspend the key" }));
      await page.keyboard.press("Enter");
      await page.getByText("The service refuses this key.").waitFor();
      expect(page.url()).toMatch(new RegExp(`/console/keys/${key.id}\\?done=req_[0-9a-f]+$`));
      await page.getByRole("link", { name: "Resume it" }).click();
      await page.getByRole("button", { name: "Resume the key" }).click();
      await page.getByText("state: suspended → active. The key is resumed.").waitFor();
    };
    await visit("editor", key, act, { script: false });
    expect(await lastChange(key)).toMatchObject({ action: "key.resume", actor: "operator:emil" });
    expect(admin.forgotten.slice(-2)).toEqual([key.licenseUuid, key.licenseUuid]);
  });

  test("that a notice leads to is open and in view in a narrow window, without script", async () => {
    const key = await admin.issue();
    const actor = { kind: "operator", name: "grace", reason: "unpaid ".repeat(280) } as const;
    await suspendKey(createLicenseChanges(admin.database), uuidOf(key), { actor, now: admin.clock.now() });
    const act = async (page: Page) => {
      await page.getByRole("link", { name: "Resume it" }).click();
      await page.waitForURL(/open=resume/);
      const { y = -1, height = 0 } = (await page.locator("#resume form").boundingBox()) ?? {};
      expect([y >= 0, y + height <= (page.viewportSize()?.height ?? 0)]).toEqual([true, true]);
      await page.getByRole("link", { name: "Month before" }).click();
      await page.getByRole("heading", { name: "Use in 2026-10" }).waitFor();
      expect((await page.locator("#use").boundingBox())?.y).toBeLessThan(200);
    };
    await visit("editor", key, act, { script: false, width: 375 });
  });

  test("changes expiry, tier, limits and external id of the license", async () => {
    const key = await admin.issue({ expiresAt: new Date("2026-12-01T00:00:00Z") });
    const act = async (page: Page) => {
      await page.locator("#renew summary").click();
      expect(await page.getByLabel("Last day").inputValue()).toBe("2027-12-01");
      await page.getByRole("button", { name: "Renew the license" }).click();
      await page
        .getByText(
          "expiry: 2026-12-01 00:00 → 2027-12-01 23:59. The change applies to all keys of the license.",
        )
        .waitFor();
      await page.locator("#tier summary").click();
      await page.locator("#tier").getByLabel("Tier").selectOption("commercial");
      await page.getByRole("button", { name: "Change the tier" }).click();
      await page.getByText("tier: research → commercial. 500,000 a month, of which 0 are used.").waitFor();
      await change(page, "limit", { "Monthly limit": "750,000" }, "Change the limit");
      await page
        .getByText("monthly limit: the tier's → 750,000. 750,000 a month, of which 0 are used.")
        .waitFor();
      await change(page, "limit", { "Monthly limit": "1\u2009234 567" }, "Change the limit");
      await page.getByText("monthly limit: 750,000 → 1,234,567.").waitFor();
      await change(page, "limit", { "Monthly limit": "77" }, "Change the limit");
      await page.getByText("monthly limit: 1,234,567 → 77. 77 a month, of which 0 are used.").waitFor();
      await change(page, "external-id", { "External id": "order 1" }, "Change the external id");
      await page.getByText("The external id is order 1 now.").waitFor();
      expect(await find(key)).toMatchObject({
        tier: "commercial",
        monthlyLimit: 77,
        externalId: "order 1",
        expiresAt: new Date("2027-12-01T23:59:59Z"),
      });
      await change(page, "limit", { "Monthly limit": "" }, "Change the limit");
      await page.getByText("monthly limit: 77 → the tier's. 500,000 a month, of which 0 are used.").waitFor();
      expect(await find(key)).toMatchObject({ monthlyLimit: 500_000 });
      await page.getByText("not counted", { exact: true }).waitFor();
      const places = { "Machine limit": "30", "Seat minutes": "15" };
      await change(page, "machines", places, "Change the machines");
      await page.getByText("machine limit: none → 30; seat minutes: none → 15.").waitFor();
      await page.getByText("30 floating seats of 15 minutes", { exact: true }).waitFor();
      expect(await find(key)).toMatchObject({ maxMachines: 30, seatMinutes: 15 });
      await change(page, "external-id", { "External id": "order 1" }, "Change the external id");
      await page.getByText("Nothing changed: the values were the same already.").waitFor();
      await change(page, "external-id", { "External id": "" }, "Change the external id");
      await page.getByText("The external id is removed now.").waitFor();
      // One banner says what has changed and that the key works.
      expect(await page.locator(".notice").count()).toBe(1);
      // An address alone claims no change.
      for (const done of ["revoke", `req_${"0".repeat(32)}`, "same", ""]) {
        await page.goto(`${admin.url}/console/keys/${key.id}?done=${done}`);
        await page.getByText("The key works").waitFor();
        expect(await page.getByText(/→|revoked for good|Nothing changed/).count()).toBe(0);
      }
      await page.goto(`${admin.url}/console/accounts/${key.userId}`);
      await page.getByText("30 floating seats of 15 minutes").waitFor();
    };
    await visit("editor", key, act);
  });

  test("that is refused stays open, with the error next to its field and the entered values", async () => {
    const key = await admin.issue();
    const act = async (page: Page) => {
      const path = `${admin.url}/console/keys/${key.id}`;
      await change(page, "renew", { "Last day": "2001-01-01", Reason: HOSTILE }, "Renew the license");
      await page.locator("#renew-last_day-error").getByText("the expiry lies in the past").waitFor();
      expect(await page.locator("#renew-reason").inputValue()).toBe(HOSTILE);
      expect(page.url()).toBe(`${path}/renew`);
      await page.locator("#renew-last_day:focus").waitFor();
      await takeScreenshots(page, "key-refused");
      await expectAccessible(page);
      for (const [action, label, wrong, submit, error] of [
        ["limit", "Monthly limit", "many", "Change the limit", "It must be a whole number"],
        [
          "machines",
          "Machine limit",
          "0",
          "Change the machines",
          "It must be a whole number from 1 to 1000000",
        ],
        ["machines", "Seat minutes", "5", "Change the machines", "seat minutes need a machine limit"],
        ["rotate", "Days of overlap", "-1", "Issue the new key", "It must be a whole number from 0 to 3650"],
        ["license", "Days of validity", "0", "Download the file", "It must be a whole number from 1 to 3650"],
        ["revoke", "Type the last four", "0", "Revoke the key", `It must be ${key.apiKey.slice(-4)}`],
      ] as const) {
        await page.goto(path);
        await change(page, action, { [label]: wrong }, submit);
        await page.locator(`#${action} .error`).getByText(error).waitFor();
        expect(await page.locator(`#${action}`).getByLabel(label).inputValue()).toBe(wrong);
      }
      expect(await find(key)).toMatchObject({ state: "active" });
    };
    await visit("admin", key, act, { expectedFaults: [/status of 400/] });
  });

  test("shows why it was refused, also if another operator has made it impossible meanwhile", async () => {
    const key = await admin.issue();
    const act = async (page: Page) => {
      await page.locator("#suspend summary").click();
      await admin.visitAs("admin", { path: `/keys/${key.id}` }, (other) =>
        change(other, "revoke", { "Type the last four": key.apiKey.slice(-4) }, "Revoke the key").then(() =>
          other.getByText("The key is revoked for good.").waitFor(),
        ),
      );
      await page.getByRole("button", { name: "Suspend the key" }).click();
      const refusal = await page.getByRole("alert").textContent();
      expect(refusal).toStartWith("Cannot suspend key:");
      await takeScreenshots(page, "key-revoked");
      await expectAccessible(page);
      expect(await page.locator(".action summary").allTextContents()).toEqual(["Replace the key…"]);
    };
    await visit("editor", key, act, { expectedFaults: [/status of 409/] });
  });

  test("is accessible while it is open, one at a time", async () => {
    const key = await admin.issue({ expiresAt: new Date("2027-12-01T00:00:00Z") });
    await visit("admin", key, async (page) => {
      await takeScreenshots(page, "key");
      for (const action of await page.locator(".action").all()) {
        const name = await action.getAttribute("id");
        await action.locator("summary").click();
        expect([name, await page.locator(".action[open]").count()]).toEqual([name, 1]);
        if (["renew", "revoke", "license"].includes(name ?? "")) await takeScreenshots(page, `key-${name}`);
        await expectAccessible(page);
      }
    });
  });
});

test("The actions stand in groups, those that end the key apart and in red; Cancel and Escape close a form", async () => {
  const key = await admin.issue();
  await visit("admin", key, async (page) => {
    const groups = page.locator(".changes > section");
    expect(await groups.locator("h2").allTextContents()).toEqual([
      "Help the customer",
      "Change the license",
      "Stop the key",
    ]);
    expect(await groups.nth(2).locator("summary").allTextContents()).toEqual(["Suspend…", "Revoke…"]);
    const colorOf = (action: string) =>
      page.evaluate(`getComputedStyle(document.querySelector("#${action} summary")).color`);
    expect(await colorOf("revoke")).not.toBe(await colorOf("suspend"));

    const limit = page.locator("#limit");
    for (const close of [
      () => page.keyboard.press("Escape"),
      () => limit.getByRole("link", { name: "Cancel" }).click(),
    ]) {
      await limit.locator("summary").click();
      await limit.getByRole("heading", { name: "Change limit" }).waitFor();
      await limit
        .getByText("Used: 0. The tier's limit: 50,000 a month. At 0 or less the key is refused.")
        .waitFor();
      // Sent unchanged, the tier's limit must not become the license's own.
      expect(await limit.getByLabel("Monthly limit").inputValue()).toBe("");
      await page.locator("#limit-monthly_limit:focus").waitFor();
      await page.keyboard.type("7");
      await close();
      expect(await page.locator(".action[open]").count()).toBe(0);
      expect(await page.locator("#limit summary:focus").count()).toBe(1);
      expect(await limit.getByLabel("Monthly limit").inputValue()).toBe("");
    }
  });
  await visit(
    "admin",
    key,
    async (page) => {
      await page.locator("#limit").getByRole("link", { name: "Cancel" }).click();
      await page.getByText("The key works").waitFor();
      expect(await page.locator(".action[open]").count()).toBe(0);
    },
    { query: "?open=limit", script: false },
  );
});

test("A rotation shows the new key once", async () => {
  const key = await admin.issue();
  await visit("editor", key, async (page) => {
    await change(page, "rotate", { "Days of overlap": "2", Reason: "yearly" }, "Issue the new key");
    await page.getByText("Copy the key now.").waitFor();
    const apiKey = (await page.locator("#new-key").textContent()) ?? "";
    const now = admin.clock.now();
    const made = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now });
    expect(await find(key)).toMatchObject({ replacedBy: made?.id });
    const message = await page.locator("#message").textContent();
    expect(message).toContain(apiKey);
    expect(message).toMatch(/It replaces your key svc_live_.{4}….{4}, which works until \d{4}-\d\d-\d\dT/);
    await takeScreenshots(page, "key-rotated");
    await expectAccessible(page);
    await page.reload();
    await page.getByRole("heading", { name: `Key ${made?.hint}` }).waitFor();
    await page.getByText("It is not shown again: rotate the key, or renew the token, for another.").waitFor();
    expect(await page.content()).not.toContain(apiKey);
    expect(await lastChange(key)).toMatchObject({ action: "key.rotate", reason: "yearly" });
    await page.goto(`${admin.url}/console/keys/${key.id}`);
    await takeScreenshots(page, "key-overlap");
    await expectAccessible(page);
    await page.getByRole("link", { name: "Show the key that replaced it" }).click();
    await page.getByRole("heading", { name: `Key ${made?.hint}` }).waitFor();
  });
});

test("A revoked key is replaced: its license gets a new key, shown once with a message", async () => {
  const key = await admin.issue({ mode: "test", externalId: "order-77", monthlyLimit: 1_234 });
  const change = { actor: { kind: "operator", name: "olga" }, now: admin.clock.now() } as const;
  await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(key) }, change);
  await visit("editor", key, async (page) => {
    expect(await page.getByText("Issue a new key").count()).toBe(0);
    await page.getByRole("link", { name: "Replace the key" }).click();
    await takeScreenshots(page, "key-replace");
    await page.getByRole("button", { name: "Issue the new key" }).click();
    await page.getByText("Copy the key now.").waitFor();
    const apiKey = (await page.locator("#new-key").textContent()) ?? "";
    expect(await page.locator("#message").textContent()).toContain(apiKey);
    await takeScreenshots(page, "key-replaced");
    await expectAccessible(page);
    const made = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
    expect(made).toMatchObject({ mode: "test", externalId: "order-77", monthlyLimit: 1_234 });
    await page.goto(`${admin.url}/console/keys/${key.id}`);
    await page.getByRole("link", { name: "Show the key that replaced it" }).click();
    await page.getByRole("heading", { name: `Key ${made?.hint}` }).waitFor();
  });
});

test("A rotation that is clicked twice is made once, and shows its key", async () => {
  const key = await admin.issue();
  await visit("editor", key, async (page) => {
    await page.locator("#rotate summary").click();
    const submissions = await page.evaluate(`(() => {
      let submissions = 0;
      addEventListener("submit", () => { submissions++ });
      const button = document.querySelector("#rotate form button");
      button.click();
      button.click();
      return submissions;
    })()`);
    expect(submissions).toBe(1);
    await page.getByText("Copy the key now.").waitFor();
  });
});

test("An export is a file for the customer", async () => {
  const key = await admin.issue();
  await visit("editor", key, async (page) => {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      change(
        page,
        "license",
        { "Days of validity": "30", Machine: "host 7", Nonce: "4711", Reason: "no network" },
        "Download the file",
      ),
    ]);
    expect(download.suggestedFilename()).toBe(`${key.id}.license`);
    const file = await Bun.file(await download.path()).text();
    expect(file).toMatch(/^-----BEGIN LICENSE-----\n(.*\n)*Machine: host 7\n/);
    const trusted = (await listSigningKeys(admin.database)).map(({ publicKey }) => publicKey);
    const { claims } = verifySignature(parseLicenseFile(file) ?? "", trusted) as Verified & { ok: true };
    expect(claims).toMatchObject({ key_id: key.id, fingerprint: "host 7", nonce: "4711" });
    expect(Number(claims.exp) - Number(claims.iat)).toBe(30 * 86_400);
    expect(await lastChange(key)).toMatchObject({
      action: "license.export",
      actor: expect.stringMatching(/^operator:/),
      reason: "no network",
    });
    // Afterwards the page says until when the file is valid, and its history has the export.
    const until = new Date(Number(claims.exp) * 1_000).toISOString().slice(0, 10);
    await page.getByText(`The file was downloaded. It is valid until ${until} `).waitFor();
    expect(
      await page.locator("#history ~ table, section[aria-labelledby=history]").first().textContent(),
    ).toContain("license.export");
    const again = page.waitForEvent("download");
    await page.locator("#license summary").click();
    await page.getByRole("button", { name: "Download the file" }).click();
    await again;
    await page.getByText("license.export").nth(1).waitFor();
  });
});

test("An export that does not reach the service is sent by the browser itself, so that people see what happens", async () => {
  const key = await admin.issue();
  const act = async (page: Page) => {
    let requests = 0;
    await page.route("**/license", async (route) => {
      requests++;
      await (requests === 1 ? route.abort() : route.continue());
    });
    const download = page.waitForEvent("download", { timeout: 5_000 });
    await change(page, "license", {}, "Download the file");
    expect((await download).suggestedFilename()).toBe(`${key.id}.license`);
  };
  await visit("editor", key, act, { expectedFaults: [/ERR_FAILED/] });
});

test("The form of a license file says which fingerprint it needs if the license counts machines", async () => {
  const key = await admin.issue();
  await setPlaces(admin.database, key.licenseUuid, { maxMachines: 2 });
  const act = async (page: Page) => {
    await change(page, "license", {}, "Download the file");
    await page.locator("#license .notice").getByText("the license counts machines").waitFor();
    const error = page.locator("#license-fingerprint-error");
    expect(await error.textContent()).toBe("It must be 8 to 200 printable ASCII characters");
  };
  await visit("editor", key, act, { expectedFaults: [/status of 400/] });
});

test("The form of a license file says until when it is valid and why, and refuses more days than are left", async () => {
  const key = await admin.issue({ expiresAt: new Date(admin.clock.nowMs() + 6 * 86_400_000) });
  const ends = new Date(admin.clock.nowMs() + 6 * 86_400_000).toISOString().slice(0, 10);
  await visit(
    "editor",
    key,
    async (page) => {
      const form = page.locator("#license form");
      await form
        .getByText(
          `With 6 days (the most) the file would be valid until ${ends}, because the license ends on ${ends}.`,
        )
        .waitFor();
      expect(await form.getByLabel("Days of validity").inputValue()).toBe("6");
      await takeScreenshots(page, "key-license-short");
      await form.getByLabel("Days of validity").fill("365");
      await form.getByRole("button", { name: "Download the file" }).click();
      await page
        .locator("#license-days-error")
        .getByText(`It must be at most 6: the license ends on ${ends}`)
        .waitFor();
      await page.getByRole("link", { name: "Renew the license for a longer file" }).click();
      await page.locator("#renew[open] #renew-last_day:focus").waitFor();
    },
    { query: "?open=license", expectedFaults: [/status of 400/] },
  );
});

test("A button copies an identifier", async () => {
  const key = await admin.issue();
  await visit("viewer", key, async (page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: `Copy ${key.id}` }).click();
    await page.getByText("Copied").waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key.id);
  });
});

test("A viewer reads everything and changes nothing; an editor cannot revoke", async () => {
  const key = await admin.issue();
  await visit("viewer", key, async (page) => {
    await page.getByText("The key works").waitFor();
    expect(await page.locator(".action").count()).toBe(0);
  });
  await visit("editor", key, async (page) => {
    expect(await page.locator("#revoke").count()).toBe(0);
    expect(await page.locator(".action").count()).toBeGreaterThan(5);
  });
});

test("Each obstacle has its way out", async () => {
  const expired = await admin.issue({
    email: "late@example.org",
    expiresAt: new Date(admin.clock.nowMs() + 1),
  });
  const used = await admin.issue({ monthlyLimit: 0 });
  admin.clock.advance(1_000);
  await visit("editor", used, async (page) => {
    await page.getByText("The quota of the month is used up; it resets on 2026-12-01.").waitFor();
    await page.getByRole("link", { name: "Change the limit" }).click();
    expect(await page.locator("#limit").getAttribute("open")).not.toBeNull();
  });
  await visit("editor", expired, async (page) => {
    await page.getByRole("link", { name: "Renew the license" }).click();
    await page.getByRole("button", { name: "Renew the license" }).click();
    await page.getByText("The key works").waitFor();
  });
});

test("An unknown key has a page that says so", async () => {
  for (const id of [`key_${"0".repeat(32)}`, "key_0", "x"]) {
    await admin.visitAs(
      "viewer",
      { path: `/keys/${id}`, expectedFaults: [/status of 404/] },
      async (page) => {
        expect(await page.getByRole("alert").textContent()).toStartWith("Cannot show key:");
      },
    );
  }
});

/** Gives a key use on days of this month, a last use, and refusals. */
async function giveUse(key: IssuedKey): Promise<void> {
  const byDay = Array.from({ length: 20 }, (_, day) => day * 37);
  const used = byDay.reduce((a, b) => a + b, 0);
  const now = admin.clock.now();
  await admin.database.query(
    (sql) => sql`
      with used as (
        insert into usage (license_id, month, used, by_day)
        values (${key.licenseUuid}::uuid, '2026-11-01', ${used + 70}::bigint, ${`{${byDay.join(",")}}`}::text::bigint[])
      ),
      refused as (
        insert into refusals (key_id, code, reason, last_at, count)
        values (${uuidOf(key)}::uuid, 'RATE_LIMIT_EXCEEDED', '', ${now}::timestamptz - interval '3 hours', 12),
               (${uuidOf(key)}::uuid, 'INVALID_KEY', 'suspended', ${now}::timestamptz - interval '3 days', 1)
      )
      update keys set last_used_at = ${now}::timestamptz - interval '5 minutes' where id = ${uuidOf(key)}::uuid`,
  );
}
