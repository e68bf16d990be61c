/** A license with features and values beside its tier: what every process answers, signs, lists and sends for it. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  changeTier,
  createLicenseChanges,
  type FeatureChanges,
  type LicenseChange,
  type Tier,
} from "../../src/licensing/mod.ts";
import { addHostedModel, linkTo, testBytes } from "../support/hosted.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { ON_NODE, startTestService } from "../support/service.ts";
import { useHostingService } from "../support/use.ts";

type Values = NonNullable<LicenseChange["ownEntitlements"]>;

const service = useHostingService({
  config: { offlineDays: { free: 3, research: 7, commercial: 14, enterprise: 30 } },
});
const OF_RESEARCH = ["batch_inference", "streaming", "training", "calibration", "model_export"];
const by = () => ({ actor: ACTOR, now: service.clock.now() });
const changes = () => createLicenseChanges(service.database);

async function setFeatures({ licenseUuid }: IssuedKey, ownFeatures: FeatureChanges): Promise<void> {
  const options = { change: { ownFeatures }, shorten: true, ...by() };
  orThrow(await changeLicense(changes(), { licenseUuid }, options));
  await service.service.directory.beat();
}

async function setValues({ licenseUuid }: IssuedKey, ownEntitlements: Values): Promise<void> {
  orThrow(await changeLicense(changes(), { licenseUuid }, { change: { ownEntitlements }, ...by() }));
  await service.service.directory.beat();
}

async function setTier(tier: Tier, change: Values): Promise<void> {
  orThrow(await changeTier(changes(), { tier, change, ...by() }));
  await service.service.directory.beat();
}

const post = async (path: string, { apiKey }: IssuedKey) =>
  (await service.post(`/v1/auth/${path}`, { api_key: apiKey })).body;
const featuresOf = async (key: IssuedKey) => (await post("validate", key)).features;
const inSeconds = (seconds: number) =>
  new Date(Math.floor(service.clock.now().getTime() / 1_000 + seconds) * 1_000)
    .toISOString()
    .replace(".000", "");

async function sign(key: IssuedKey) {
  const [, claims = ""] = (await post("license", key)).license.split(".");
  return JSON.parse(Buffer.from(claims, "base64url").toString());
}

async function listed({ apiKey }: IssuedKey): Promise<string[]> {
  const { body } = await service.get("/v1/models/list", { "x-api-key": apiKey });
  return body.models.map(({ name }: { name: string }) => name);
}

describe("Features of a license", () => {
  test("are those of its tier and the granted ones, without the withdrawn ones, in every answer", async () => {
    const key = await service.issue();
    expect(await featuresOf(key)).toEqual(OF_RESEARCH);
    await setFeatures(key, {
      zebra_mode: { granted: true },
      custom_models: { granted: true },
      streaming: { granted: false },
      alpha_mode: { granted: true },
      on_premise: { granted: false },
    });
    const features = [
      ...["batch_inference", "training", "calibration", "model_export", "custom_models"],
      ...["alpha_mode", "zebra_mode"],
    ];
    for (const path of ["validate", "refresh"]) expect(await post(path, key)).toMatchObject({ features });
    expect(await sign(key)).toMatchObject({ features });
    await setFeatures(key, { zebra_mode: null, custom_models: null, streaming: null, alpha_mode: null });
    expect(await featuresOf(key)).toEqual(OF_RESEARCH);
  });

  test("follow the tier: what is granted and withdrawn stays", async () => {
    const key = await service.issue();
    await setFeatures(key, { custom_models: { granted: true }, training: { granted: false } });
    orThrow(
      await changeLicense(changes(), { licenseUuid: key.licenseUuid }, { change: { tier: "free" }, ...by() }),
    );
    await service.service.directory.beat();
    expect(await featuresOf(key)).toEqual(["batch_inference", "custom_models"]);
  });

  test.skipIf(ON_NODE)("begin and end at the second in every process, also for a cached key", async () => {
    await using other = await startTestService({ on: service.testDatabase, clock: service.clock });
    const key = await service.issue();
    const ofOther = async () =>
      (await other.post("/v1/auth/validate", { api_key: key.apiKey })).body.features;
    const until = inSeconds(60);
    await setFeatures(key, {
      custom_models: { granted: true, until },
      streaming: { granted: false, until },
      training: { granted: false, until: inSeconds(61) },
    });
    const before = ["batch_inference", "calibration", "model_export", "custom_models"];
    expect(await featuresOf(key)).toEqual(before);
    expect(await ofOther()).toEqual(before);
    const { hits } = service.service.directory.stats();
    service.clock.setWall(new Date(Date.parse(until) - 900).toISOString());
    expect(await featuresOf(key)).toEqual(before);
    expect(service.service.directory.stats().hits).toBe(hits + 1);
    service.clock.setWall(until);
    const after = ["batch_inference", "streaming", "calibration", "model_export"];
    expect(await featuresOf(key)).toEqual(after);
    expect(await ofOther()).toEqual(after);
    expect(service.service.directory.stats().hits).toBe(hits + 1);
    // It was read again, and is cached once more.
    expect(await featuresOf(key)).toEqual(after);
    expect(service.service.directory.stats().hits).toBe(hits + 2);
    service.clock.setWall(inSeconds(1));
    expect(await featuresOf(key)).toEqual(OF_RESEARCH);
  });

  test("that end before a signed license does are in feature_ends alone, so that nobody has one for too long", async () => {
    // The end of the license is that of each signed one, however late it is signed.
    const key = await service.issue({ expiresAt: new Date(inSeconds(86_400)) });
    const { exp } = await sign(key);
    expect(await sign(key)).not.toHaveProperty("feature_ends");
    const [before, at] = [-1, 0].map((seconds) =>
      new Date((exp + seconds) * 1_000).toISOString().replace(".000", ""),
    );
    await setFeatures(key, {
      custom_models: { granted: true, until: before ?? "" },
      vendors_own: { granted: true, until: at ?? "" },
      // The tier has it anyhow.
      streaming: { granted: true, until: before ?? "" },
      // It comes back while the license is valid: not promised.
      training: { granted: false, until: before ?? "" },
    });
    const claims = await sign(key);
    expect(claims.features).toEqual([
      "batch_inference",
      "streaming",
      "calibration",
      "model_export",
      "vendors_own",
    ]);
    expect(claims.feature_ends).toEqual({ custom_models: before });
  });

  test("are noticed by every process, also if somebody sets them by hand", async () => {
    const key = await service.issue();
    await service.service.directory.beat();
    expect(await featuresOf(key)).toEqual(OF_RESEARCH);
    const { licenseUuid } = key;
    await service.database.query(
      (sql) => sql`
        update licenses set own_features = '{"streaming": {"granted": false}}' where id = ${licenseUuid}::uuid`,
    );
    await service.service.directory.beat();
    expect(await featuresOf(key)).not.toContain("streaming");
    await service.database.query(
      (sql) => sql`
        update licenses set own_entitlements = '{"channels": 4}' where id = ${licenseUuid}::uuid`,
    );
    await service.service.directory.beat();
    expect(await post("validate", key)).toMatchObject({ entitlements: { channels: 4 } });
  });
});

describe("The feature custom_models", () => {
  test("decides about the models of the license's own account, and about no other", async () => {
    const key = await service.issue({ email: "owner@example.org" });
    const model = { requiresLicense: "enterprise", ownerUuid: parseId("usr", key.userId) } as const;
    await addHostedModel(service, { name: "own", ...model }, testBytes(1_500));
    await addHostedModel(
      service,
      { name: "public-enterprise", requiresLicense: "enterprise" },
      testBytes(1_600),
    );
    const other = await service.issue({ email: "other@example.org" });
    const load = (name: string, { apiKey }: IssuedKey) =>
      fetch(`${service.url}/v1/models/download/${name}/1.0.0`, { headers: { "x-api-key": apiKey } });
    const seen = async (of: IssuedKey) => ({
      listed: (await listed(of)).filter((name) => name === "own" || name === "public-enterprise"),
      own: (await load("own", of)).status,
      public: (await load("public-enterprise", of)).status,
    });
    expect(await seen(key)).toEqual({ listed: [], own: 403, public: 403 });
    for (const each of [key, other]) await setFeatures(each, { custom_models: { granted: true } });
    expect(await seen(key)).toEqual({ listed: ["own"], own: 200, public: 403 });
    expect(await seen(other)).toEqual({ listed: [], own: 404, public: 403 });
    const link = await linkTo(service, key.apiKey, "own");
    await changeLicense(
      changes(),
      { licenseUuid: key.licenseUuid },
      { change: { tier: "enterprise" }, ...by() },
    );
    await setFeatures(key, { custom_models: { granted: false } });
    expect(await seen(key)).toEqual({ listed: ["public-enterprise"], own: 403, public: 200 });
    const refused = await fetch(link);
    expect([refused.status, await refused.json()]).toEqual([
      403,
      {
        error: "The license does not have the feature custom_models, which this model requires",
        code: "LICENSE_REQUIRED",
      },
    ]);
    await setFeatures(key, { custom_models: null });
    expect(await seen(key)).toEqual({ listed: ["own", "public-enterprise"], own: 200, public: 200 });
  });
});

describe("Values of a license", () => {
  test("are those of its tier, and its own before them, in the order of their names", async () => {
    const [key, plain, free] = [
      await service.issue(),
      await service.issue({ email: "plain@example.org" }),
      await service.issue({ email: "free@example.org", tier: "free" }),
    ];
    const none = await post("validate", key);
    expect(none).not.toHaveProperty("entitlements");
    expect(await sign(key)).not.toHaveProperty("entitlements");
    await setValues(key, { region: "eu", channels: 64, beta: true });
    await setTier("research", { channels: 8, a_limit: 1.5 });
    const own = { a_limit: 1.5, beta: true, channels: 64, region: "eu" };
    for (const path of ["validate", "refresh"]) {
      const answer = await post(path, key);
      expect(JSON.stringify(answer.entitlements)).toBe(JSON.stringify(own));
      expect(Object.keys(answer).at(-1)).toBe("entitlements");
    }
    expect((await sign(key)).entitlements).toEqual(own);
    expect((await post("validate", plain)).entitlements).toEqual({ a_limit: 1.5, channels: 8 });
    expect(await post("validate", free)).not.toHaveProperty("entitlements");
    await setValues(key, { channels: null, region: null, beta: null });
    expect((await post("validate", key)).entitlements).toEqual({ a_limit: 1.5, channels: 8 });
    await setTier("research", { channels: null, a_limit: null });
    expect(await post("validate", key)).toEqual(none);
  });

  test("of a tier are noticed by every process, also if somebody sets them by hand", async () => {
    const key = await service.issue();
    await service.service.directory.beat();
    await post("validate", key);
    const set = (json: string) =>
      service.database.query(
        (sql) => sql`update tiers set entitlements = ${json}::text::jsonb where tier = 'research'`,
      );
    await set('{"channels": 2}');
    await service.service.directory.beat();
    expect((await post("validate", key)).entitlements).toEqual({ channels: 2 });
    await set("{}");
    await service.service.directory.beat();
    expect(await post("validate", key)).not.toHaveProperty("entitlements");
  });
});
