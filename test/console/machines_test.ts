/** The list of machines, the page of a machine, and the panels of keys and accounts, in a real browser. */
import { describe, expect, test } from "bun:test";
import { isRefusal } from "../../src/base/refusal.ts";
import { activateMachine, createMachineNames } from "../../src/licensing/machines/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { licenseWith, type TestLicense } from "../support/machines.ts";
import { openSecrets } from "../support/secrets.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole } from "./support/console.ts";

const admin = useForAll(() => startConsole());
const nameMachine = createMachineNames(openSecrets());

async function activate({ keyUuid, licenseUuid }: TestLicense, name: string, platform?: string) {
  const machine = nameMachine(licenseUuid, `fingerprint of ${name}`);
  const now = admin.clock.now();
  const activation = { keyUuid, machine, name, platform, actor: ACTOR, now };
  const activated = await activateMachine(admin.database, activation);
  if (isRefusal(activated)) throw new Error(activated.sentence);
  return `mch_${activated.uuid?.replaceAll("-", "")}`;
}

describe("The machines", () => {
  test("of a key are on its page; an editor releases one, and a viewer cannot", async () => {
    const license = await licenseWith(admin.database, { maxMachines: 2, seatMinutes: 30 });
    const id = await activate(license, "Notebook of Ada <b>", "linux x86-64");
    await activate(license, "A workstation with a very long name ".repeat(4), "Windows 11");
    const keyPath = `/keys/key_${license.keyUuid.replaceAll("-", "")}`;
    await admin.visitAs("viewer", { path: `/machines/${id}` }, async (page) => {
      await page.getByRole("heading", { name: `Machine …${id.slice(-6)}` }).waitFor();
      expect(await page.getByText("Release", { exact: true }).count()).toBe(0);
    });
    await admin.visitAs("editor", { path: keyPath }, async (page) => {
      await page.getByRole("heading", { name: "Machines" }).waitFor();
      await page.getByText("Places taken: 2 of 2.").waitFor();
      await page.getByText("all places taken").waitFor();
      await takeScreenshots(page, "key-machines");
      await page.getByRole("link", { name: "Notebook of Ada <b>" }).click();
      await page.locator("summary", { hasText: "Release" }).click();
      await takeScreenshots(page, "machine");
      await expectAccessible(page);
      await page.getByLabel("Reason").fill("the notebook was sold");
      await page.getByRole("button", { name: "Release the machine" }).click();
      await page.getByText("The machine is released: its place is free.").waitFor();
      expect(await page.locator("summary", { hasText: "Release" }).count()).toBe(0);
    });
    const rows = await admin.database.query(
      (sql) => sql`select action, reason from audit where action = 'machine.release'`,
    );
    expect(rows).toEqual([{ action: "machine.release", reason: "the notebook was sold" }]);
  });

  test("are listed newest first, by state and license", async () => {
    const license = await licenseWith(admin.database, { maxMachines: 12 });
    for (let n = 1; n <= 12; n++) await activate(license, `laptop ${n}`);
    const id = `lic_${license.licenseUuid.replaceAll("-", "")}`;
    await admin.visitAs("viewer", { path: `/machines?license=${id}&state=active` }, async (page) => {
      expect(await page.locator("tbody tr").count()).toBe(12);
      expect(await page.locator("tbody th").first().textContent()).toBe("laptop 12");
      await takeScreenshots(page, "machines");
      await expectAccessible(page);
      await page.locator("tbody a[href^='/console/accounts/']").first().click();
      await page.getByText("The 10 newest ones").waitFor();
      await page.getByRole("link", { name: "Show all machines" }).click();
      await page.getByText("12 machines, newest first").waitFor();
    });
    await admin.visitAs("viewer", { path: `/machines?license=${id}&state=released` }, async (page) => {
      await page.getByText("No machine meets these conditions.").waitFor();
    });
  });
});
