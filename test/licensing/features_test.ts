/** What a license has beside its tier: how it is written, bounded, changed and noted. */
import { describe, expect, test } from "bun:test";
import * as v from "valibot";
import { toTimestamp } from "../../src/base/calendar.ts";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { constraintOf } from "../../src/database/mod.ts";
import { type IssuedKey, revokeKey } from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  changeTier,
  createLicenseChanges,
  ENTITLEMENT_CHANGES,
  ENTITLEMENT_CHANGES_FIELD,
  eraseAccount,
  FEATURE,
  FEATURE_CHANGES_FIELD,
  type FeatureChanges,
  findLicense,
  type LicenseChange,
  listTiers,
  OWN_ENTITLEMENTS,
  OWN_FEATURES,
  type Restriction,
  refuseNewKey,
  renderEntitlements,
  renderOwnFeatures,
} from "../../src/licensing/mod.ts";
import { ACTOR, issue, NOW } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();
const by = { actor: ACTOR, now: NOW };

const change = (
  { licenseUuid }: IssuedKey,
  change: LicenseChange,
  more: { readonly shorten?: boolean; readonly restriction?: Restriction } = {},
) => changeLicense(createLicenseChanges(server.database), { licenseUuid }, { change, ...by, ...more });
const find = ({ licenseUuid }: IssuedKey) => findLicense(server.database, licenseUuid, { now: NOW });

async function auditOf({ licenseUuid }: IssuedKey) {
  return await server.database.query<{ action: string; before: object; after: object }>(
    (sql) =>
      sql`select action, before, after from audit where license_id = ${licenseUuid}::uuid order by id desc limit 1`,
  );
}

describe("OWN_FEATURES and renderOwnFeatures()", () => {
  test.each([
    ["custom_models", { custom_models: { granted: true } }],
    [
      "custom_models until 2027-06-30, no streaming",
      { custom_models: { granted: true, until: "2027-06-30T23:59:59Z" }, streaming: { granted: false } },
    ],
    ["no x until 2027-06-30T12:00:00Z", { x: { granted: false, until: "2027-06-30T12:00:00Z" } }],
  ] as const)("read and write %s", (text, own) => {
    expect(OWN_FEATURES.parse(text)).toEqual(own);
    expect(renderOwnFeatures(own)).toBe(text);
  });

  test("signs stand for the words, and more blanks make no difference", () => {
    expect(OWN_FEATURES.parse(" +a , -b,no   c  until  2027-06-30")).toEqual({
      a: { granted: true },
      b: { granted: false },
      c: { granted: false, until: "2027-06-30T23:59:59Z" },
    });
  });

  test.each([
    "",
    "a,",
    "A",
    "1a",
    "a b",
    "constructor",
    // Claims that an older client finds by their names, also within the values.
    ...["aud", "exp", "fingerprint", "iat", "key_id", "license_type", "nbf"],
    "a until",
    "a until tomorrow",
    "a,no a",
    `a${"b".repeat(64)}`,
    "a-b",
  ])("refuse %j", (text) => expect(OWN_FEATURES.parse(text)).toBeUndefined());

  test("refuse more names than a license can have", () => {
    const names = Array.from({ length: 33 }, (_, index) => `f${index}`);
    expect(OWN_FEATURES.parse(names.slice(1).join(","))).toBeDefined();
    expect(OWN_FEATURES.parse(names.join(","))).toBeUndefined();
  });
});

describe("OWN_ENTITLEMENTS and renderEntitlements()", () => {
  test.each([
    ["channels=64, region=eu", { channels: 64, region: "eu" }],
    ["a=true, b=false, c=-1.5", { a: true, b: false, c: -1.5 }],
    [
      'a="64", b="true", c="", d="x, y", e="a \\"b\\"", f=" x"',
      { a: "64", b: "true", c: "", d: "x, y", e: 'a "b"', f: " x" },
    ],
    ["a=ü = z", { a: "ü = z" }],
    // A number that would lose a digit stays a text.
    ["a=1.10, b=12345678901234567890, c=1e999", { a: "1.10", b: "12345678901234567890", c: "1e999" }],
  ])("read and write %s", (text, values) => {
    expect(OWN_ENTITLEMENTS.parse(text)).toEqual(values);
    expect(renderEntitlements(values)).toBe(text);
  });

  test("nothing behind the sign removes a value in a change, and is refused for a new license", () => {
    expect(ENTITLEMENT_CHANGES.parse("channels=,a = 1 ")).toEqual({ channels: null, a: 1 });
    expect(OWN_ENTITLEMENTS.parse("channels=")).toBeUndefined();
  });

  test.each([
    "",
    "a",
    "=1",
    "A=1",
    "a=1,a=2",
    'a="x',
    "a=\u0000",
    "a=\u202e",
    `a=${"x".repeat(1_001)}`,
    `a=svc_live_${"0".repeat(48)}`,
  ])("refuse %j", (text) => expect(OWN_ENTITLEMENTS.parse(text)).toBeUndefined());
});

describe("changeLicense() of features", () => {
  test("changes the named ones alone, with one row in the audit log", async () => {
    const key = await issue(server.database, {
      ownFeatures: { a: { granted: true } },
      ownEntitlements: { x: 1 },
    });
    const until = "2027-06-30T23:59:59Z";
    expect(await change(key, { ownFeatures: { b: { granted: false, until }, a: null } })).toMatchObject({
      isChanged: true,
      before: { ownFeatures: { a: { granted: true } } },
      after: { ownFeatures: { b: { granted: false, until } } },
    });
    expect(await auditOf(key)).toMatchObject([
      {
        action: "license.features",
        before: { own_features: { a: { granted: true } }, own_entitlements: { x: 1 } },
        after: { own_features: { b: { granted: false, until } } },
      },
    ]);
    expect(await change(key, { ownFeatures: { b: { granted: false, until } } })).toMatchObject({
      isChanged: false,
    });
    await change(key, { ownEntitlements: { x: null, y: "z" } });
    expect(await auditOf(key)).toMatchObject([
      {
        action: "license.values",
        before: { own_entitlements: { x: 1 } },
        after: { own_entitlements: { y: "…" }, changed: ["value y"] },
      },
    ]);
  });

  test("refuses an end that has passed, and an earlier end of a granted feature, and changes nothing", async () => {
    const key = await issue(server.database);
    const past = { a: { granted: true, until: NOW.toISOString() } };
    expect(await change(key, { ownFeatures: past })).toMatchObject({
      code: "INVALID_REQUEST",
      stem: "Cannot change features: the end of the feature a has passed",
    });
    await change(key, { ownFeatures: { a: { granted: true } } });
    const before = await find(key);
    const ends = { a: { granted: true, until: "2030-01-31T23:59:59Z" } };
    expect(await change(key, { ownFeatures: ends })).toMatchObject({
      code: "CONFLICT",
      stem: "Cannot change features: the end of the feature a would become earlier, from never to 2030-01-31T23:59:59Z",
    });
    expect(await find(key)).toEqual(before as NonNullable<typeof before>);
    expect(await change(key, { ownFeatures: ends }, { shorten: true })).toMatchObject({ isChanged: true });
    const earlier = { a: { granted: true, until: "2029-01-31T23:59:59Z" } };
    expect(await change(key, { ownFeatures: earlier })).toMatchObject({
      stem: "Cannot change features: the end of the feature a would become earlier, from 2030-01-31T23:59:59Z to 2029-01-31T23:59:59Z",
    });
    // A withdrawal says what it does.
    expect(await change(key, { ownFeatures: { a: { granted: false } } })).toMatchObject({ isChanged: true });
  });

  test("refuses more features and values than a license can have, together with those that it has", async () => {
    const names = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, index) => `f${from + index}`);
    const granted = (of: string[]) => Object.fromEntries(of.map((name) => [name, { granted: true }]));
    const key = await issue(server.database, { ownFeatures: granted(names(0, 32)) });
    const before = await find(key);
    expect(await change(key, { ownFeatures: granted(names(32, 33)) })).toMatchObject({
      code: "INVALID_REQUEST",
      stem: "Cannot change features: a license has at most 32 features beside its tier; leave some to the tier again",
    });
    const WHY = "a license has at most 32 values with 4,096 bytes in all; remove some";
    const values = Object.fromEntries(names(0, 33).map((name) => [name, 1]));
    expect(await change(key, { ownEntitlements: values })).toMatchObject({
      code: "INVALID_REQUEST",
      stem: `Cannot change values: ${WHY}`,
    });
    const long = Object.fromEntries(names(0, 5).map((name) => [name, "x".repeat(900)]));
    expect(await change(key, { ownEntitlements: long })).toMatchObject({
      stem: `Cannot change values: ${WHY}`,
    });
    expect(await find(key)).toEqual(before as NonNullable<typeof before>);
    expect(await change(key, { ownFeatures: { f0: null, f32: { granted: true } } })).toMatchObject({
      isChanged: true,
    });
  });

  test("is refused to a restricted token, also when it issues a key; its tier it may change", async () => {
    const restriction = { tiers: ["free", "research"] } as const;
    const key = await issue(server.database, { tier: "research", ownFeatures: { a: { granted: true } } });
    const before = await find(key);
    for (const each of [
      { ownFeatures: { custom_models: { granted: true } } },
      { ownFeatures: { a: null } },
      { ownEntitlements: { channels: 1 } },
    ])
      expect(await change(key, each, { restriction })).toMatchObject({ code: "NOT_ALLOWED" });
    expect(await find(key)).toEqual(before as NonNullable<typeof before>);
    expect(await change(key, { tier: "free" }, { restriction })).toMatchObject({ isChanged: true });
    const request = {
      tier: "free",
      mode: "live",
      expiresAt: new Date(NOW.getTime() + 1_000),
      now: NOW,
    } as const;
    expect(refuseNewKey(restriction, request)).toBeUndefined();
    for (const own of [{ ownFeatures: { a: { granted: true } } }, { ownEntitlements: { a: 1 } }])
      expect(refuseNewKey(restriction, { ...request, ...own })).toMatchObject({ code: "NOT_ALLOWED" });
  });
});

test.each([
  [
    "own_features",
    [
      "[]",
      "1",
      '{"a": null}',
      '{"a": {}}',
      '{"a": {"granted": 1}}',
      '{"a": [{"granted": true}]}',
      '{"a": {"granted": true, "until": 5}}',
    ],
  ],
  ["own_entitlements", ["[]", '"x"', '{"a": null}', '{"a": {}}', '{"a": [1]}']],
] as const)(
  "the column %s refuses what no process could read, and has what one can",
  async (column, wrong) => {
    const key = await issue(server.database);
    const set = (json: string) =>
      server.database.query(
        (sql) => sql`
        update licenses set ${sql(column)} = ${json}::text::jsonb where id = ${key.licenseUuid}::uuid`,
      );
    for (const json of wrong) expect(await set(json).then(() => json, constraintOf)).toBe(`${column}_form`);
    await set(
      column === "own_features"
        ? '{"a": {"granted": false, "until": "2030-01-01T00:00:00Z"}}'
        : '{"a": 1, "b": "", "c": false}',
    );
  },
);

test("A name that is a key is refused at every door, because it would be stored in clear", () => {
  const key = `svc_live_${"0123456789abcdef".repeat(3)}`;
  expect(OWN_FEATURES.parse(key)).toBeUndefined();
  expect(OWN_ENTITLEMENTS.parse(`${key}=1`)).toBeUndefined();
  expect(FEATURE.parse(key)).toBeUndefined();
  expect(v.safeParse(FEATURE_CHANGES_FIELD, { [key]: { granted: true } }).success).toBe(false);
  expect(v.safeParse(ENTITLEMENT_CHANGES_FIELD, { [key]: 1 }).success).toBe(false);
});

test("A feature that has ended makes room for another one, and stays as long as there is room", async () => {
  const granted = (from: number, to: number, until?: string) =>
    Object.fromEntries(
      Array.from({ length: to - from }, (_, index) => [
        `f${from + index}`,
        { granted: true, ...(until && { until }) },
      ]),
    );
  const until = toTimestamp(new Date(NOW.getTime() + 60_000));
  const later = { ...by, now: new Date(NOW.getTime() + 61_000) };
  const key = await issue(server.database, { ownFeatures: { ...granted(0, 2, until), ...granted(2, 31) } });
  const changeLater = (ownFeatures: FeatureChanges) =>
    changeLicense(createLicenseChanges(server.database), key, { change: { ownFeatures }, ...later });
  await changeLater(granted(31, 32));
  expect(Object.keys((await find(key))?.ownFeatures ?? {})).toHaveLength(32);
  expect(await changeLater(granted(32, 33))).toMatchObject({ isChanged: true });
  const left = Object.keys((await find(key))?.ownFeatures ?? {});
  expect(left).toHaveLength(31);
  expect(left).not.toContain("f0");
});

test("An erasure removes the texts of values with the person, and the audit log never had them", async () => {
  const key = await issue(server.database, {
    email: "licensee@example.org",
    ownEntitlements: { licensee: "Ada Lovelace", channels: 64, beta: true },
  });
  await change(key, { ownEntitlements: { licensee: "Ada King", room: "Ada's room" } });
  const changes = createLicenseChanges(server.database);
  await revokeKey(changes, { uuid: uuidOf(key) }, by);
  const accountUuid = parseId("usr", key.userId) ?? "";
  expect(isRefusal(await eraseAccount(server.database, accountUuid, by))).toBe(false);
  expect(await find(key)).toMatchObject({ ownEntitlements: { channels: 64, beta: true } });
  expect((await find(key))?.ownEntitlements).not.toHaveProperty("licensee");
  const rows = await server.database.query<{ row: string }>(
    (sql) => sql`select audit::text as row from audit where license_id = ${key.licenseUuid}::uuid`,
  );
  expect(rows.length).toBeGreaterThan(2);
  expect(rows.filter(({ row }) => row.includes("Ada"))).toEqual([]);
});

test("The rows of tiers cannot be deleted: without one the keys of the tier would be unknown", async () => {
  const removed = server.database.query((sql) => sql`delete from tiers where tier = 'research'`);
  expect(await removed.then(() => "deleted", String)).not.toBe("deleted");
  expect(await listTiers(server.database, { now: NOW })).toHaveLength(4);
});

test("listTiers() shows a restricted reader its tiers alone, without the number of licenses", async () => {
  const restriction = { tiers: ["free"] } as const;
  expect(await listTiers(server.database, { now: NOW, restriction })).toMatchObject([
    { tier: "free", licenses: null },
  ]);
  const ofMode = await listTiers(server.database, { now: NOW, restriction: { mode: "test" } });
  expect(ofMode.map(({ licenses }) => licenses)).toEqual([null, null, null, null]);
});

describe("changeTier()", () => {
  const tier = (change: Parameters<typeof changeTier>[1]["change"], more: object = {}) =>
    changeTier(createLicenseChanges(server.database), { tier: "enterprise", change, ...by, ...more });
  const valuesOf = async () =>
    (await listTiers(server.database, { now: NOW })).find((each) => each.tier === "enterprise");

  test("says before what changes and for how many licenses, changes it, and notes it", async () => {
    await issue(server.database, { tier: "enterprise" });
    await issue(server.database, { tier: "enterprise", ownEntitlements: { channels: 4 } });
    await issue(server.database, { tier: "enterprise", ownEntitlements: { channels: 4, other: 5 } });
    await issue(server.database, { tier: "free" });
    const foreseen = { before: {}, after: { channels: 8, other: 1 }, licenses: 2, isSame: false };
    expect(await tier({ channels: 8, other: 1 }, { isDryRun: true })).toMatchObject({
      ...foreseen,
      isChanged: false,
    });
    expect(await valuesOf()).toMatchObject({ entitlements: {}, licenses: 3 });
    expect(await tier({ channels: 8, other: 1 }, { seen: {} })).toMatchObject({
      ...foreseen,
      isChanged: true,
    });
    expect(await valuesOf()).toMatchObject({ entitlements: { channels: 8, other: 1 } });
    const [row] = await server.database.query(
      (sql) => sql`select action, before, after from audit order by id desc limit 1`,
    );
    expect(row).toMatchObject({
      action: "tier.values",
      before: { tier: "enterprise", entitlements: {} },
      after: { tier: "enterprise", entitlements: { channels: 8, other: 1 } },
    });
    expect(await tier({ channels: 8 })).toMatchObject({ isChanged: false, isSame: true, licenses: 0 });
  });

  test("is refused if the tier has other values by now, or would have too many, and changes nothing", async () => {
    const before = await valuesOf();
    expect(await tier({ channels: 9 }, { seen: { channels: 7 } })).toMatchObject({
      code: "CONFLICT",
      stem: "Cannot change values of tier: it was changed after these values were shown; look at it again",
    });
    const many = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`v${index}`, 1]));
    // A change that is only foreseen is refused like one that is made.
    for (const isDryRun of [true, false])
      expect(await tier(many, { isDryRun })).toMatchObject({
        code: "INVALID_REQUEST",
        stem: "Cannot change values of tier: a tier has at most 32 values with 4,096 bytes in all; remove some",
      });
    expect(await valuesOf()).toEqual(before as NonNullable<typeof before>);
  });
});
