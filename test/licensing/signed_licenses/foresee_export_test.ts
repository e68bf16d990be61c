/** `LicenseSigner.foresee()` says what `export()` then does, and changes nothing. */
import { beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../../src/base/calendar.ts";
import { parseId } from "../../../src/base/ids.ts";
import { isRefusal, type Refusal } from "../../../src/base/refusal.ts";
import { findKey, revokeKey, suspendKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import {
  createLicenseSigner,
  ensureSigningKeys,
  type SignedLicense,
} from "../../../src/licensing/signed_licenses/mod.ts";
import { ACTOR, BRAND, issue, NOW, orThrow, sentenceOf } from "../../support/issue.ts";
import { licenseWith, placeMachine, setEnd } from "../../support/machines.ts";
import { openSecrets } from "../../support/secrets.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();
const secrets = openSecrets();
const signer = createLicenseSigner({
  ...{ database, secrets, brand: BRAND, publicUrl: undefined },
  offlineDays: { free: 0, research: 0, commercial: 0, enterprise: 0 },
});
beforeAll(() => ensureSigningKeys(database, { secrets, now: NOW }));

async function keyOf(keyUuid: string, now = new Date()) {
  const key = await findKey(database, { uuid: keyUuid }, { now });
  if (key === undefined) throw new Error("There is no such key");
  return key;
}

const countRows = async () =>
  await database.query(
    (sql) => sql`
      select (select count(*) from exported_licenses) as exports, (select count(*) from audit) as audit,
             (select string_agg(m::text, ' ' order by id) from machines m) as machines`,
  );

/** Foresees licenses for machines, and compares that with their exports; returns the sentences and ends. */
async function compare(keyUuid: string, fingerprints: readonly string[], days?: number) {
  const now = new Date();
  const key = await keyOf(keyUuid, now);
  const before = await countRows();
  const foreseen = await signer.foresee(key, { fingerprints, days, now });
  expect(await countRows()).toEqual(before);
  const exported: (SignedLicense | Refusal)[] = [];
  for (const fingerprint of fingerprints.length === 0 ? [undefined] : fingerprints)
    exported.push(await signer.export({ keyUuid, fingerprint, days, actor: ACTOR, now }));
  if (isRefusal(foreseen)) {
    expect(exported.map(sentenceOf)).toEqual(exported.map(() => foreseen.sentence));
    return foreseen.sentence;
  }
  const did = exported.map((each) => (isRefusal(each) ? each.sentence : each.placeUntil?.toISOString()));
  const said = foreseen.map(({ refusal, placeUntil }) => refusal?.sentence ?? placeUntil?.toISOString());
  expect(said).toEqual(fingerprints.length === 0 ? [] : did);
  return said;
}

describe("LicenseSigner.foresee()", () => {
  test("refuses a key and days that the export refuses", async () => {
    const uuidOf = async (request?: object) => parseId("key", (await issue(database, request)).id) ?? "";
    const changes = createLicenseChanges(database);
    const by = { actor: ACTOR, now: NOW };
    const [suspended, revoked] = [await uuidOf(), await uuidOf()];
    orThrow(await suspendKey(changes, suspended, by));
    orThrow(await revokeKey(changes, { uuid: revoked }, by));
    expect(await compare(suspended, [])).toContain("the key is suspended");
    expect(await compare(revoked, [])).toContain("revoked");
    const ended = await uuidOf();
    await database.query(
      (sql) => sql`
        update licenses set expires_at = now() - interval '1 day'
         where id = (select license_id from keys where id = ${ended}::uuid)`,
    );
    expect(await compare(ended, [])).toContain("the key has expired");
    expect(await compare(await uuidOf({ maxOfflineDays: 14 }), [], 15)).toContain("for at most 14 days");
    expect(await compare(await uuidOf({ maxOfflineDays: 0 }), [])).toContain("is not signed for use");
    expect(await compare(await uuidOf({ maxOfflineDays: 14 }), [])).toEqual([]);
    expect(await compare(await uuidOf(), ["a", "host-7"])).toEqual([undefined, undefined]);
  });

  test("refuses the key that a restriction does not allow, and more days than it allows", async () => {
    const key = await keyOf((await licenseWith(database, { maxMachines: 1 })).keyUuid);
    const request = { fingerprints: [], now: new Date(), restriction: { tiers: ["free"] } } as const;
    expect(sentenceOf(await signer.foresee(key, request))).toContain("Cannot export license: ");
    const allowed = { ...request, restriction: { tiers: [key.tier] }, days: 400 };
    expect(sentenceOf(await signer.foresee(key, allowed))).toContain("more days than a year has");
  });

  test("says until when each machine holds its place, and which one gets none", async () => {
    const license = await licenseWith(database, { maxMachines: 3 });
    const { keyUuid } = license;
    await setEnd(database, await placeMachine(database, license, "longer"), { signed_until: 90 * 24 * 60 });
    await placeMachine(database, license, "active");
    const names = ["machine-longer", "machine-active", "machine-new", "machine-none", "machine-too"];
    const said = await compare(keyUuid, names, 30);
    expect(said).toEqual([
      expect.stringMatching(/^2/),
      expect.stringMatching(/^2/),
      expect.stringMatching(/^2/),
      expect.stringContaining("3 of 3 places for machines are taken, the next one until "),
      expect.stringContaining("3 of 3 places for machines are taken, the next one until "),
    ]);
    const [longer = "", active = ""] = said as string[];
    expect(Date.parse(longer) - Date.parse(active)).toBeGreaterThan(59 * DAY_MS);
    // Now every place is taken, so the answer is one refusal for all that have none.
    expect(await compare(keyUuid, ["machine-none", "machine-too"], 30)).toContain("3 of 3 places");
    const held = orThrow(
      await signer.foresee(await keyOf(keyUuid), { fingerprints: names.slice(0, 3), now: new Date() }),
    );
    expect(held.map(({ holdsPlace }) => holdsPlace)).toEqual([true, true, true]);
    // A limit below the use.
    await license.change({ maxMachines: 1 });
    expect(await compare(keyUuid, ["machine-none"], 30)).toContain("3 of 1 places for machines are taken");
  });

  test("has no time for the next place if only releases free places", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    await placeMachine(database, license, "active");
    expect(await compare(license.keyUuid, ["machine-other"])).toContain(
      "1 of 1 places for machines are taken; release an active machine, or give the license more places",
    );
  });

  test("refuses a fingerprint that names no machine, and says which one of many it is", async () => {
    const { keyUuid } = await licenseWith(database, { maxMachines: 3 });
    expect(await compare(keyUuid, ["short"])).toContain(
      "fingerprint must be 8 to 200 printable ASCII characters",
    );
    expect(await compare(keyUuid, [])).toContain("the license counts machines and is signed for one of them");
    const key = await keyOf(keyUuid);
    expect(
      sentenceOf(await signer.foresee(key, { fingerprints: ["machine-1", "short"], now: new Date() })),
    ).toEndWith('characters, not "short"');
  });
});
