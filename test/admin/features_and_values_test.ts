/** Features and values of a license beside its tier: what its pages show, and how its forms change them. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { toId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  changeTier,
  createLicenseChanges,
  findLicense,
  type LicenseChange,
} from "../../src/licensing/mod.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
const UNTIL = { granted: true, until: "2027-06-30T23:59:59Z" } as const;
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("editor"));
});

const changes = () => createLicenseChanges(admin.database);
const by = () => ({ actor: ACTOR, now: admin.clock.now() });
const pathOf = ({ licenseUuid }: IssuedKey) => `/licenses/${toId("lic", licenseUuid)}`;
const open = async (path: string) => (await client.send(path, { cookie })).text;
const countRows = async () => (await listAudit(admin.database, { limit: 100_000 })).length;
const change = async ({ licenseUuid }: IssuedKey, to: LicenseChange) =>
  orThrow(await changeLicense(changes(), { licenseUuid }, { ...by(), change: to }));
const ownOf = async ({ licenseUuid }: IssuedKey) => {
  const license = await findLicense(admin.database, licenseUuid, { now: admin.clock.now() });
  return { features: license?.ownFeatures, values: license?.ownEntitlements };
};

/** Sends a form of the page of a license, and returns what the page then says. */
async function send(key: IssuedKey, action: string, form: Record<string, string>) {
  const { status, text } = await client.submit(`${pathOf(key)}/${action}`, { cookie, form });
  return { status, text, errors: textsOf(text, ".error"), notice: textsOf(text, ".notice")[0] ?? "" };
}

/** Returns what a list of facts says of a name. */
function factOf(text: string, name: string): string | undefined {
  return textsOf(text, ".facts div")
    .find((fact) => fact.startsWith(`${name} `))
    ?.slice(name.length + 1);
}

describe("The pages of a license and of a key", () => {
  test("show what the license has by its tier and beside it, each value once", async () => {
    // Another test may have given the tier a value.
    await admin.database.query((sql) => sql`update tiers set entitlements = '{}' where tier = 'free'`);
    orThrow(
      await changeTier(changes(), { ...by(), tier: "research", change: { channels: 32, region: "eu" } }),
    );
    const none = await admin.issue({ tier: "free" });
    const ofTier = await admin.issue({ tier: "research" });
    const own = await admin.issue({
      tier: "research",
      ownFeatures: { custom_models: UNTIL, streaming: { granted: false }, on_premise: { granted: true } },
      ownEntitlements: { channels: 64, name: "a, b" },
    });
    for (const path of [pathOf, ({ id }: IssuedKey) => `/keys/${id}`]) {
      const text = await open(path(own));
      expect(factOf(text, "Features")).toBe(
        "batch_inference, training, calibration, model_export, custom_models, on_premise" +
          "Beside the tier: custom_models until 2027-06-30, on_premise, no streaming",
      );
      expect(factOf(text, "Values")).toBe('channels=64, name="a, b"By the tier: region=eu');
      expect(factOf(await open(path(ofTier)), "Values")).toBe("channels=32, region=eu (by the tier)");
    }
    expect(factOf(await open(pathOf(none)), "Features")).toBe("batch_inference");
    expect(factOf(await open(pathOf(none)), "Values")).toBe("none");
    expect(factOf(await open(`/keys/${none.id}`), "Values")).toBeUndefined();
  });

  test("show a feature that has ended as ended, behind the others, and not among those that the license has", async () => {
    const key = await admin.issue({ tier: "free" });
    const ended = { granted: true, until: "2020-01-01T00:00:00Z" };
    const own = { streaming: ended, alpha: ended, own: { granted: true }, beta: { granted: false } };
    await admin.database.query(
      (sql) => sql`
        update licenses set own_features = ${JSON.stringify(own)}::text::jsonb where id = ${key.licenseUuid}::uuid`,
    );
    const beside =
      "no beta, own, alpha until 2020-01-01T00:00:00Z (ended), streaming until 2020-01-01T00:00:00Z (ended)";
    const text = await open(pathOf(key));
    expect(factOf(text, "Features")).toBe(`batch_inference, ownBeside the tier: ${beside}`);
    const form = await open(`${pathOf(key)}?open=features`);
    expect(textsOf(form, "#features-form")[0]).toContain(`Beside the tier free: ${beside}.`);
  });
});

describe("Change features", () => {
  let key: IssuedKey;
  beforeEach(async () => {
    key = await admin.issue({ tier: "free" });
  });

  test("grants a feature until a day, withdraws one, and leaves one to the tier again; each says from what to what", async () => {
    const granted = await send(key, "features", {
      feature: "custom_models",
      decided: "granted",
      until: "2027-06-30",
    });
    expect(granted.notice).toBe(
      "feature custom_models: none → granted until 2027-06-30. All keys of the license have now: batch_inference, custom_models.",
    );
    const withdrawn = await send(key, "features", { feature: "batch_inference", decided: "withdrawn" });
    expect(withdrawn.notice).toBe(
      "feature batch_inference: none → withdrawn. All keys of the license have now: custom_models.",
    );
    expect(await ownOf(key)).toMatchObject({
      features: { custom_models: UNTIL, batch_inference: { granted: false } },
    });
    const left = await send(key, "features", { feature: "batch_inference", decided: "tier" });
    expect(left.notice).toContain("feature batch_inference: withdrawn → none.");
    expect((await ownOf(key)).features).toEqual({ custom_models: UNTIL });
    const [row] = await listAudit(admin.database, { limit: 1 });
    expect(row).toMatchObject({ action: "license.features", keyId: key.id });
  });

  test("says in its form what the license has, and proposes no feature", async () => {
    await change(key, { ownFeatures: { custom_models: UNTIL } });
    const text = await open(`/keys/${key.id}?open=features`);
    const [form] = textsOf(text, "#features-form");
    expect(form).toContain("Now: batch_inference, custom_models.");
    expect(form).toContain("Beside the tier free: custom_models until 2027-06-30.");
    expect(attributesOf(text, "#features-feature", "value")).toEqual([]);
  });

  test("gives a granted feature an earlier end only if the box says so", async () => {
    await change(key, { ownFeatures: { custom_models: UNTIL } });
    const form = { feature: "custom_models", decided: "granted", until: "2027-01-31" };
    const before = await countRows();

    const refused = await send(key, "features", form);

    expect(refused.status).toBe(400);
    expect(refused.errors).toEqual([
      "Cannot change features: the end of the feature custom_models would become earlier, from 2027-06-30T23:59:59Z to 2027-01-31T23:59:59Z. Check the box if that is meant",
    ]);
    expect((await ownOf(key)).features).toEqual({ custom_models: UNTIL });
    expect(await countRows()).toBe(before);
    expect((await send(key, "features", { ...form, shorten: "yes" })).notice).toContain(
      "granted until 2027-06-30 → granted until 2027-01-31.",
    );
  });

  test.each([
    [{ feature: "Custom Models" }, "It must be a name of 1 to 64"],
    [{ feature: "" }, "It must be a name of 1 to 64"],
    [{ decided: "perhaps" }, "It must be one of granted, withdrawn, tier"],
    [{ until: "soon" }, "It must be a day such as"],
    [{ until: "2020-01-01" }, "the end of the feature custom_models has passed"],
    [{ decided: "tier", until: "2030-01-01" }, "It must be empty if the tier decides"],
  ])("refuses %j at its field, and changes nothing", async (wrong, error) => {
    const form = { feature: "custom_models", decided: "granted", ...wrong };
    const { status, errors } = await send(key, "features", form);
    expect([status, errors]).toEqual([400, [expect.stringContaining(error)]]);
    expect((await ownOf(key)).features).toEqual({});
  });

  test("refuses a 33rd feature beside the tier", async () => {
    const ownFeatures = Object.fromEntries(
      Array.from({ length: 32 }, (_, n) => [`own_${n}`, { granted: true }]),
    );
    await change(key, { ownFeatures });
    const { status, notice } = await send(key, "features", { feature: "one_more", decided: "granted" });
    expect([status, notice]).toEqual([
      400,
      "Cannot change features: a license has at most 32 features beside its tier; leave some to the tier again.",
    ]);
    expect((await ownOf(key)).features).toEqual(ownFeatures);
  });
});

describe("Change values", () => {
  test("sets and removes values, leaves the others, and says from what to what", async () => {
    const key = await admin.issue({ tier: "enterprise", ownEntitlements: { seats: 5, old: true } });
    orThrow(await changeTier(changes(), { ...by(), tier: "enterprise", change: { channels: 32 } }));
    const form = { own_entitlements: 'channels=64, region="eu, west", old=', reason: "as ordered" };

    const { notice } = await send(key, "values", form);

    expect(notice).toBe(
      "value channels: none → 64; value old: true → none; value region: none → …. " +
        'All keys of the license have now: channels=64, region="eu, west", seats=5.',
    );
    expect((await ownOf(key)).values).toEqual({ channels: 64, region: "eu, west", seats: 5 });
    const [row] = await listAudit(admin.database, { limit: 1 });
    expect(row).toMatchObject({ action: "license.values", reason: "as ordered" });
    const [shown] = textsOf(await open(`${pathOf(key)}?open=values`), "#values-form");
    expect(shown).toContain('Of the license itself: channels=64, region="eu, west", seats=5.');
    expect(shown).toContain("Of the tier enterprise: channels=32.");
    const again = await send(key, "values", { own_entitlements: "channels=64" });
    expect(again.notice).toBe("Nothing changed: the values were the same already.");
  });

  test.each(["", "channels", "channels=1, channels=2", "Channels=1", 'a="', "a=\u0007"])(
    "refuses %j at its field, and changes nothing",
    async (own_entitlements) => {
      const key = await admin.issue({ ownEntitlements: { seats: 5 } });
      const before = await countRows();
      const { status, errors } = await send(key, "values", { own_entitlements });
      expect([status, errors]).toEqual([400, [expect.stringContaining("values separated by commas")]]);
      expect((await ownOf(key)).values).toEqual({ seats: 5 });
      expect(await countRows()).toBe(before);
    },
  );

  test("shows again all that was entered, also the longest values", async () => {
    const key = await admin.issue();
    const own_entitlements = Array.from({ length: 4 }, (_, n) => `v${n}=${"x".repeat(1_000)}`).join(", ");
    const { text } = await send(key, "values", { own_entitlements, reason: "x".repeat(3_000) });
    expect(attributesOf(text, "#values-own_entitlements", "value")).toEqual([own_entitlements]);
  });

  test("refuses more values than a license can have, and changes nothing", async () => {
    const ownEntitlements = Object.fromEntries(Array.from({ length: 32 }, (_, n) => [`v${n}`, n]));
    const key = await admin.issue({ ownEntitlements });
    const { status, notice } = await send(key, "values", { own_entitlements: "one_more=1" });
    expect([status, notice]).toEqual([
      400,
      expect.stringContaining("Cannot change values: a license has at most 32 values"),
    ]);
    expect((await ownOf(key)).values).toEqual(ownEntitlements);
  });
});

test("The form of another tier says what comes and goes with it, but for what the license itself decides", async () => {
  orThrow(await changeTier(changes(), { ...by(), tier: "commercial", change: { channels: 64, seats: 5 } }));
  orThrow(await changeTier(changes(), { ...by(), tier: "free", change: { channels: 8 } }));
  const ownFeatures = { custom_models: { granted: true } };
  const key = await admin.issue({ tier: "free", ownEntitlements: { seats: 9 }, ownFeatures });
  const text = await open(`/keys/${key.id}`);
  const said = textsOf(text, "#tier-form li");
  expect(said[1]).toMatch(
    /^With commercial: ?monthly limit: 10,000 → 500,000 ?features streaming, training, calibration, model_export, priority_support: not included → included ?value channels: 8 by the tier → 64 by the tier$/,
  );
  expect(said.join(" ")).not.toContain("seats");
  expect(said.join(" ")).not.toContain("With free");
});
