/** What the page of a key does with focus, keyboard and script. `test/admin/key_actions_test.ts` has what it says. */
import { describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { listAudit } from "../../src/audit/mod.ts";
import { type IssuedKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import {
  listSigningKeys,
  parseLicenseFile,
  type Verified,
  verifySignature,
} from "../../src/licensing/signed_licenses/mod.ts";
import { uuidOf } from "../support/keys.ts";
import { useForAll } from "../support/use.ts";
import { startConsole, submitTwice, type TestConsole, tabTo } from "./support/console.ts";

const admin = useForAll(startConsole);

const lastChange = async (key: IssuedKey) =>
  (await listAudit(admin.database, { keyUuid: uuidOf(key), limit: 1 }))[0];

/** Opens the page of a key. */
function visit(
  role: Parameters<TestConsole["visitAs"]>[0],
  key: IssuedKey,
  act: (page: Page) => Promise<void>,
  more: {
    readonly script?: boolean;
    readonly width?: number;
    readonly expectedFaults?: readonly RegExp[];
  } = {},
) {
  return admin.visitAs(role, { path: `/keys/${key.id}`, ...more }, act);
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

test("The form that revokes a key says on one line when the key was last used", async () => {
  const key = await admin.issue();
  await admin.database.query(
    (sql) => sql`
      update keys set last_used_at = ${admin.clock.now()}::timestamptz - interval '5 minutes' where id = ${uuidOf(key)}::uuid`,
  );
  await visit("admin", key, async (page) => {
    await page.locator("#revoke summary").click();
    await page.locator("#revoke p small", { hasText: "5 minutes ago" }).waitFor();
    const display = await page.evaluate(
      "getComputedStyle(document.querySelector('#revoke p small')).display",
    );
    expect(display).toBe("inline");
  });
});

describe("An action", () => {
  test("is made by keyboard alone, without script", async () => {
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
    };
    await visit("editor", key, act, { script: false });
    expect(await lastChange(key)).toMatchObject({ action: "key.suspend", reason: "unpaid" });
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
      await page.getByRole("link", { name: "by day" }).click();
      await page.waitForURL(/licenses/);
      await page.getByRole("link", { name: "Month before" }).click();
      await page.getByRole("heading", { name: "Use in 2026-10" }).waitFor();
      expect((await page.locator("#use").boundingBox())?.y).toBeLessThan(200);
    };
    await visit("editor", key, act, { script: false, width: 375 });
  });

  test("that is refused has the focus on its first wrong field, and only one action is open", async () => {
    const key = await admin.issue();
    const act = async (page: Page) => {
      await page.locator("#tier summary").click();
      await change(page, "renew", { "Last day": "2001-01-01" }, "Renew the license");
      await page.locator("#renew-last_day[aria-invalid]:focus").waitFor();
      expect(page.url()).toBe(`${admin.url}/console/keys/${key.id}/renew`);
      await page.locator("#tier summary").click();
      expect(await page.locator(".action[open]").count()).toBe(1);
    };
    await visit("admin", key, act, { expectedFaults: [/status of 400/] });
  });

  test("that ends the key is red", async () => {
    await visit("admin", await admin.issue(), async (page) => {
      const colorOf = (action: string) =>
        page.evaluate(`getComputedStyle(document.querySelector("#${action} summary")).color`);
      expect(await colorOf("revoke")).not.toBe(await colorOf("suspend"));
    });
  });

  test("is closed and emptied by Escape and by Cancel, which give the focus back", async () => {
    await visit("admin", await admin.issue(), async (page) => {
      const limit = page.locator("#limit");
      for (const close of [
        () => page.keyboard.press("Escape"),
        () => limit.getByRole("link", { name: "Cancel" }).click(),
      ]) {
        await limit.locator("summary").click();
        await page.locator("#limit-monthly_limit:focus").waitFor();
        await page.keyboard.type("7");
        await close();
        expect(await page.locator(".action[open]").count()).toBe(0);
        expect(await page.locator("#limit summary:focus").count()).toBe(1);
        expect(await limit.getByLabel("Monthly limit").inputValue()).toBe("");
      }
    });
  });
});

test("A rotation that is clicked twice is made once, and shows its key", async () => {
  await visit("editor", await admin.issue(), async (page) => {
    await page.locator("#rotate summary").click();
    expect(await submitTwice(page, "#rotate form button")).toBe(1);
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
        { "Days of validity": "30", Machine: "host 7", "Text to repeat": "4711", Reason: "no network" },
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

test("A button copies an identifier", async () => {
  const key = await admin.issue();
  await visit("viewer", key, async (page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: `Copy ${key.id}` }).click();
    await page.getByText("Copied").waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key.id);
  });
});
