/** The form for a report of use, whose script reads a file. `test/admin/usage_reports_test.ts` has what the pages say. */
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { useForAll } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { FINGERPRINT, firstReport } from "../usage/reports/report_kit.ts";
import { startConsole } from "./support/console.ts";

const admin = useForAll(startConsole);
const folder = useFolder();

test("A report is read from its file, shown, and imported after that", async () => {
  const { licenseUuid } = await admin.issue();
  const path = join(folder, "november.report");
  writeFileSync(path, firstReport(licenseUuid, admin.clock.now()));
  await admin.visitAs("editor", { path: "/usage/reports" }, async (page) => {
    await page.getByLabel("Or its file").setInputFiles(path);
    await page.waitForFunction("document.querySelector('#report-report').value !== ''");
    await page.getByRole("button", { name: "Show what would change" }).click();
    await page.getByText("Would import report 1").waitFor();
    await page.getByRole("button", { name: "Import the report" }).click();
    await page.getByRole("heading", { name: "Imported a report of use" }).waitFor();
    expect(await page.getByText("Imported report 1").count()).toBe(1);
  });
});

test("The next license of the machine is shown before, and downloaded after the import", async () => {
  const { licenseUuid } = await admin.issue({ maxMachines: 1 });
  await admin.visitAs("editor", { path: "/usage/reports" }, async (page) => {
    await page.getByLabel("Report", { exact: true }).fill(firstReport(licenseUuid, admin.clock.now()).trim());
    await page.getByLabel("Fingerprint of the machine").fill(FINGERPRINT);
    await page.getByRole("button", { name: "Show what would change" }).click();
    await page.getByText("The machine then has a place of the license until").waitFor();
    await page.getByRole("button", { name: "Import the report, and sign the license" }).click();
    const link = page.getByRole("link", { name: "Download the license file" });
    const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
    expect(download.suggestedFilename()).toMatch(/^key_\w+\.license$/);
    const file = readFileSync(await download.path(), "utf8");
    expect(file).toStartWith("-----BEGIN LICENSE-----");
    expect(await page.locator("#license").textContent()).toBe(file);
  });
});
