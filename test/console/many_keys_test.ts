/** Many keys are selected in the list and changed together, in a real browser. */
import { expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { listAudit } from "../../src/audit/mod.ts";
import { TIERS } from "../../src/licensing/mod.ts";
import { useForEach } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { startConsole, tabTo } from "./support/console.ts";

// Hundreds of keys are issued and changed one after another.
setDefaultTimeout(120_000);
const admin = useForEach(startConsole);

async function issue(count: number): Promise<void> {
  for (let n = 0; n < count; n++)
    await admin.issue({ email: `user${n}@example.org`, tier: TIERS[n % 4] ?? "free", name: "Grace Hopper" });
}

const boxes = (page: Page) => page.getByRole("checkbox", { name: "svc_" });
const rowsWith = async (reason: string) =>
  (await listAudit(admin.database, { limit: 2_000 })).filter((row) => row.reason === reason);

/** Opens the form of an action, and sends it. */
async function act(
  page: Page,
  label: string,
  { reason, meanwhile }: { readonly reason: string; readonly meanwhile?: () => Promise<unknown> },
): Promise<void> {
  await page.locator("summary", { hasText: `${label}…` }).click();
  const form = page.locator("details[open] > form");
  await form.getByLabel("Reason").fill(reason);
  await confirm(page, label, meanwhile);
}

/** Shows what an open form will change, and changes it. */
async function confirm(page: Page, label: string, meanwhile?: () => Promise<unknown>): Promise<void> {
  await page.locator("details[open] > form").getByRole("button", { name: "Show what will change" }).click();
  await page.getByRole("heading", { name: `${label}: what will change` }).waitFor();
  await meanwhile?.();
  await page.getByRole("button", { name: new RegExp(`^${label}( of)? \\d+ (key|license)s?$`) }).click();
}

for (const script of [false, true])
  test(`Selected keys are suspended together, ${script ? "with" : "without"} script`, async () => {
    await issue(6);
    await admin.visitAs("editor", { path: "/keys", script }, async (page) => {
      for (const at of [0, 2, 3]) await boxes(page).nth(at).check();
      if (script) {
        await page.getByText("3 selected").waitFor();
        await expectAccessible(page);
      }
      await page.getByRole("button", { name: "Change the selected keys" }).click();
      await page.getByRole("heading", { name: "3 keys" }).waitFor();
      await act(page, "Suspend", { reason: "the invoice of May" });
      await page.getByText("Suspend: 3 keys done. Failed: 0. Left: 0.").waitFor();
      if (script) await expectAccessible(page);
    });
    expect(await rowsWith("the invoice of May")).toHaveLength(3);
  });

test("All keys that meet the conditions are selected by one box without script, in sight at the bottom of the window", async () => {
  await issue(62);
  await admin.visitAs("admin", { path: "/keys?search=user", script: false }, async (page) => {
    const bar = page.locator(".selects > .actions");
    expect(await bar.evaluate((shown) => shown.getBoundingClientRect().bottom)).toBe(800);
    await page.getByLabel("All 62 keys that meet the conditions").check();
    await page.getByRole("button", { name: "Change the selected keys" }).click();
    await page.getByRole("heading", { name: "62 keys" }).waitFor();
    await act(page, "Suspend", { reason: "they were sold twice" });
    await page.getByText("Suspend: 50 keys done. Failed: 0. Left: 12.").waitFor();
    await page.getByRole("button", { name: "Continue with the next 12" }).click();
    await page.getByText("Suspend: 62 keys done. Failed: 0. Left: 0.").waitFor();
  });
  expect(await rowsWith("they were sold twice")).toHaveLength(62);
});

test("The script goes on by itself, names what failed, and tries it again", async () => {
  await issue(120);
  await admin.visitAs("editor", { path: "/keys" }, async (page) => {
    await page.getByLabel("All 120 keys").check();
    expect(await page.locator("th > :checked").count()).toBe(50);
    await boxes(page).first().uncheck();
    expect(await page.getByLabel("All 120 keys").isChecked()).toBe(false);
    await page.getByText("49 selected").waitFor();
    await page.getByLabel("All 120 keys").check();
    await page.getByRole("button", { name: "Change the selected keys" }).click();
    await page.getByRole("heading", { name: "120 keys" }).waitFor();
    // Somebody else revokes two of them after they were shown.
    const meanwhile = () =>
      admin.database.query(
        (sql) => sql`
          update keys set state = 'revoked', revoked_at = created_at
           where id in (select id from keys order by id limit 2)`,
      );
    await act(page, "Suspend", { reason: "a trial that ended", meanwhile });
    await page.getByText("Suspend: 118 keys done. Failed: 2. Left: 0.").waitFor();
    expect(await page.getByText("it was active when it was shown, and is revoked now").count()).toBe(2);
    await page.locator("[role=status]:focus").waitFor();
    expect(await page.title()).toBe("Suspend: 120 of 120 keys – Claviger");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Try again with 2" }).click();
    // Nothing is done before it is shown again, and by now nothing can be done.
    await page.getByText("0 keys will change").waitFor();
    await page.getByText("Left out, because the state does not allow it: 2 keys").waitFor();
  });
  expect(await rowsWith("a trial that ended")).toHaveLength(118);
});

test("A run that loses the service goes on where it was", async () => {
  await issue(120);
  const lost = { path: "/keys", expectedFaults: [/ERR_FAILED/] };
  await admin.visitAs("editor", lost, async (page) => {
    await page.getByLabel("All 120 keys").check();
    await page.getByRole("button", { name: "Change the selected keys" }).click();
    await page.getByRole("heading", { name: "120 keys" }).waitFor();
    let requests = 0;
    // The first request shows what will change, the second one begins, and the third one is that of the script.
    await page.route("**/keys/many/suspend", (route) =>
      ++requests === 3 ? route.abort() : route.continue(),
    );
    await act(page, "Suspend", { reason: "interrupted" });
    await page.getByText("The service did not answer.").waitFor();
    await page.getByText("Suspend: 50 keys done. Failed: 0. Left: 70.").waitFor();
    await page.getByRole("button", { name: "Continue with the next 50" }).click();
    await page.getByText("Suspend: 120 keys done. Failed: 0. Left: 0.").waitFor();
  });
  expect(await rowsWith("interrupted")).toHaveLength(120);
});

test("The keys of a page are selected at once, a range with Shift, and by the keyboard", async () => {
  await issue(8);
  await admin.visitAs("editor", { path: "/keys" }, async (page) => {
    expect(await page.getByLabel("All 8 keys").count()).toBe(0);
    await page.getByRole("button", { name: "Select these 8" }).click();
    await page.getByText("8 selected").waitFor();
    await page.getByRole("button", { name: "Select none" }).click();
    await boxes(page).nth(1).click();
    await boxes(page)
      .nth(5)
      .click({ modifiers: ["Shift"] });
    await page.getByText("5 selected").waitFor();
    await tabTo(page, boxes(page).nth(7));
    await page.keyboard.press("Space");
    await page.getByText("6 selected").waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download the selected keys as CSV" }).click();
    const lines = (await Bun.file(await (await download).path()).text()).trim().split("\r\n");
    expect(lines).toHaveLength(7);
  });
});
