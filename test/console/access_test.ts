/** The form that issues a token, by keyboard. `test/admin/access_pages_test.ts` has what the pages of Access say. */
import { beforeAll, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { useForAll } from "../support/use.ts";
import { startConsole, tabTo } from "./support/console.ts";

const admin = useForAll(startConsole);
beforeAll(async () => {
  await createConsoleClient(admin).newCode("olga");
});

test("A token with every option is issued by keyboard alone, and a reload does not show it again", async () => {
  await admin.visitAs("admin", { path: "/access" }, async (page) => {
    await tabTo(page, page.locator("#issue-token > summary"));
    await page.keyboard.press("Enter");
    const form = page.locator("#issue-token-form");
    await form.locator("#issue-token-name:focus").waitFor();
    await page.keyboard.type("shop");
    await tabTo(page, form.locator("[name=preset]").last());
    // The first follows after the last, which is chosen at first.
    await page.keyboard.press("ArrowDown");
    await tabTo(page, form.locator("summary"));
    await page.keyboard.press("Enter");
    for (const box of ["keys:revoke", "free", "research"]) {
      await tabTo(page, form.locator(`[value="${box}"]`));
      await page.keyboard.press("Space");
    }
    await tabTo(page, form.getByLabel("Mode of the keys"));
    await page.keyboard.type("li");
    await tabTo(page, form.getByLabel("Addresses and networks"));
    await page.keyboard.type("10.0.0.0/8, 192.0.2.1");
    await tabTo(page, form.getByLabel("Expires"));
    await page.keyboard.type("2031-01-31");
    await tabTo(page, form.getByLabel("Reason"));
    await page.keyboard.type("for the shop");
    await page.keyboard.press("Enter");
    await page.getByText("Copy the token now.").waitFor();
    expect(await page.locator(".facts").textContent()).toContain(
      "Scopeskeys:read, keys:issue, keys:manage, keys:revoke, accounts:joinTiersfree, researchModeliveFrom10.0.0.0/8, 192.0.2.1",
    );
    const token = (await page.locator("#new-token").textContent()) ?? "";
    expect(token).toMatch(/^svc_op_[0-9a-f]{48}$/);
    expect(page.url()).not.toContain(token);
    await page.reload();
    await page.getByText("It is not shown again").waitFor();
    expect(page.url()).toBe(`${admin.url}/console/access/tokens/shop?done=shown`);
    expect(await page.content()).not.toContain(token);
  });
  const [row] = await listAudit(admin.database, { limit: 1 });
  expect(row).toMatchObject({ action: "token.issue", reason: "for the shop" });
});
