/** The list of models and the page of a model, in a real browser. */
import { describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { parseId } from "../../src/ids.ts";
import { findRegistered, retireVersion } from "../../src/models/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { addNewModel } from "../support/new_model.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole, tabTo } from "./support/console.ts";

const LONG = "a_very_long_name_of_a_model.".repeat(7).slice(0, 195);
/** A page of the console is never larger. */
const MAX_BYTES = 150_000;

const admin = useForAll(startConsole);

const add = (fields: object) => addNewModel(admin.database, fields, { now: admin.clock.now() });

async function open(page: Page, action: string): Promise<void> {
  await page.locator("summary", { hasText: action }).click();
}

describe("The list of models", () => {
  test("says what to do while it is empty, with the command that adds a model", async () => {
    await admin.visitAs("editor", { path: "/models" }, async (page) => {
      await page.getByText("There is no model yet").waitFor();
      expect(await page.locator("#add-command").textContent()).toStartWith("claviger models add");
      await page.getByRole("button", { name: "Copy the command" }).waitFor();
      await takeScreenshots(page, "models-empty");
      await expectAccessible(page);
    });
    await admin.visitAs("viewer", { path: "/models" }, async (page) => {
      await page.getByText("An editor or an admin can add one.").waitFor();
      expect(await page.locator("#add-command").count()).toBe(0);
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
      await open(page, "Add a model");
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
      await tabTo(page, page.getByLabel("Type the version"));
      await page.keyboard.type("1.0.0");
      await page.keyboard.press("Enter");
      await page.getByText("The version was retired").waitFor();
      expect(await page.locator(".action form").count()).toBe(0);
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
