/** Tests that the statement of each change enforces the restriction of a token, also while the license changes. */

import { describe, expect, test } from "bun:test";
import { endOfDay, NEVER_EXPIRES } from "../../../src/base/calendar.ts";
import { newUuid } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import {
  findKey,
  type IssuedKey,
  type IssueRequest,
  issueKey,
  replaceKey,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges, oneYearAfter, type Restriction } from "../../../src/licensing/mod.ts";
import { overtake } from "../../support/in_transaction.ts";
import { ACTOR, BRAND, countRows, issue, NOW } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();

const FREE: Restriction = { tiers: ["free"] };
const LIVE: Restriction = { mode: "live" };

type Change = (uuid: string, restriction?: Restriction) => Promise<unknown>;
const by = (restriction: Restriction | undefined) => ({ actor: ACTOR, now: NOW, restriction });
const CHANGES: readonly (readonly [name: string, Change])[] = [
  [
    "suspendKey()",
    (uuid, restriction) => suspendKey(createLicenseChanges(server.database), uuid, by(restriction)),
  ],
  [
    "resumeKey()",
    (uuid, restriction) => resumeKey(createLicenseChanges(server.database), uuid, by(restriction)),
  ],
  [
    "rotateKey()",
    (uuid, restriction) =>
      rotateKey(
        createLicenseChanges(server.database),
        { uuid, mode: "live", overlapMs: 0 },
        { brand: BRAND, ...by(restriction) },
      ),
  ],
  [
    "replaceKey()",
    (uuid, restriction) =>
      replaceKey(
        createLicenseChanges(server.database),
        { uuid, mode: "live" },
        { brand: BRAND, ...by(restriction) },
      ),
  ],
  [
    "revokeKey()",
    (uuid, restriction) => revokeKey(createLicenseChanges(server.database), { uuid }, by(restriction)),
  ],
];

async function keyFor(change: string, request: Partial<IssueRequest> = {}): Promise<IssuedKey> {
  const key = await issue(server.database, request);
  if (change === "resumeKey()")
    await suspendKey(createLicenseChanges(server.database), uuidOf(key), by(undefined));
  if (change === "replaceKey()")
    await revokeKey(createLicenseChanges(server.database), { uuid: uuidOf(key) }, by(undefined));
  return key;
}

const stateOf = async (key: IssuedKey) =>
  (await findKey(server.database, { uuid: uuidOf(key) }, { now: NOW }))?.state;

for (const [name, change] of CHANGES) {
  describe(`${name} with a restriction`, () => {
    test(`${name} refuses a key of another tier or mode, and changes nothing`, async () => {
      const key = await keyFor(name, { tier: "enterprise" });
      const [before, rows] = [await stateOf(key), await countRows(server.database)];
      for (const restriction of [FREE, { mode: "test" }, { tiers: ["enterprise"], mode: "test" }] as const) {
        expect(await change(uuidOf(key), restriction)).toMatchObject({ code: "NOT_ALLOWED" });
      }
      expect([await stateOf(key), await countRows(server.database)]).toEqual([before, rows]);
      expect(isRefusal(await change(uuidOf(key), { tiers: ["enterprise"], mode: "live" }))).toBe(false);
    });

    test(`${name} gives the reason of a refusal only for keys that the restriction allows`, async () => {
      const key = await issue(server.database, { tier: "enterprise" });
      if (name !== "replaceKey()")
        await revokeKey(createLicenseChanges(server.database), { uuid: uuidOf(key) }, by(undefined));
      expect(await change(uuidOf(key), FREE)).toMatchObject({ code: "NOT_ALLOWED" });
      expect(await change(uuidOf(key), LIVE)).toMatchObject({ code: "CONFLICT" });
      expect(await change(newUuid(), FREE)).toMatchObject({ code: "KEY_NOT_FOUND" });
    });

    test(`${name} refuses a key whose license becomes enterprise at the same moment`, async () => {
      const key = await keyFor(name, { tier: "free" });
      const [before, rows] = [await stateOf(key), await countRows(server.database)];
      const outcome = await overtake(
        server,
        (sql) => sql`update licenses set tier = 'enterprise' where id = ${key.licenseUuid}::uuid`,
        () => change(uuidOf(key), FREE),
      );
      expect(outcome).toMatchObject({ code: "NOT_ALLOWED" });
      expect([await stateOf(key), await countRows(server.database)]).toEqual([before, rows]);
    });
  });
}

describe("issueKey() with a restriction", () => {
  const tryIt = (request: Partial<IssueRequest>, restriction: Restriction) =>
    issueKey(
      server.database,
      {
        ...{
          email: `shop-${newUuid()}@example.org`,
          tier: "free",
          mode: "live",
          now: NOW,
          expiresAt: endOfDay(oneYearAfter(NOW)),
        },
        ...request,
      },
      { brand: BRAND, actor: ACTOR, restriction },
    );

  const wrong: [Partial<IssueRequest>, Restriction][] = [
    [{ tier: "enterprise" }, FREE],
    [{ mode: "test" }, LIVE],
    [{ monthlyLimit: 10_001 }, FREE],
    [{ monthlyLimit: Number.MAX_SAFE_INTEGER }, LIVE],
    [{ expiresAt: NEVER_EXPIRES }, FREE],
    [{ expiresAt: new Date(endOfDay(oneYearAfter(NOW)).getTime() + 1_000) }, LIVE],
  ];
  for (const [request, restriction] of wrong) {
    test(`issueKey() with a restriction ${JSON.stringify(restriction)} refuses ${JSON.stringify(request)}`, async () => {
      const before = await countRows(server.database);
      expect(await tryIt(request, restriction)).toMatchObject({ code: "NOT_ALLOWED" });
      expect(await countRows(server.database)).toEqual(before);
      expect(isRefusal(await tryIt(request, {}))).toBe(false);
    });
  }

  test("issueKey() with a restriction issues what it allows, up to the tier's defaults", async () => {
    expect(isRefusal(await tryIt({ monthlyLimit: 10_000 }, { ...FREE, ...LIVE }))).toBe(false);
    expect(isRefusal(await tryIt({ tier: "enterprise", monthlyLimit: 10 ** 9 }, LIVE))).toBe(false);
    expect(isRefusal(await tryIt({ maxMachines: 1_000_000, seatMinutes: 5 }, FREE))).toBe(false);
  });
});
