/** Lists of the keys that have a feature: the same keys as the licenses say, in every order, page by page, and counted. */
import { beforeAll, describe, expect, test } from "bun:test";
import { toTimestamp } from "../../../src/base/calendar.ts";
import { parseId } from "../../../src/base/ids.ts";
import {
  countListed,
  type IssuedKey,
  type KeyFilter,
  listKeys,
  listUuids,
  positionOf,
  rotateKey,
  toOrder,
} from "../../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  type FeatureChanges,
  TIERS,
} from "../../../src/licensing/mod.ts";
import { ACTOR, BRAND, issue, NOW } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();
const BY = { actor: ACTOR, now: NOW };
const until = (seconds: number) => toTimestamp(new Date(NOW.getTime() + seconds * 1_000));
const OWN: readonly FeatureChanges[] = [
  {},
  { custom_models: { granted: true } },
  { custom_models: { granted: false } },
  { custom_models: { granted: true, until: until(60) }, vendors_own: { granted: true } },
  { custom_models: { granted: false, until: until(60) }, streaming: { granted: false } },
  { vendors_own: { granted: true, until: until(60) } },
];
const LATER = new Date(NOW.getTime() + 61_000);

const change = (key: IssuedKey, ownFeatures: FeatureChanges) =>
  changeLicense(
    createLicenseChanges(server.database),
    { keyUuid: uuidOf(key) },
    { change: { ownFeatures }, ...BY },
  );

beforeAll(async () => {
  let number = 0;
  for (const tier of TIERS)
    for (const own of OWN) {
      const key = await issue(server.database, {
        email: `f${number++}@example.org`,
        tier,
        mode: number % 3 === 0 ? "test" : "live",
        expiresAt: new Date(NOW.getTime() + number * 86_400_000 * 20),
      });
      await change(key, own);
      // Of a license with features; its successor has them, too.
      if (number % 4 === 0)
        await rotateKey(
          createLicenseChanges(server.database),
          { uuid: uuidOf(key), mode: "live", overlapMs: 86_400_000 },
          { brand: BRAND, ...BY },
        );
    }
});

async function expected(feature: string, now: Date, filter: KeyFilter = {}): Promise<string[]> {
  const keys = await listKeys(server.database, { now, filter });
  return keys.filter(({ features }) => features.includes(feature)).map(({ id }) => id);
}

async function paged(filter: KeyFilter, now: Date): Promise<string[]> {
  const ids: string[] = [];
  let afterUuid: string | undefined;
  for (;;) {
    const page = await listKeys(server.database, { now, filter: { ...filter, limit: 3, afterUuid } });
    ids.push(...page.map(({ id }) => id));
    const last = page.at(-1);
    if (last === undefined) return ids;
    afterUuid = positionOf(last, parseId("key", last.id) ?? "");
  }
}

describe.each(["custom_models", "streaming", "vendors_own", "nobody_has_it"])(
  "The keys with %s",
  (feature) => {
    test.each([
      ["now", NOW],
      ["after some have ended", LATER],
    ])("are those whose licenses say so %s, in every order and with other conditions", async (_, now) => {
      for (const more of [
        {},
        toOrder("newest"),
        toOrder("soonest_expiry"),
        toOrder("latest_expiry"),
        { tier: "commercial" },
        { mode: "test", ...toOrder("newest") },
        { state: "active", expiringWithinDays: 200 },
        { restriction: { tiers: ["free", "enterprise"] } },
      ] as const satisfies readonly KeyFilter[]) {
        const ids = await expected(feature, now, more);
        expect(await paged({ ...more, feature }, now)).toEqual(ids);
        expect(
          (await listKeys(server.database, { now, filter: { ...more, feature } })).map(({ id }) => id),
        ).toEqual(ids);
        expect(await countListed(server.database, { now, filter: { ...more, feature } })).toBe(ids.length);
        const uuids = await listUuids(server.database, { now, filter: { ...more, feature }, most: 100 });
        expect(uuids.toSorted()).toEqual(ids.map((id) => parseId("key", id) ?? "").toSorted());
      }
    });
  },
);

test("listed_features follows every change of a key and its license, also by hand", async () => {
  const differences = async () =>
    await server.database.query(
      (sql) => sql`
        with listed as (table listed_features),
        actual as (
          select own.key, k.id, (own.value->>'granted')::boolean, coalesce((own.value->>'until')::timestamptz, 'infinity')
            from keys k join licenses l on l.id = k.license_id cross join jsonb_each(l.own_features) own
        ),
        stored as (select feature, key_id, is_granted, ends_at from listed)
        (table stored except table actual) union all (table actual except table stored)`,
    );
  expect(await differences()).toEqual([]);
  const [one, other] = [
    await issue(server.database, { ownFeatures: { a: { granted: true } } }),
    await issue(server.database),
  ];
  expect(await differences()).toEqual([]);
  await server.database.query(
    (sql) => sql`update keys set license_id = ${one.licenseUuid}::uuid where id = ${uuidOf(other)}::uuid`,
  );
  expect(await differences()).toEqual([]);
  await change(one, { a: null, b: { granted: false } });
  expect(await differences()).toEqual([]);
  expect(await expected("b", NOW)).toEqual([]);
});
