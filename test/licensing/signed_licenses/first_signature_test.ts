/** A signed license is a use of its license: it starts a term that begins with the first use, and its end is the real one. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { LicenseCache } from "../../../src/licensing/mod.ts";
import {
  createLicenseSigner,
  ensureSigningKeys,
  type LicenseSigner,
} from "../../../src/licensing/signed_licenses/mod.ts";
import { overtake } from "../../support/in_transaction.ts";
import { ACTOR, BRAND, issue, NOW, orThrow } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import { placeMachine, setPlaces } from "../../support/machines.ts";
import { openSecrets } from "../../support/secrets.ts";
import { giveTerm, readTerm } from "../../support/terms.ts";
import { useTestDatabase } from "../../support/use.ts";

const DAY_MS = 86_400_000;
const CLIENT = { kind: "http", name: "192.0.2.7", address: "192.0.2.7", request: "req_1" } as const;
const inDays = (days: number) => new Date(NOW.getTime() + days * DAY_MS);
const secondsOf = (at: Date) => at.getTime() / 1_000;

const opened = useTestDatabase();
const forgotten: string[] = [];
let signer: LicenseSigner;

beforeAll(async () => {
  const { database } = opened;
  const secrets = openSecrets();
  await ensureSigningKeys(database, { secrets, now: NOW });
  const cache: LicenseCache = { forgetLicense: (uuid) => void forgotten.push(uuid), forgetAll() {} };
  const offlineDays = { free: 0, research: 7, commercial: 14, enterprise: 14 };
  signer = createLicenseSigner({ database, cache, secrets, brand: BRAND, publicUrl: undefined, offlineDays });
});

/** Issues a key whose term of 30 days starts in 100 days at the latest. */
async function issueUnstarted(term: { days?: number; latestStart?: Date } = {}, request = {}) {
  const key = await issue(opened.database, request);
  await giveTerm(opened.database, key, { days: 30, latestStart: inDays(100), ...term });
  return { ...key, keyUuid: uuidOf(key) };
}

type Key = Awaited<ReturnType<typeof issueUnstarted>>;

const ways = {
  sign: ({ keyUuid }: Key, more: object = {}) => signer.sign({ keyUuid, actor: CLIENT, now: NOW, ...more }),
  export: ({ keyUuid }: Key, more: object = {}) =>
    signer.export({ keyUuid, actor: ACTOR, now: NOW, ...more }),
};

/** Returns how many licenses were noted for the key, and until when the machines of its license are taken by them. */
async function readNotes({ keyUuid, licenseUuid }: Key) {
  const [row] = await opened.database.query(
    (sql) => sql`
      select (select count(*)::int from signed_licenses where key_id = ${keyUuid}::uuid) as fetched,
             (select count(*)::int from exported_licenses where key_id = ${keyUuid}::uuid) as exported,
             (select count(*)::int from audit where license_id = ${licenseUuid}::uuid
                 and action in ('license.start', 'license.export')) as rows,
             (select count(*)::int from machines where license_id = ${licenseUuid}::uuid and signed_until > 'epoch') as held`,
  );
  return row;
}

for (const [way, sign] of Object.entries(ways)) {
  describe(`LicenseSigner.${way}() for a license that was not used yet`, () => {
    test("starts the term, and names its real end", async () => {
      const key = await issueUnstarted();
      const signed = orThrow(await sign(key, { days: 5 }));
      const end = inDays(30);
      expect(signed.startedTerm).toEqual({ expiresAt: end });
      expect(signed.claims).toMatchObject({
        iat: secondsOf(NOW),
        exp: secondsOf(inDays(5)),
        license_expires_at: end.toISOString().replace(".000", ""),
      });
      expect(await readTerm(opened.database, key)).toEqual({ startedAt: NOW, expiresAt: end, starts: 1 });
      expect(forgotten).toContain(key.licenseUuid);
      const again = orThrow(await sign(key, { days: 5, now: inDays(1) }));
      expect(again.startedTerm).toBeUndefined();
      expect(await readTerm(opened.database, key)).toEqual({ startedAt: NOW, expiresAt: end, starts: 1 });
    });

    test("signs no longer than the term that starts now, or has started at the latest start", async () => {
      const short = await issueUnstarted({ days: 3 });
      expect(orThrow(await sign(short)).claims.exp).toBe(secondsOf(inDays(3)));
      const late = await issueUnstarted({ latestStart: inDays(-28) });
      expect(orThrow(await sign(late)).claims.exp).toBe(secondsOf(inDays(2)));
      expect(await readTerm(opened.database, late)).toMatchObject({ startedAt: inDays(-28), starts: 1 });
    });

    test("starts at a whole second", async () => {
      const key = await issueUnstarted({ days: 2 });
      const { claims } = orThrow(await sign(key, { now: new Date(NOW.getTime() + 999) }));
      expect(claims.exp).toBe(secondsOf(inDays(2)));
      expect(await readTerm(opened.database, key)).toMatchObject({ startedAt: NOW, expiresAt: inDays(2) });
    });

    test("notes the actor of the start", async () => {
      const key = await issueUnstarted();
      orThrow(await sign(key));
      const rows = await opened.database.query(
        (sql) => sql`
          select action, actor, key_id as "keyUuid" from audit
           where license_id = ${key.licenseUuid}::uuid and action in ('license.start', 'license.export') order by action`,
      );
      const actor = way === "sign" ? "http:192.0.2.7" : "command:tester";
      const { keyUuid } = key;
      const start = { action: "license.start", actor, keyUuid };
      expect(rows).toEqual(way === "sign" ? [start] : [{ ...start, action: "license.export" }, start]);
    });

    const REFUSED: Readonly<Record<string, (key: Key) => Promise<object>>> = {
      "a suspended key": async ({ keyUuid }) => {
        await opened.database.query(
          (sql) => sql`update keys set state = 'suspended' where id = ${keyUuid}::uuid`,
        );
        return {};
      },
      "an expired license": async (key) => {
        await giveTerm(opened.database, key, { days: 30, latestStart: inDays(-30) });
        return {};
      },
      "days beyond those of the license": async (key) => {
        await setOfflineDays(key, 4);
        return { days: 5 };
      },
      "a license without offline days": async (key) => {
        await setOfflineDays(key, 0);
        return {};
      },
      "no machine": async (key) => {
        await setPlaces(opened.database, key.licenseUuid, { maxMachines: 1 });
        return {};
      },
      "a machine without a place": async (key) => {
        await setPlaces(opened.database, key.licenseUuid, { maxMachines: 1 });
        await placeMachine(opened.database, key, "other");
        return { fingerprint: "machine-mine" };
      },
    };
    for (const [what, prepare] of Object.entries(REFUSED)) {
      test(`starts and notes nothing for ${what}`, async () => {
        const key = await issueUnstarted();
        const request = await prepare(key);
        expect((await sign(key, request)) as object).toHaveProperty("code");
        expect(await readTerm(opened.database, key)).toMatchObject({ startedAt: null, starts: 0 });
        expect(await readNotes(key)).toEqual({ fetched: 0, exported: 0, rows: 0, held: 0 });
      });
    }

    test("signs up to the end that another process has set just before, and notes one license", async () => {
      const key = await issueUnstarted({ days: 4 });
      await setPlaces(opened.database, key.licenseUuid, { maxMachines: 1 });
      await placeMachine(opened.database, key, "mine");
      const end = inDays(1);
      const signed = orThrow(
        await overtake(
          opened,
          (sql) => sql`
            update licenses set started_at = ${inDays(-3)}::timestamptz, expires_at = ${end}::timestamptz
             where id = ${key.licenseUuid}::uuid`,
          () => sign(key, { fingerprint: "machine-mine" }),
        ),
      );
      expect(signed.startedTerm).toBeUndefined();
      expect(signed.claims).toMatchObject({
        exp: secondsOf(end),
        license_expires_at: end.toISOString().replace(".000", ""),
      });
      expect(await readTerm(opened.database, key)).toEqual({
        startedAt: inDays(-3),
        expiresAt: end,
        starts: 0,
      });
      const isExport = way === "export";
      expect(await readNotes(key)).toEqual({
        fetched: isExport ? 0 : 1,
        exported: isExport ? 1 : 0,
        rows: isExport ? 1 : 0,
        held: 1,
      });
    });

    test("starts the term once of several at once", async () => {
      const key = await issueUnstarted();
      const signed = await Promise.all(
        Array.from({ length: 12 }, (_, index) => sign(key, { now: new Date(NOW.getTime() + index * 1_000) })),
      );
      const { expiresAt, starts } = await readTerm(opened.database, key);
      expect(starts).toBe(1);
      const ends = signed.map((each) => orThrow(each).claims.license_expires_at);
      expect(new Set(ends)).toEqual(new Set([expiresAt.toISOString().replace(".000", "")]));
      expect(signed.filter((each) => orThrow(each).startedTerm !== undefined)).toHaveLength(1);
    });
  });
}

test("LicenseSigner.export() starts nothing for a token that may not see the key", async () => {
  const key = await issueUnstarted();
  const refused = await ways.export(key, { restriction: { tiers: ["free"] } });
  expect(refused).toHaveProperty("code", "NOT_ALLOWED");
  expect(await readTerm(opened.database, key)).toMatchObject({ startedAt: null, starts: 0 });
});

async function setOfflineDays({ licenseUuid }: Key, days: number): Promise<void> {
  await opened.database.query(
    (sql) => sql`update licenses set max_offline_days = ${days}::integer where id = ${licenseUuid}::uuid`,
  );
}
