/** POST /v1/auth/license and GET /.well-known/jwks.json. */
import { describe, expect, test } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { verifySignature } from "../../src/licensing/signed_licenses/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { issueIn, issueUsedUp, updateLicense, uuidOf } from "../support/keys.ts";
import { setPlaces } from "../support/machines.ts";
import { startTestService } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const PATH = "/v1/auth/license";
const JWKS = "/.well-known/jwks.json";
/** Free and enterprise get none. */
const offlineDays = { free: 0, research: 7, commercial: 14, enterprise: 0 };
const service = useTestService({ config: { offlineDays } });

async function claimsOf(license: string) {
  const { body } = await service.get(JWKS);
  const verified = verifySignature(
    license,
    body.keys.map(({ x }: { x: string }) => x),
  );
  if (!verified.ok) throw new Error(verified.error);
  return verified.claims;
}

describe("POST /v1/auth/license", () => {
  test("answers with the license, its expiry, the time to refresh it, and the key that signed it", async () => {
    const key = await service.issue({ tier: "research", expiresAt: new Date("2030-01-01T00:00:00Z") });
    const { status, body } = await service.post(PATH, { api_key: key.apiKey });
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(["license", "expires_at", "refresh_after", "kid"]);
    const [header = ""] = body.license.split(".");
    expect(JSON.parse(Buffer.from(header, "base64url").toString())).toEqual({
      alg: "EdDSA",
      typ: "license+jwt",
      kid: body.kid,
    });
    const { iat, exp, refresh_after, sub, ...claims } = await claimsOf(body.license);
    const signedAt = Number(iat);
    expect(Math.abs(signedAt - service.clock.now().getTime() / 1_000)).toBeLessThan(30);
    expect({ exp, refresh_after }).toEqual({
      exp: signedAt + 7 * 86_400,
      refresh_after: signedAt + 3.5 * 86_400,
    });
    expect(Date.parse(body.expires_at)).toBe(Number(exp) * 1_000);
    expect(Date.parse(body.refresh_after)).toBe(Number(refresh_after) * 1_000);
    expect(Object.keys(claims)).toEqual([
      ...["iss", "aud", "jti", "nbf", "key_id", "user_id", "mode", "license_type", "features", "quota"],
      "license_expires_at",
    ]);
  });

  test("takes the key from the header, too", async () => {
    const { apiKey } = await service.issue();
    expect((await service.post(PATH, {}, { "X-API-Key": apiKey })).status).toBe(200);
  });

  test("answers when the quota is used up, with the count in the license", async () => {
    const { apiKey } = await issueUsedUp(service);
    const { status, body } = await service.post(PATH, { api_key: apiKey });
    expect(status).toBe(200);
    expect((await claimsOf(body.license)).quota).toMatchObject({ monthly_limit: 1, used: 1 });
  });

  test("takes a nonce of 1 to 128 printable characters, and a fingerprint of 1 to 200", async () => {
    const { apiKey } = await service.issue();
    const widest = { nonce: ` ~${"x".repeat(126)}`, fingerprint: ` ~${"x".repeat(198)}` };
    for (const texts of [{ nonce: "a", fingerprint: "a" }, widest]) {
      const { body } = await service.post(PATH, { api_key: apiKey, ...texts });
      expect(await claimsOf(body.license)).toMatchObject(texts);
    }
    const absent = await service.post(PATH, { api_key: apiKey, nonce: null, fingerprint: null });
    const claims = Object.keys(await claimsOf(absent.body.license));
    expect(claims).not.toContain("nonce");
    expect(claims).not.toContain("fingerprint");
    for (const name of ["nonce", "fingerprint"] as const) {
      for (const wrong of [
        "",
        `${widest[name]}x`,
        "é",
        "😀",
        "\u007f",
        "a\u0000",
        "a\nb",
        "a\n",
        7,
        {},
        [],
      ]) {
        expectRefusal(await service.post(PATH, { api_key: apiKey, [name]: wrong }), 400, "INVALID_REQUEST");
      }
    }
  });

  test("does not store the fingerprint", async () => {
    const { apiKey } = await service.issue();
    await service.post(PATH, { api_key: apiKey, fingerprint: "Host-Of-Ada" });
    const rows = await service.database.query((sql) => sql`select s::text as row from signed_licenses s`);
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain("Host-Of-Ada");
  });

  test("signs for an active machine of a license that counts machines, and for no other", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    await setPlaces(service.database, licenseUuid, { maxMachines: 1 });
    const machine = { api_key: apiKey, fingerprint: "workstation-7" };
    const unnamed = await service.post(PATH, { api_key: apiKey });
    expectRefusal(unnamed, 400, "INVALID_REQUEST");
    expect(unnamed.body.error).toContain("fingerprint must be 8 to 200 printable ASCII characters");
    expectRefusal(await service.post(PATH, machine), 404, "MACHINE_NOT_FOUND");
    const { body } = await service.post("/v1/machines/activate", machine);
    const signed = await service.post(PATH, machine);
    expect(signed.status).toBe(200);
    expect(await claimsOf(signed.body.license)).toMatchObject({
      fingerprint: "workstation-7",
      machine_id: body.machine_id,
    });
    await service.post("/v1/machines/release", machine);
    const other = { ...machine, fingerprint: "workstation-8" };
    const refused = await service.post("/v1/machines/activate", other);
    expectRefusal(refused, 409, "MACHINE_LIMIT_REACHED");
    expect((await service.post("/v1/machines/activate", machine)).body.machine_id).toBe(body.machine_id);
  });

  test("refuses a tier without signed licenses as the last check", async () => {
    const fields = { nonce: "" };
    const suspended = await issueIn(service, "suspended", { tier: "free" });
    expectRefusal(await service.post(PATH, { api_key: suspended.apiKey }), 401, "INVALID_KEY");
    const expired = await issueIn(service, "expired", { tier: "free" });
    expectRefusal(await service.post(PATH, { api_key: expired.apiKey }), 401, "KEY_EXPIRED");
    const { apiKey } = await issueUsedUp(service, { tier: "free" });
    expectRefusal(await service.post(PATH, { api_key: apiKey, ...fields }), 400, "INVALID_REQUEST");
    expectRefusal(await service.post(PATH, { api_key: apiKey }), 403, "OFFLINE_NOT_ALLOWED");
  });

  test("is valid for the days that the client asks for, at most as many as its tier has", async () => {
    const { apiKey } = await service.issue();
    for (const [days, valid] of [
      [1, 1],
      [7, 7],
      [null, 7],
    ] as const) {
      const { status, body } = await service.post(PATH, { api_key: apiKey, days });
      expect(status).toBe(200);
      const { iat, exp } = await claimsOf(body.license);
      expect(Number(exp) - Number(iat)).toBe(valid * 86_400);
    }
  });

  test("refuses more days than are allowed: then nothing is noted, and no place is taken for longer", async () => {
    const key = await service.issue();
    await setPlaces(service.database, key.licenseUuid, { maxMachines: 1 });
    const machine = { api_key: key.apiKey, fingerprint: "workstation-7" };
    await service.post("/v1/machines/activate", machine);
    const noted = () =>
      service.database.query(
        (sql) => sql`
          select (select count(*)::int from signed_licenses where key_id = ${uuidOf(key)}::uuid) as signed,
                 extract(epoch from nullif(signed_until, '-infinity'))::float8 as until
            from machines where license_id = ${key.licenseUuid}::uuid`,
      );
    const before = await noted();
    const refused = await service.post(PATH, { ...machine, days: 8 });
    expectRefusal(refused, 400, "INVALID_REQUEST");
    expect(refused.body.error).toBe("days must be at most 7: this license is signed for no more");
    for (const days of [0, -1, 1.5, 3_651, "3", true]) {
      const wrong = await service.post(PATH, { ...machine, days });
      expectRefusal(wrong, 400, "INVALID_REQUEST");
      expect(wrong.body.error).toBe("days must be a whole number from 1 to 3650");
    }
    expect(await noted()).toEqual(before);
    const { body } = await service.post(PATH, { ...machine, days: 1 });
    const { exp } = await claimsOf(body.license);
    expect(await noted()).toEqual([{ signed: 1, until: Number(exp) }]);
  });

  test("follows the days of the license itself instead of those of its tier, also if they are more", async () => {
    const daysOf = async (key: IssuedKey, days?: number) => {
      const { body } = await service.post(PATH, { api_key: key.apiKey, days });
      if (body.license === undefined) return body.error;
      const { iat, exp } = await claimsOf(body.license);
      return (Number(exp) - Number(iat)) / 86_400;
    };
    const key = await service.issue();
    await updateLicense(service, key, { max_offline_days: 30 });
    expect([await daysOf(key), await daysOf(key, 30)]).toEqual([30, 30]);
    expect(await daysOf(key, 31)).toBe("days must be at most 30: this license is signed for no more");
    await updateLicense(service, key, { max_offline_days: 2 });
    expect([await daysOf(key), await daysOf(key, 1)]).toEqual([2, 1]);
    const free = await service.issue({ tier: "free" });
    expect(await daysOf(free)).toBe("Licenses of this tier are not signed for use without a network");
    await updateLicense(service, free, { max_offline_days: 3 });
    expect(await daysOf(free)).toBe(3);
    await updateLicense(service, key, { max_offline_days: 0 });
    for (const days of [1, undefined])
      expect(await daysOf(key, days)).toBe("This license is not signed for use without a network");
  });

  test("refuses the state of the key before the other fields", async () => {
    const { apiKey } = await issueIn(service, "expired");
    expectRefusal(await service.post(PATH, { api_key: apiKey, nonce: 7 }), 401, "KEY_EXPIRED");
  });

  test("follows a change of tier", async () => {
    const key = await service.issue({ tier: "commercial" });
    await service.post(PATH, { api_key: key.apiKey });
    await updateLicense(service, key, { tier: "enterprise" });
    await service.advance(250);
    expectRefusal(await service.post(PATH, { api_key: key.apiKey }), 403, "OFFLINE_NOT_ALLOWED");
  });
});

describe("GET /.well-known/jwks.json", () => {
  test("publishes the signing key and its successor, without private parts", async () => {
    const { status, headers, body } = await service.get(JWKS);
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("max-age=3600");
    expect(body.keys).toHaveLength(2);
    for (const key of body.keys) {
      expect(key).toEqual({
        kty: "OKP",
        crv: "Ed25519",
        x: expect.stringMatching(/^[\w-]{43}$/),
        kid: expect.stringMatching(/^[\w-]{43}$/),
        use: "sig",
        alg: "EdDSA",
      });
    }
  });

  test("answers HEAD like GET without a body, and a known ETag with 304", async () => {
    const got = await fetch(service.url + JWKS);
    const etag = got.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[\w-]{43}"$/);
    const head = await fetch(service.url + JWKS, { method: "HEAD" });
    expect([head.status, await head.text(), head.headers.get("etag")]).toEqual([200, "", etag]);
    const known = await fetch(service.url + JWKS, { headers: { "If-None-Match": etag } });
    expect([known.status, await known.text(), known.headers.get("etag")]).toEqual([304, "", etag]);
    expect(known.headers.get("cache-control")).toBe("max-age=3600");
    const other = await fetch(service.url + JWKS, { headers: { "If-None-Match": '"other"' } });
    expect(other.status).toBe(200);
    expect((await fetch(service.url + JWKS, { headers: { "If-Match": etag } })).status).toBe(200);
    expectRefusal(await service.get(JWKS, { "If-Match": '"other"' }), 412, "PRECONDITION_FAILED");
    expectRefusal(await service.send(JWKS, { method: "POST", body: "{}" }), 405, "METHOD_NOT_ALLOWED");
  });

  test("has no rate limit", async () => {
    await using limited = await startTestService({ limits: "default", on: service.testDatabase });
    for (let round = 0; round < 300; round++) {
      const { status, headers } = await limited.get(JWKS);
      expect(status).toBe(200);
      expect(headers.get("x-ratelimit-limit")).toBeNull();
    }
  });
});
