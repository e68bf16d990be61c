/** The form for a report of use, whose script reads a file. `test/admin/usage_reports_test.ts` has what the pages say. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { useForAll } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { firstReport } from "../usage/reports/report_kit.ts";
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
