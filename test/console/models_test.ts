/** The list of models and the page of a model, in a real browser. */
import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { parseId } from "../../src/base/ids.ts";
import { findRegistered, retireVersion } from "../../src/models/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { addNewModel } from "../support/new_model.ts";
import { useForAll } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole, tabTo } from "./support/console.ts";

const LONG = "a_very_long_name_of_a_model.".repeat(7).slice(0, 195);
/** A page of the console is never larger. */
const MAX_BYTES = 150_000;

const admin = useForAll(() => startConsole({ uploads: { uploadMaxGb: 0.02 } }));
const folder = useFolder();

const add = (fields: object) => addNewModel(admin.database, fields, { now: admin.clock.now() });

async function open(page: Page, action: string): Promise<void> {
  await page.locator("summary", { hasText: action }).click();
}

describe("The list of models", () => {
  test("says what to do while it is empty, and leads to the form and the command that add a model", async () => {
    await admin.visitAs("editor", { path: "/models" }, async (page) => {
      await page.getByText("There is no model yet").waitFor();
      await takeScreenshots(page, "models-empty");
      await expectAccessible(page);
      await page.getByRole("link", { name: "Add a model" }).click();
      await open(page, "Add it with a command");
      expect(await page.locator("#add-command").textContent()).toStartWith("claviger models add");
      await page.getByRole("button", { name: "Copy the command" }).waitFor();
      await takeScreenshots(page, "models-add-with-command");
      await expectAccessible(page);
    });
    await admin.visitAs("viewer", { path: "/models" }, async (page) => {
      await page.getByText("An editor or an admin can add one.").waitFor();
      expect(await page.getByRole("link", { name: "Add a model" }).count()).toBe(0);
    });
  });

  test("shows 50 models, newest first, and the others on the next page, without script", async () => {
    for (let n = 0; n < 49; n++) await add({ name: `model_${n}`, sizeMb: n / 7 });
    const owner = await admin.issue({ email: "owner@example.org" });
    const ownerUuid = parseId("usr", owner.userId);
    await add({ name: LONG, ownerUuid, requiresLicense: "enterprise", sizeMb: 1_234.5 });
    await add({ name: "p300-speller", paradigm: "p300" });
    await add({ name: "p300-speller", version: "1.1.0", paradigm: "p300" });
    await admin.visitAs("viewer", { path: "/models", script: false }, async (page) => {
      expect(await page.locator("tbody tr").count()).toBe(50);
      expect(await page.locator("tbody th").first().textContent()).toBe("p300-speller");
      await page.getByRole("link", { name: "owner@example.org" }).waitFor();
      expect((await page.content()).length).toBeLessThan(MAX_BYTES);
      await page.getByRole("link", { name: "Next page" }).click();
      await page.getByRole("link", { name: "First page" }).waitFor();
      expect(await page.locator("tbody th").allTextContents()).toEqual(["model_0"]);
    });
    await admin.visitAs("editor", { path: "/models" }, async (page) => {
      await takeScreenshots(page, "models");
      await expectAccessible(page);
      await page.getByRole("link", { name: "p300-speller" }).click();
      await page.getByRole("heading", { name: "p300-speller" }).waitFor();
    });
  });
});

describe("The page of a model", () => {
  test("shows the versions; an editor retires one by typing it, and takes the model off the list", async () => {
    await add({ name: "aging" });
    for (const version of ["1.1.0", "2.0.0"]) await add({ name: "aging", version });
    await retireVersion(
      admin.database,
      { name: "aging", version: "1.0.0" },
      { actor: ACTOR, now: admin.clock.now() },
    );
    const visit = { path: "/models/aging", expectedFaults: [/status of 404/, /status of 400/] };
    await admin.visitAs("editor", visit, async (page) => {
      expect(await page.locator("tbody th").allTextContents()).toEqual(["2.0.0", "1.1.0", "1.0.0"]);
      await takeScreenshots(page, "model");
      for (const action of ["Take off", "Retire", "Add a version"]) {
        await open(page, action);
        await takeScreenshots(page, `model-${action.toLowerCase().replaceAll(" ", "-")}`);
        await expectAccessible(page);
      }
      await open(page, "Retire");
      await page.getByRole("button", { name: "Retire the version" }).click();
      await page.getByText("It must be a version of this model").waitFor();
      await page.getByLabel("Type the version").fill("9.9.9");
      await page.getByRole("button", { name: "Retire the version" }).click();
      await page.getByText("there is no aging 9.9.9").waitFor();
      await expectAccessible(page);
      await page.getByLabel("Type the version").fill("1.1.0");
      await page.getByRole("button", { name: "Retire the version" }).click();
      await page.getByText("The version was retired").waitFor();
      await open(page, "Take off");
      await page.getByRole("button", { name: "Take it off the list" }).click();
      await page.getByText("The model was taken off the list.").waitFor();
      expect(await page.locator("summary", { hasText: "Take off" }).count()).toBe(0);
      await takeScreenshots(page, "model-unlisted");
      await expectAccessible(page);
    });
    const found = await findRegistered(admin.database, "aging");
    expect(found?.model.listedVersion).toBeNull();
    expect(found?.versions.map(({ retiredAt }) => retiredAt !== null)).toEqual([false, true, true]);
  });

  test("retires a version by keyboard alone, without script", async () => {
    await add({ name: "keyboard" });
    await admin.visitAs("editor", { path: "/models/keyboard", script: false }, async (page) => {
      await tabTo(page, page.locator("summary", { hasText: "Retire" }));
      await page.keyboard.press("Enter");
      await tabTo(page, page.getByLabel("Type the version to retire, such as 1.0.0"));
      await page.keyboard.type("1.0.0");
      await page.keyboard.press("Enter");
      await page.getByText("The version was retired").waitFor();
      expect(await page.locator("summary", { hasText: "Retire" }).count()).toBe(0);
    });
  });

  test("offers a viewer nothing to change, and answers any name", async () => {
    await admin.visitAs("viewer", { path: `/models/${LONG}` }, async (page) => {
      await page.getByRole("link", { name: "owner@example.org" }).waitFor();
      expect(await page.locator(".action").count()).toBe(0);
      await takeScreenshots(page, "model-long");
      await expectAccessible(page);
    });
    const unknown = { path: "/models/%3Cscript%3E", expectedFaults: [/status of 404/] };
    await admin.visitAs("viewer", unknown, async (page) => {
      await page.getByText("Cannot show model: no model has that name.").waitFor();
    });
  });
});

describe("The upload of a file", () => {
  const bytes = Buffer.alloc(10_000_000, "weights of a model; ");
  const path = join(folder, "speller.onnx");
  writeFileSync(path, bytes);
  const versionsOf = async (name: string) => (await findRegistered(admin.database, name))?.versions ?? [];

  /** Adds a version of a model on its page. */
  async function addVersion(page: Page, version = "1.1.0"): Promise<void> {
    await open(page, "Add a version");
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
      await takeScreenshots(page, "model-upload");
      await expectAccessible(page);
      const network = await page.context().newCDPSession(page);
      const limits = { offline: false, latency: 0, downloadThroughput: -1 };
      await network.send("Network.emulateNetworkConditions", { ...limits, uploadThroughput: 1_000_000 });
      await page.getByLabel("File").setInputFiles(path);
      await page.getByRole("button", { name: "Upload" }).click();
      await page.getByText(/^Sending the file: \d/).waitFor();
      expect(await page.locator("progress").isVisible()).toBe(true);
      await takeScreenshots(page, "model-upload-in-progress");
      await expectAccessible(page);
      await network.send("Network.emulateNetworkConditions", { ...limits, uploadThroughput: -1 });
      await expectArrived(page, "1.1.0");
      await takeScreenshots(page, "model-upload-done");
      await expectAccessible(page);
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
      await takeScreenshots(page, "model-upload-twice");
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
      await takeScreenshots(page, "model-upload-failed");
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

  test("shows the command alone without script, and nothing to a viewer", async () => {
    await add({ name: "scriptless" });
    await admin.visitAs("editor", { path: "/models/scriptless", script: false }, async (page) => {
      await addVersion(page);
      expect(await page.locator(".upload form").isVisible()).toBe(false);
      const command = await page.locator(".upload code.key").textContent();
      expect(command).toStartWith("curl -T ./model.bin");
      const { origin } = new URL(page.url());
      expect(command).toEndWith(`  ${origin}/admin/v1/models/scriptless/1.1.0/file`);
    });
    await admin.visitAs("viewer", { path: "/models/scriptless" }, async (page) => {
      expect(await page.locator(".upload").count()).toBe(0);
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
      await takeScreenshots(page, "models-add");
      await expectAccessible(page);
      await fill(page, "new-model+1");
      await page.getByLabel("File").setInputFiles(path);
      await submit(page);
      await page.locator(".notice.good", { hasText: "Clients see 1.0.0 now" }).waitFor();
      await page.getByRole("heading", { name: "new-model+1" }).waitFor();
      await page.getByRole("cell", { name: "listed", exact: true }).waitFor();
      await takeScreenshots(page, "models-added");
      await expectAccessible(page);
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
      await takeScreenshots(page, "models-add-refused");
      await expectAccessible(page);
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

  test("leads by keyboard and without script to the page of the model with its command", async () => {
    await admin.visitAs("editor", { path: "/models/_add", script: false }, async (page) => {
      expect(await page.getByLabel("File").isVisible()).toBe(false);
      await fill(page, "without-script");
      await tabTo(page, page.getByRole("button", { name: "Add the model" }));
      await page.keyboard.press("Enter");
      await page.getByText("The version was added. Upload its file now").waitFor();
      expect(await page.locator(".upload code.key").textContent()).toEndWith(
        "/models/without-script/1.0.0/file",
      );
    });
  });
});
