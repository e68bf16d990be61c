/** POST /v1/auth/license and GET /.well-known/jwks.json. */
import { describe, expect, test } from "bun:test";
import { verifySignature } from "../../src/licensing/signed_licenses/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { issueIn, issueUsedUp, updateLicense } from "../support/keys.ts";
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
