/** Files of models, which a script uploads. `test/admin/model_pages_test.ts` has what the pages of models say. */
import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { findRegistered, retireVersion } from "../../src/models/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { addNewModel } from "../support/new_model.ts";
import { useForAll } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { startConsole } from "./support/console.ts";

const admin = useForAll(() => startConsole({ uploads: { uploadMaxGb: 0.02 } }));
const folder = useFolder();

const add = (fields: object) => addNewModel(admin.database, fields, { now: admin.clock.now() });

describe("The upload of a file", () => {
  const bytes = Buffer.alloc(10_000_000, "weights of a model; ");
  const path = join(folder, "speller.onnx");
  writeFileSync(path, bytes);
  const versionsOf = async (name: string) => (await findRegistered(admin.database, name))?.versions ?? [];

  /** Adds a version of a model on its page. */
  async function addVersion(page: Page, version = "1.1.0"): Promise<void> {
    await page.locator("summary", { hasText: "Add a version" }).click();
    await page.getByLabel("New version").fill(version);
    await page.getByRole("button", { name: "Add the version" }).click();
    await page.getByText("The version was added. Upload its file now").waitFor();
  }

  /** The page was loaded again: it says what arrived, and nothing on it says that the version waits. */
  async function expectArrived(page: Page, version: string): Promise<void> {
    const notice = page.locator(".notice.good", {
      hasText: `Clients see ${version} now. Its file has arrived`,
    });
    await notice.waitFor();
    expect(await notice.textContent()).toContain(hash("sha256", bytes));
    await page.getByRole("cell", { name: "listed", exact: true }).waitFor();
    expect(await page.getByText("Upload its file now").count()).toBe(0);
    expect(await page.getByText("waits for its file").count()).toBe(0);
    expect(await page.locator(".upload").count()).toBe(0);
  }

  test("reads the file, sends it, says what was checked, and the list shows the version", async () => {
    await add({ name: "uploaded", paradigm: "p300" });
    await admin.visitAs("editor", { path: "/models/uploaded" }, async (page) => {
      await addVersion(page);
      expect(await page.locator("tbody td").first().textContent()).toBe("waits for its file");
      const network = await page.context().newCDPSession(page);
      const limits = { offline: false, latency: 0, downloadThroughput: -1 };
      await network.send("Network.emulateNetworkConditions", { ...limits, uploadThroughput: 1_000_000 });
      await page.getByLabel("File").setInputFiles(path);
      await page.getByRole("button", { name: "Upload" }).click();
      await page.getByText(/^Sending the file: \d/).waitFor();
      expect(await page.locator("progress").isVisible()).toBe(true);
      await expectAccessible(page);
      await network.send("Network.emulateNetworkConditions", { ...limits, uploadThroughput: -1 });
      await expectArrived(page, "1.1.0");
    });
    const [added, old] = await versionsOf("uploaded");
    expect(added).toMatchObject({
      ...old,
      version: "1.1.0",
      sizeMb: 10,
      isHosted: true,
      createdAt: added?.createdAt,
    });
    const [row] = await admin.database.query<{ actor: string; fileName: string }>(
      (sql) => sql`
        select actor, (select file_name from model_versions v where v.checksum = after ->> 'checksum') as "fileName"
          from audit where action = 'model.upload'`,
    );
    expect(row).toEqual({ actor: "operator:emil", fileName: "speller.onnx" });
  });

  test("waits for another upload on the page, so that both files arrive", async () => {
    await add({ name: "twice" });
    await admin.visitAs("editor", { path: "/models/twice" }, async (page) => {
      for (const version of ["1.1.0", "1.2.0"]) await addVersion(page, version);
      const network = await page.context().newCDPSession(page);
      const limits = { offline: false, latency: 0, downloadThroughput: -1 };
      await network.send("Network.emulateNetworkConditions", { ...limits, uploadThroughput: 5_000_000 });
      for (const file of await page.getByLabel("File").all()) await file.setInputFiles(path);
      for (const button of await page.getByRole("button", { name: "Upload" }).all()) await button.click();
      await page.getByText("Waits until the other upload on this page has ended.").waitFor();
      await page.locator(".upload .notice.good", { hasText: "The file has arrived." }).waitFor();
      await page.locator(".notice.good", { hasText: "Its file has arrived" }).waitFor();
      expect(await page.locator(".upload").count()).toBe(0);
    });
    expect((await versionsOf("twice")).map(({ awaitsFile }) => awaitsFile)).toEqual([false, false, false]);
  });

  test("says why it failed, and can be repeated", async () => {
    await add({ name: "failing" });
    const [large, empty] = [join(folder, "large"), join(folder, "empty")];
    for (const each of [large, empty]) writeFileSync(each, "");
    truncateSync(large, 20_000_001);
    const visit = { path: "/models/failing", expectedFaults: [/status of 409/, /ERR_/] };
    await admin.visitAs("editor", visit, async (page) => {
      await addVersion(page);
      const upload = async (file: string, sentence: string | RegExp) => {
        await page.getByLabel("File").setInputFiles(file);
        await page.getByRole("button", { name: "Upload" }).click();
        await page.getByText(sentence).waitFor();
      };
      await upload(empty, "Choose a file that is not empty.");
      await upload(large, "The file has 20 MB: use the command below.");
      await page.route("**/file?*", (route) => route.abort());
      await upload(path, "The connection was lost. Upload the file again.");
      await expectAccessible(page);
      await page.unroute("**/file?*");
      await retireVersion(
        admin.database,
        { name: "failing", version: "1.1.0" },
        { actor: ACTOR, now: admin.clock.now() },
      );
      await upload(path, "Cannot upload file: failing 1.1.0 is retired or has another file");
      await admin.database.query((sql) => sql`delete from operator_sessions`);
      await upload(path, "Nothing was stored: the session has ended");
      expect(await page.locator("progress").isVisible()).toBe(false);
    });
    expect((await versionsOf("failing"))[0]).toMatchObject({ version: "1.1.0", isHosted: true, sizeMb: 0 });
  });

  test("is shown with a script only", async () => {
    await add({ name: "scriptless" });
    await admin.visitAs("editor", { path: "/models/scriptless", script: false }, async (page) => {
      await addVersion(page);
      expect(await page.locator(".upload form").isVisible()).toBe(false);
      await page.locator(".upload code.key").waitFor();
      await page.goto(`${admin.url}/console/models/_add`);
      expect(await page.getByLabel("File").isVisible()).toBe(false);
    });
  });
});

describe("The form of a new model", () => {
  const bytes = Buffer.alloc(2_000_000, "weights of a new model; ");
  const path = join(folder, "new.onnx");
  writeFileSync(path, bytes);

  async function fill(page: Page, name: string): Promise<void> {
    await page.getByLabel("Name").fill(` ${name} `);
    await page.getByLabel("Type").selectOption("SvcProbit");
    await page.getByLabel("Paradigm").fill("p300");
    await page.getByLabel("Features").fill("128");
    await page.getByLabel("Classes").fill("2");
    await page.getByLabel("Lowest tier").selectOption("research");
  }
  const submit = (page: Page) => page.getByRole("button", { name: "Add the model" }).click();

  test("adds the model and uploads its file with three clicks and a chosen file", async () => {
    await admin.visitAs("editor", { path: "/overview" }, async (page) => {
      await page.getByRole("link", { name: "Models" }).click();
      await page.getByRole("link", { name: "Add a model" }).click();
      await fill(page, "new-model+1");
      await page.getByLabel("File").setInputFiles(path);
      await submit(page);
      await page.locator(".notice.good", { hasText: "Clients see 1.0.0 now" }).waitFor();
      await page.getByRole("heading", { name: "new-model+1" }).waitFor();
      await page.getByRole("cell", { name: "listed", exact: true }).waitFor();
      await page.goBack();
      await page.getByRole("heading", { name: "Models" }).waitFor();
    });
    const found = await findRegistered(admin.database, "new-model+1");
    expect(found?.model).toMatchObject({ listedVersion: "1.0.0", owner: null });
    expect(found?.versions).toMatchObject([
      { type: "SvcProbit", nFeatures: 128, nClasses: 2, requiresLicense: "research", sizeMb: 2 },
    ]);
  });

  test("keeps the texts and the file when the service refuses it, and an upload that failed is repeated", async () => {
    const visit = { path: "/models/_add", expectedFaults: [/status of 400/, /ERR_/] };
    await admin.visitAs("editor", visit, async (page) => {
      await fill(page, "kept");
      await page.getByLabel("Classes").fill("1");
      await page.getByLabel("File").setInputFiles(path);
      await submit(page);
      await page.getByText("It must be a whole number, at least 2").waitFor();
      await page.getByLabel("Classes").fill("3");
      await page.route("**/file?*", (route) => route.abort());
      await submit(page);
      await page.getByText("The connection was lost. Upload the file again.").waitFor();
      expect(new URL(page.url()).pathname).toBe("/console/models/kept");
      await page.unroute("**/file?*");
      await page.getByRole("button", { name: "Upload" }).click();
      await page.getByText("Clients see 1.0.0 now").waitFor();
    });
    const found = await findRegistered(admin.database, "kept");
    expect(found?.versions).toMatchObject([{ nClasses: 3, awaitsFile: false }]);
  });
});
