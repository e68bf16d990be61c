/** Signed licenses: what they say, for how long, and for whom none is signed. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { parseId } from "../../src/ids.ts";
import { suspendKey } from "../../src/keys/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { createSecrets, parseRootSecret } from "../../src/secrets/mod.ts";
import {
  createLicenseSigner,
  ensureSigningKeys,
  type LicenseSigner,
  listSigningKeys,
  rotateSigningKey,
  verifySignature,
} from "../../src/signed_licenses/mod.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ACTOR, BRAND, issue, NOW } from "../support/issue.ts";
import { TEST_SECRET } from "../support/service.ts";

setDefaultTimeout(30_000);

const DAY_S = 86_400;
const OFFLINE_DAYS = { free: 1, research: 7, commercial: 14, enterprise: 0 };
const secret = parseRootSecret(TEST_SECRET);
if (!secret.ok) throw new Error(secret.error);
const secrets = createSecrets(secret.rootSecret);

describe("createLicenseSigner()", () => {
  let testDatabase: TestDatabase;
  let signer: LicenseSigner;
  beforeAll(async () => {
    testDatabase = await createTestDatabase();
    const { database } = testDatabase;
    await ensureSigningKeys(database, { secrets, now: NOW });
    const options = { database, brand: BRAND, publicUrl: undefined, offlineDays: OFFLINE_DAYS, secrets };
    signer = createLicenseSigner(options);
  });
  afterAll(() => testDatabase.close());

  async function sign(id: string, more: object = {}) {
    const signed = await signer.sign({ keyUuid: parseId("key", id) ?? "", now: NOW, ...more });
    return isRefusal(signed) ? signed.code : signed;
  }

  async function claimsOf(id: string, more: object = {}) {
    const signed = await sign(id, more);
    if (typeof signed === "string") throw new Error(signed);
    const keys = await listSigningKeys(testDatabase.database);
    const verified = verifySignature(
      signed.license,
      keys.map(({ publicKey }) => publicKey),
    );
    if (!verified.ok) throw new Error(verified.error);
    return verified.claims;
  }

  test("signs the facts of the key, and repeats nonce and fingerprint", async () => {
    const key = await issue(testDatabase.database, {
      tier: "research",
      expiresAt: new Date("2027-11-20T12:00:00.500Z"),
    });
    const claims = await claimsOf(key.id, { nonce: "n-1", fingerprint: "host-7" });
    const iat = NOW.getTime() / 1_000;
    expect(claims).toMatchObject({
      iss: "svc",
      aud: "svc",
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
    const key = await issue(testDatabase.database, { expiresAt: new Date(NOW.getTime() + 90_500) });
    expect(await claimsOf(key.id)).toMatchObject({ exp: NOW.getTime() / 1_000 + 90 });
  });

  test("leaves out the end of a license that never ends", async () => {
    const key = await issue(testDatabase.database, { tier: "commercial" });
    expect(await claimsOf(key.id)).not.toHaveProperty("license_expires_at");
  });

  test("refuses a suspended key, an expired key, and a tier that gets no license", async () => {
    const { database } = testDatabase;
    const suspended = await issue(database);
    await suspendKey(database, parseId("key", suspended.id) ?? "", { actor: ACTOR, now: NOW });
    expect(await sign(suspended.id)).toBe("INVALID_KEY");
    const expired = await issue(database, { expiresAt: new Date(NOW.getTime() + 1_000) });
    expect(await sign(expired.id, { now: new Date(NOW.getTime() + 2_000) })).toBe("KEY_EXPIRED");
    const enterprise = await issue(database, { tier: "enterprise" });
    expect(await sign(enterprise.id)).toBe("OFFLINE_NOT_ALLOWED");
  });

  test("signs with the successor after a rotation, and notes each license", async () => {
    const { database } = testDatabase;
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
