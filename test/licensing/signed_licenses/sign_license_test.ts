/** Signed licenses: their content, how long they are valid, and the keys for which none is signed. */

import { beforeEach, describe, expect, test } from "bun:test";
import { parseId, toId } from "../../../src/base/ids.ts";
import { createLog } from "../../../src/base/log.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { suspendKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import {
  createLicenseSigner,
  ensureSigningKeys,
  type LicenseSigner,
  listSigningKeys,
  openSigningKey,
  prepareSigningKeys,
  rotateSigningKey,
  verifySignature,
} from "../../../src/licensing/signed_licenses/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { ACTOR, BRAND, issue, NOW } from "../../support/issue.ts";
import { updateLicense } from "../../support/keys.ts";
import { openSecrets, TEST_SECRET } from "../../support/secrets.ts";
import { createDatabase, useForEach } from "../../support/use.ts";

const DAY_S = 86_400;
const OFFLINE_DAYS = { free: 1, research: 7, commercial: 14, enterprise: 0 };
const secrets = openSecrets();
const otherSecrets = openSecrets(TEST_SECRET.replaceAll("0", "1"));

describe("createLicenseSigner()", () => {
  const database = useForEach(createDatabase);
  let signer: LicenseSigner;
  beforeEach(async () => {
    const first = await ensureSigningKeys(database, { secrets, now: NOW });
    expect(first).toEqual({ isMade: true, replacesEarlier: false });
    expect((await ensureSigningKeys(database, { secrets, now: NOW })).isMade).toBe(false);
    const options = { database, brand: BRAND, publicUrl: undefined, offlineDays: OFFLINE_DAYS, secrets };
    signer = createLicenseSigner(options);
  });

  async function sign(id: string, more: object = {}) {
    const signed = await signer.sign({ keyUuid: parseId("key", id) ?? "", actor: ACTOR, now: NOW, ...more });
    return isRefusal(signed) ? signed.code : signed;
  }

  async function claimsOf(id: string, more: object = {}) {
    const signed = await sign(id, more);
    if (typeof signed === "string") throw new Error(signed);
    const keys = await listSigningKeys(database);
    const verified = verifySignature(
      signed.license,
      keys.map(({ publicKey }) => publicKey),
    );
    if (!verified.ok) throw new Error(verified.error);
    return verified.claims;
  }

  test("signs the facts of the key, and repeats nonce and fingerprint", async () => {
    const key = await issue(database, {
      tier: "research",
      expiresAt: new Date("2027-11-20T12:00:00.500Z"),
    });
    const claims = await claimsOf(key.id, { nonce: "n-1", fingerprint: "host-7" });
    const iat = NOW.getTime() / 1_000;
    expect(claims).toMatchObject({
      iss: "svc",
      aud: "svc",
      sub: toId("lic", key.licenseUuid),
      iat,
      nbf: iat,
      exp: iat + 7 * DAY_S,
      refresh_after: iat + 3.5 * DAY_S,
      key_id: key.id,
      user_id: key.userId,
      mode: "live",
      license_type: "research",
      quota: {
        monthly_limit: 50_000,
        used: 0,
        as_of: "2026-11-20T12:00:00Z",
        resets_at: "2026-12-01T00:00:00Z",
      },
      license_expires_at: "2027-11-20T12:00:00Z",
      nonce: "n-1",
      fingerprint: "host-7",
    });
    expect(JSON.stringify(claims)).not.toContain("@");
  });

  test("signs no longer than until the end of the license", async () => {
    const key = await issue(database, { expiresAt: new Date(NOW.getTime() + 90_500) });
    expect(await claimsOf(key.id)).toMatchObject({ exp: NOW.getTime() / 1_000 + 90 });
  });

  test("signs no longer than until the end of a key that was rotated, and names the end of its license", async () => {
    const key = await issue(database, { expiresAt: new Date("2027-01-02T03:04:05Z") });
    const endsAt = new Date(NOW.getTime() + 60_999);
    await database.query(
      (sql) => sql`
        update keys set own_expires_at = ${endsAt}::timestamptz where id = ${parseId("key", key.id) ?? ""}::uuid`,
    );
    expect(await claimsOf(key.id)).toMatchObject({
      exp: NOW.getTime() / 1_000 + 60,
      refresh_after: NOW.getTime() / 1_000 + 30,
      license_expires_at: "2027-01-02T03:04:05Z",
    });
  });

  test("leaves out the end of a license that never ends", async () => {
    const key = await issue(database, { tier: "commercial" });
    expect(await claimsOf(key.id)).not.toHaveProperty("license_expires_at");
  });

  test("refuses a suspended key, an expired key, and a tier that gets no license", async () => {
    const suspended = await issue(database);
    await suspendKey(createLicenseChanges(database), parseId("key", suspended.id) ?? "", {
      actor: ACTOR,
      now: NOW,
    });
    expect(await sign(suspended.id)).toBe("INVALID_KEY");
    const expired = await issue(database, { expiresAt: new Date(NOW.getTime() + 1_000) });
    expect(await sign(expired.id, { now: new Date(NOW.getTime() + 2_000) })).toBe("KEY_EXPIRED");
    const enterprise = await issue(database, {
      tier: "enterprise",
      expiresAt: new Date(NOW.getTime() + 1_000),
    });
    expect(await sign(enterprise.id)).toBe("OFFLINE_NOT_ALLOWED");
    expect(await sign(enterprise.id, { now: new Date(NOW.getTime() + 2_000) })).toBe("KEY_EXPIRED");
  });

  test("signs with the latest key while the database's clock is behind, as after a failover to another host", async () => {
    const key = await issue(database);
    const [signing] = await listSigningKeys(database);
    await database.query(
      (sql) => sql`update signing_keys set signs_from = signs_from + interval '1 hour' where generation = 1`,
    );
    expect(await sign(key.id)).toMatchObject({ kid: signing?.kid });
    await database.query(
      (sql) => sql`update signing_keys set signs_from = signs_from - interval '1 hour' where generation = 1`,
    );
  });

  test("notes the latest license of a key, the latest expiry of all, and their number", async () => {
    const key = await issue(database);
    const keyUuid = parseId("key", key.id) ?? "";
    const jtis = new Set<unknown>();
    const laterS = 90;
    for (const now of [NOW, new Date(NOW.getTime() + laterS * 1_000)]) {
      jtis.add((await claimsOf(key.id, { now })).jti);
    }
    // The license of a lower tier ends earlier; the earlier license of the higher tier is still valid.
    await database.query((sql) => sql`update licenses set tier = 'free' where id = ${key.licenseUuid}::uuid`);
    const latest = await claimsOf(key.id, { now: new Date(NOW.getTime() + 100_000) });
    expect(latest).toMatchObject({ exp: NOW.getTime() / 1_000 + 100 + DAY_S });
    expect(jtis.add(latest.jti).size).toBe(3);
    const notes = await database.query(
      (sql) => sql`
        select jti, expires_at as "expiresAt", signed_at as "signedAt", count from signed_licenses
         where key_id = ${keyUuid}::uuid`,
    );
    expect(notes).toEqual([
      {
        jti: latest.jti,
        expiresAt: new Date(NOW.getTime() + (laterS + 7 * DAY_S) * 1_000),
        signedAt: new Date(NOW.getTime() + 100_000),
        count: 3,
      },
    ]);
  });

  test("notes each export in a row of its own", async () => {
    const key = await issue(database);
    const keyUuid = parseId("key", key.id) ?? "";
    const noted: { jti: string }[] = [];
    for (const days of [400, 30]) {
      const exported = await signer.export({ keyUuid, days, actor: ACTOR, now: NOW });
      if (isRefusal(exported)) throw new Error(exported.sentence);
      const { kid, claims } = exported;
      const by = { exportedAt: NOW, exportedBy: "command:tester" };
      const expiresAt = new Date(NOW.getTime() + days * DAY_S * 1_000);
      const row = { ...by, jti: claims.jti, kid, expiresAt };
      noted.push(row);
    }
    const rows = await database.query(
      (sql) => sql`
        select jti, kid, expires_at as "expiresAt", exported_at as "exportedAt", exported_by as "exportedBy"
          from exported_licenses where key_id = ${keyUuid}::uuid order by expires_at desc`,
    );
    expect(rows).toEqual(noted);
    expect(new Set(noted.map(({ jti }) => jti)).size).toBe(2);
  });

  test("gives an exported license of a machine the key for reports of its use, and no other license", async () => {
    const key = await issue(database, { tier: "research" });
    const keyUuid = parseId("key", key.id) ?? "";
    const reportOf = async (fingerprint: string | undefined) => {
      const exported = await signer.export({ keyUuid, fingerprint, actor: ACTOR, now: NOW });
      if (isRefusal(exported)) throw new Error(exported.sentence);
      return exported.claims.report;
    };
    const report = await reportOf("workstation-7");
    expect(report).toEqual({
      machine: expect.stringMatching(/^[0-9a-f]{64}$/),
      key: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(await reportOf("workstation-7")).toEqual(report);
    expect(await reportOf("workstation-8")).not.toEqual(report);
    // Too short to name a machine.
    for (const fingerprint of [undefined, "host-7"]) expect(await reportOf(fingerprint)).toBeUndefined();
    expect(await claimsOf(key.id, { fingerprint: "workstation-7" })).not.toHaveProperty("report");
  });

  test("exports for 365 days without a choice, and for no more days than the license itself has", async () => {
    const key = await issue(database, { tier: "enterprise" });
    const keyUuid = parseId("key", key.id) ?? "";
    const daysOf = async (days?: number) => {
      const exported = await signer.export({ keyUuid, days, actor: ACTOR, now: NOW });
      return isRefusal(exported)
        ? [exported.code, exported.sentence]
        : (exported.claims.exp - exported.claims.iat) / DAY_S;
    };
    const setDays = (days: number | null) => updateLicense({ database }, key, { max_offline_days: days });
    expect([await daysOf(), await daysOf(3_650)]).toEqual([365, 3_650]);
    await setDays(14);
    expect([await daysOf(), await daysOf(14), await daysOf(1)]).toEqual([14, 14, 1]);
    const change = "its offline days can be changed";
    expect(await daysOf(15)).toEqual([
      "CONFLICT",
      `Cannot export license: the license is signed for at most 14 days; ${change}`,
    ]);
    await setDays(400);
    expect([await daysOf(), await daysOf(400)]).toEqual([365, 400]);
    await setDays(0);
    const forbidden = `Cannot export license: the license is not signed for use without a network; ${change}`;
    for (const days of [undefined, 1]) expect(await daysOf(days)).toEqual(["CONFLICT", forbidden]);
    const noted = await database.query(
      (sql) => sql`select count(*)::int as count from exported_licenses where key_id = ${keyUuid}::uuid`,
    );
    expect(noted).toEqual([{ count: 7 }]);
  });

  test("names the public address as the issuer if there is one, and an unlimited quota as null", async () => {
    const key = await issue(database, { tier: "enterprise", mode: "test" });
    const other = createLicenseSigner({
      database,
      brand: BRAND,
      publicUrl: "https://licenses.example.org",
      offlineDays: { ...OFFLINE_DAYS, enterprise: 30 },
      secrets,
    });
    const signed = await other.sign({ keyUuid: parseId("key", key.id) ?? "", actor: ACTOR, now: NOW });
    expect(signed).toMatchObject({
      claims: {
        iss: "https://licenses.example.org",
        aud: "svc",
        mode: "test",
        features: expect.arrayContaining(["batch_inference", "on_premise"]),
        quota: { monthly_limit: null, used: 0 },
      },
    });
  });

  /** Returns what a start of the service logs of the signing keys. */
  async function linesOfStart(): Promise<string[]> {
    const lines: string[] = [];
    const clock = createTestClock();
    const log = createLog({ format: "text", clock, write: (line) => lines.push(line) });
    await prepareSigningKeys(database, { secrets, now: NOW, log });
    return lines;
  }

  test("signs nothing with a private key that was exchanged or altered, or sealed with another secret", async () => {
    const key = await issue(database);
    const keys = await listSigningKeys(database);
    const signing = keys.find(({ state }) => state === "signing");
    const successor = keys.find(({ state }) => state === "successor");
    if (signing === undefined || successor === undefined) throw new Error("There are no keys");
    const last = signing.sealed.at(-5) === "A" ? "B" : "A";
    const altered = `${signing.sealed.slice(0, -5)}${last}${signing.sealed.slice(-4)}`;
    const others = otherSecrets.seal("license-signing-key", "text", signing.kid);
    for (const sealed of [successor.sealed, altered, others]) {
      expect(openSigningKey(secrets, { ...signing, sealed })).toBeUndefined();
      await database.query(
        (sql) => sql`update signing_keys set sealed = ${sealed} where kid = ${signing.kid}`,
      );
      const options = { database, brand: BRAND, publicUrl: undefined, offlineDays: OFFLINE_DAYS, secrets };
      const fresh = createLicenseSigner(options);
      const signature = fresh.sign({ keyUuid: parseId("key", key.id) ?? "", actor: ACTOR, now: NOW });
      expect(await signature.catch(String)).toContain(`The signing key ${signing.kid} cannot be opened`);
      expect(await linesOfStart()).toEqual([expect.stringContaining(`cannot be opened`)]);
    }
    await database.query(
      (sql) => sql`update signing_keys set sealed = ${signing.sealed} where kid = ${signing.kid}`,
    );
    expect(await linesOfStart()).toEqual([]);
    expect(openSigningKey(secrets, signing)).toBeDefined();
    expect(openSigningKey(secrets, { ...signing, publicKey: successor.publicKey })).toBeUndefined();
    expect(openSigningKey(otherSecrets, signing)).toBeUndefined();
  });

  test("signs with the successor after a rotation, and notes each license", async () => {
    const key = await issue(database);
    await claimsOf(key.id);
    await claimsOf(key.id);
    const [, successor] = await listSigningKeys(database);
    const rotated = await rotateSigningKey(database, { secrets, actor: ACTOR, now: NOW });
    expect(rotated).toMatchObject({ kid: successor?.kid });
    const signed = await sign(key.id);
    expect(signed).toMatchObject({ kid: successor?.kid });
    const notes = await database.query(
      (sql) =>
        sql`select kid, count from signed_licenses where key_id = ${parseId("key", key.id) ?? ""}::uuid order by count desc`,
    );
    expect(notes).toEqual([
      { kid: expect.any(String), count: 2 },
      { kid: successor?.kid, count: 1 },
    ]);
    expect((await listSigningKeys(database)).map(({ state }) => state)).toEqual([
      "old",
      "signing",
      "successor",
    ]);
  });
});
