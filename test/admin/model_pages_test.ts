/** The list of models, the page of a model, and its changes. `upload_test.ts` has the files. */
import { beforeAll, describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { findRegistered, retireVersion } from "../../src/models/mod.ts";
import type { Role } from "../../src/operators/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { addNewModel } from "../support/new_model.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { awaitFile, issueRevoked } from "./sample_requests.ts";
import { attributesOf, linkTo, textsOf } from "./texts_of.ts";

const LONG = "a_very_long_name_of_a_model.".repeat(7).slice(0, 195);
const MAX_BYTES = 150_000;

const admin = useAdmin();
const client = createConsoleClient(admin);
let viewer: string;
let editor: string;
beforeAll(async () => {
  viewer = (await client.logIn("viewer")).cookie;
  editor = (await client.logIn("editor", "emil")).cookie;
});

const open = async (path: string, cookie = viewer) => (await client.send(path, { cookie })).text;
const change = (path: string, form: Record<string, string>) => client.submit(path, { cookie: editor, form });
/** Tells whether the page has the form of an action whose name begins with these words. */
const offers = (text: string, action: string) =>
  textsOf(text, ".action > summary").some((summary) => summary.startsWith(action));
const add = (fields: object) => addNewModel(admin.database, fields, { now: admin.clock.now() });

describe("The list of models", () => {
  const empty = createConsoleClient(useAdmin());

  test("says what to do while it is empty, and leads to the form and the command that add a model", async () => {
    const openEmpty = async (path: string, role: Role) =>
      (await empty.send(path, { cookie: (await empty.logIn(role)).cookie })).text;
    const text = await openEmpty("/models", "editor");
    expect(text).toContain("There is no model yet");
    const form = await openEmpty(linkTo(text, "Add a model"), "editor");
    expect(textsOf(form, "#add-command")[0]).toStartWith("claviger models add");
    expect(attributesOf(form, "button", "data-copies")).toEqual(["add-command"]);
    const seen = await openEmpty("/models", "viewer");
    expect(seen).toContain("An editor or an admin can add one.");
    expect(linkTo(seen, "Add a model")).toBe("");
  });

  test("shows the newest first with their owners, and stays small with fifty of them", async () => {
    for (let n = 0; n < 48; n++) await add({ name: `model_${n}`, sizeMb: (n + 1) / 7 });
    const owner = await admin.issue({ email: "owner@example.org" });
    const ownerUuid = parseId("usr", owner.userId);
    await add({ name: LONG, ownerUuid, requiresLicense: "enterprise", sizeMb: 1_234.5 });
    for (const version of ["1.0.0", "1.1.0"]) await add({ name: "p300-speller", version, paradigm: "p300" });
    const text = await open("/models");
    expect(textsOf(text, "tbody th")).toHaveLength(50);
    expect(textsOf(text, "tbody th")[0]).toBe("p300-speller");
    expect(linkTo(text, "p300-speller")).toBe("/models/p300-speller");
    for (const path of ["/models", `/models/${LONG}`])
      expect(linkTo(await open(path), "owner@example.org")).toBe(`/accounts/${owner.userId}`);
    expect(Buffer.byteLength(text)).toBeLessThan(MAX_BYTES);
  });
});

describe("The page of a model", () => {
  test("shows the versions; an editor retires one by typing it, and takes the model off the list", async () => {
    for (const version of ["1.0.0", "1.1.0", "2.0.0"]) await add({ name: "aging", version });
    const by = { actor: ACTOR, now: admin.clock.now() };
    await retireVersion(admin.database, { name: "aging", version: "1.0.0" }, by);
    expect(textsOf(await open("/models/aging"), "tbody th")).toEqual(["2.0.0", "1.1.0", "1.0.0"]);
    for (const [version, status, error] of [
      ["", 400, "It must be a version of this model"],
      ["9.9.9", 404, "there is no aging 9.9.9"],
    ] as const) {
      const refused = await change("/models/aging/retire", { version });
      expect([refused.status, refused.text.includes(error)]).toEqual([status, true]);
    }
    const retired = await change("/models/aging/retire", { version: "1.1.0" });
    expect(retired.text).toContain("The version was retired");
    expect(offers(retired.text, "Take off")).toBe(true);
    const removed = await change("/models/aging/remove", {});
    expect(removed.text).toContain("The model was taken off the list.");
    expect(offers(removed.text, "Take off")).toBe(false);
    const found = await findRegistered(admin.database, "aging");
    expect(found?.model.listedVersion).toBeNull();
    expect(found?.versions.map(({ retiredAt }) => retiredAt !== null)).toEqual([false, true, true]);
  });

  test("offers to retire while a version is left", async () => {
    await add({ name: "single" });
    expect(offers(await open("/models/single", editor), "Retire")).toBe(true);
    const { text } = await change("/models/single/retire", { version: "1.0.0" });
    expect(text).toContain("The version was retired");
    expect(offers(text, "Retire")).toBe(false);
  });

  test("shows the command that uploads a file to an editor, and nothing to change to a viewer", async () => {
    const name = await awaitFile(admin);
    const text = await open(`/models/${name}`, editor);
    expect(textsOf(text, "tbody td")[0]).toBe("waits for its file");
    const [command] = textsOf(text, ".upload code.key");
    expect(command).toStartWith("curl -T ./model.bin");
    expect(command).toEndWith(` ${admin.url}/admin/v1/models/${name}/1.0.0/file`);
    const seen = await open(`/models/${name}`);
    expect([textsOf(seen, ".action"), textsOf(seen, ".upload")]).toEqual([[], []]);
  });

  test("answers a name that no model has", async () => {
    const { status, text } = await client.send("/models/%3Cscript%3E", { cookie: viewer });
    expect(status).toBe(404);
    expect(text).toContain("Cannot show model: no model has that name.");
  });
});

describe("The forms that withdraw a model or a version", () => {
  const own = useAdmin();
  const its = createConsoleClient(own);

  test("say before how many keys of which tiers see none then", async () => {
    const { cookie } = await its.logIn("editor");
    const show = async (name: string) => (await its.send(`/models/${name}`, { cookie })).text;
    const addTo = (fields: object) => addNewModel(own.database, fields, { now: own.clock.now() });
    for (const version of ["1.0.0", "1.1.0"])
      await addTo({ name: "paid", version, requiresLicense: "commercial" });
    expect(textsOf(await show("paid"), "#remove-form")[0]).toContain(
      "Now all active keys of the tiers commercial, enterprise can see 1.1.0.",
    );
    for (const tier of ["free", "commercial", "commercial", "enterprise"] as const) await own.issue({ tier });
    await issueRevoked(own, { tier: "commercial" });
    await computeFigures(own.database, { clock: own.clock });
    const text = await show("paid");
    const seen = "3 active keys of the tiers commercial, enterprise";
    expect(textsOf(text, ".facts dd").join(" ")).toContain(`${seen}, counted`);
    const stays = "Clients that have the file already can go on using it.";
    expect(textsOf(text, "#remove-form")[0]).toContain(
      `Now ${seen} can see 1.1.0. After the change no client sees any version of the model. Clients can still download its files by name and version. ${stays}`,
    );
    expect(textsOf(text, "#retire-form")[0]).toContain(
      `${stays} If it is 1.1.0, which ${seen} can see now, no client sees any version of the model until another one is added. If it is another version, clients still see 1.1.0,`,
    );
    const submit = async (action: string, form: Record<string, string>) =>
      textsOf((await its.submit(`/models/paid/${action}`, { cookie, form })).text, ".notice")[0];
    expect(await submit("retire", { version: "1.0.0" })).toContain(`Clients still see 1.1.0. ${stays}`);
    expect(await submit("retire", { version: "1.1.0" })).toContain(
      `No client sees any version of the model. ${stays}`,
    );
    expect(textsOf(await show("paid"), ".facts dd").join(" ")).not.toContain("active keys");
    const owner = await own.issue({ email: "owner@example.org", tier: "enterprise" });
    await addTo({ name: "private", ownerUuid: parseId("usr", owner.userId), requiresLicense: "enterprise" });
    expect(textsOf(await show("private"), "#remove-form")[0]).toContain(
      "Now 1 active key of the account owner@example.org can see 1.0.0.",
    );
  });
});

test("The form of a new model leads to its page with the command that uploads its file", async () => {
  const { text } = await change("/models/_add", {
    name: " new-model+1 ",
    type: "SvcProbit",
    paradigm: "p300",
    n_features: "128",
    n_classes: "2",
    requires_license: "research",
    version: "1.0.0",
  });
  expect(textsOf(text, "h1")).toEqual(["new-model+1"]);
  expect(text).toContain("The version was added. Upload its file now");
  expect(textsOf(text, ".upload code.key")[0]).toEndWith("/models/new-model%2B1/1.0.0/file");
  const found = await findRegistered(admin.database, "new-model+1");
  expect(found?.versions).toMatchObject([
    { type: "SvcProbit", nFeatures: 128, nClasses: 2, requiresLicense: "research", awaitsFile: true },
  ]);
});

test("The form of a new model adds a version to one that exists only with the box, after saying what it changes for whom", async () => {
  await add({ name: "known", version: "1.2.0", requiresLicense: "commercial" });
  await admin.issue({ tier: "commercial" });
  await issueRevoked(admin, { tier: "commercial" });
  for (const tier of ["free", "research", "enterprise"] as const) await admin.issue({ tier });
  const form = {
    ...{ name: "known", version: "2.0.0", type: "SvcProbit", paradigm: "p300", n_features: "128" },
    ...{ n_classes: "2", requires_license: "free" },
  };
  const errorsOf = async (more: object) => {
    const { status, text } = await change("/models/_add", { ...form, ...more });
    expect(status).toBe(400);
    return textsOf(text, "#add-add_version-error");
  };
  const versions = async () => (await findRegistered(admin.database, "known"))?.versions.length;
  expect(await errorsOf({})).toEqual([
    expect.stringMatching(
      /^A model has this name already; clients see 1\.2\.0 \(tier commercial\) now, and 2\.0\.0 \(tier free\) after the upload of its file: the model becomes visible for \d+ active keys of the tiers free, research\. Check the box if that is meant$/,
    ),
  ]);
  expect((await errorsOf({ requires_license: "enterprise" }))[0]).toContain(
    ": the model disappears for 1 active key of the tier commercial.",
  );
  expect((await errorsOf({ requires_license: "commercial" }))[0]).toContain(": the same keys see the model.");
  expect(await versions()).toBe(1);
  const { text } = await change("/models/_add", { ...form, add_version: "yes" });
  expect(text).toContain(
    "Upload its file now: clients see 1.2.0 (tier commercial) now, and 2.0.0 (tier free) after the upload of its file.",
  );
  expect(await versions()).toBe(2);
  // A version that exists is refused as such.
  const again = await change("/models/_add", form);
  expect([again.status, textsOf(again.text, "#add-add_version-error")]).toEqual([409, []]);
});

test("The form of a new model marks every field that needs a value in the first round", async () => {
  const form = { name: "motor", type: "", paradigm: "", n_features: "", n_classes: "", requires_license: "" };
  const { status, text } = await change("/models/_add", { ...form, version: "1.0.0" });
  expect(status).toBe(400);
  expect(textsOf(text, "#add-type-error")).toEqual(["It must be chosen"]);
  expect(textsOf(text, ".error")).toHaveLength(5);
  const wrong = await change("/models/_add", { ...form, n_classes: "1" });
  expect(textsOf(wrong.text, "#add-n_classes-error")).toEqual(["It must be a whole number, at least 2"]);
});
