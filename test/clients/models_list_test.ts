import { beforeAll, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import type { Tier } from "../../src/licensing/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { addTestModel, CHECKSUM } from "../support/models.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();
let owner: IssuedKey;

beforeAll(async () => {
  owner = await service.issue({ email: "owner@example.org", tier: "commercial" });
  const ownerUuid = parseId("usr", owner.userId);
  // The models are added in another order than the list's.
  await addTestModel(service, { name: "b_free", metadata: { accuracy: 0.9, note: { deep: ["ü"] } } });
  await addTestModel(service, {
    name: "a_research",
    paradigm: "p300",
    type: "SvcProbit",
    requiresLicense: "research",
  });
  await addTestModel(service, { name: "Z_free" });
  await addTestModel(service, { name: "commercial_all", paradigm: "erp", requiresLicense: "commercial" });
  await addTestModel(service, {
    name: "enterprise_all",
    paradigm: "ssvep",
    type: "SvcQDA",
    requiresLicense: "enterprise",
  });
  await addTestModel(service, { name: "custom", requiresLicense: "commercial", ownerUuid });
  await addTestModel(service, { name: "custom_high", requiresLicense: "enterprise", ownerUuid });
});

async function list(key: IssuedKey, query = "") {
  return await service.get(`/v1/models/list?api_key=${key.apiKey}${query}`);
}

async function namesFor(key: IssuedKey, query = "") {
  const { status, body } = await list(key, query);
  expect(status).toBe(200);
  expect(body.total).toBe(body.models.length);
  return body.models.map(({ name }: { name: string }) => name);
}

test("GET /v1/models/list returns model records in an envelope", async () => {
  const key = await service.issue({ tier: "research" });
  const { body } = await list(key, "&paradigm=p300");
  expect(body).toEqual({
    models: [
      {
        name: "a_research",
        version: "1.0.0",
        type: "SvcProbit",
        paradigm: "p300",
        n_features: 44,
        n_classes: 4,
        size_mb: 2.4,
        download_url: "https://models.example/a_research",
        checksum: `sha256:${CHECKSUM}`,
        requires_license: "research",
        metadata: {},
      },
    ],
    total: 1,
  });
});

test("GET /v1/models/list shows a model's metadata as it was registered", async () => {
  const { body } = await list(owner);
  const model = body.models.find(({ name }: { name: string }) => name === "b_free");
  expect(model.metadata).toEqual({ accuracy: 0.9, note: { deep: ["ü"] } });
});

const visible: readonly (readonly [Tier, readonly string[]])[] = [
  ["free", ["Z_free", "b_free"]],
  ["research", ["Z_free", "a_research", "b_free"]],
  ["commercial", ["Z_free", "a_research", "b_free", "commercial_all"]],
  ["enterprise", ["Z_free", "a_research", "b_free", "commercial_all", "enterprise_all"]],
];
for (const [tier, names] of visible) {
  test(`GET /v1/models/list shows a ${tier} key the models of its tier, in byte order`, async () => {
    expect(await namesFor(await service.issue({ tier }))).toEqual(names);
  });
}

test("GET /v1/models/list shows a custom model to its owner's keys", async () => {
  expect(await namesFor(owner)).toContain("custom");
  const second = await service.issue({ email: "owner@example.org", tier: "enterprise" });
  expect(await namesFor(second)).toEqual(expect.arrayContaining(["custom", "custom_high"]));
});

test("GET /v1/models/list hides a custom model above the key's tier from its owner", async () => {
  expect(await namesFor(owner)).not.toContain("custom_high");
  const free = await service.issue({ email: "owner@example.org", tier: "free" });
  expect(await namesFor(free)).toEqual(["Z_free", "b_free"]);
});

test("GET /v1/models/list shows the version that was added last", async () => {
  const model = { name: "versions", paradigm: "versions", requiresLicense: "commercial" };
  const ownerUuid = parseId("usr", owner.userId);
  for (const version of ["2.0.0", "1.5.0"]) await addTestModel(service, { ...model, version, ownerUuid });
  const { body } = await list(owner, "&paradigm=versions");
  expect(body.models).toMatchObject([{ name: "versions", version: "1.5.0" }]);
});

for (const { query, names } of [
  { query: "&paradigm=p300", names: ["a_research"] },
  { query: "&type=SvcProbit", names: ["a_research"] },
  { query: "&paradigm=motor_imagery&type=SvcLDA", names: ["Z_free", "b_free", "custom"] },
  { query: "&paradigm=p300&type=SvcLDA", names: [] },
  { query: "&paradigm=telepathy", names: [] },
  { query: "&type=svclda", names: [] },
  { query: `&type=${"x".repeat(2_000)}`, names: [] },
  { query: "&paradigm=&type=SvcProbit", names: ["a_research"] },
  { query: "&paradigm=p300&type=", names: ["a_research"] },
  { query: "&paradigm=p300&colour=blue&__proto__=x", names: ["a_research"] },
]) {
  test(`GET /v1/models/list filters by ${query.slice(0, 50)}`, async () => {
    expect(await namesFor(owner, query)).toEqual(names);
  });
}

for (const [what, query] of [
  ["NUL", "&paradigm=a%00"],
  ["bytes that are not UTF-8", "&type=%ff%fe"],
  ["U+FFFD", "&type=%EF%BF%BD"],
  ["an unpaired surrogate", "&type=%ED%A0%80"],
  ["NUL in a name", "&a%00=b"],
  ["two paradigms", "&paradigm=ssvep&paradigm=p300"],
  ["the same paradigm twice", "&paradigm=p300&paradigm=p300"],
  ["two types, of which one is empty", "&type=&type=SvcLDA"],
] as const) {
  test(`GET /v1/models/list refuses a query with ${what}`, async () => {
    expectRefusal(await list(owner, query), 400, "INVALID_REQUEST");
  });
}
