/** Tests `claviger licenses …` as an operator uses it: while a service runs, and with other verifiers. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHmac, randomBytes } from "node:crypto";
import { join } from "node:path";
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from "jose";
import { toTimestamp } from "../../src/base/calendar.ts";
import { generateKeyPair } from "../../src/licensing/signed_licenses/jws.ts";
import { toJwk } from "../../src/licensing/signed_licenses/mod.ts";
import { signSample, TRUSTED } from "../licensing/signed_licenses/forgeries.ts";
import { createTestClock } from "../support/clock.ts";
import { until } from "../support/until.ts";
import { createCommandLine, createIssuer, type Issued } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line, service } = useServing([], { env: { CLAVIGER_STOP_GRACE: "0", CLAVIGER_LIMIT_LICENSE: "0" } });
let firstKeys: JSONWebKeySet;

beforeAll(async () => {
  firstKeys = await pinned();
});

const issue = createIssuer(line);

async function fetchLicense(key: Issued, fields: object = {}): Promise<{ license: string; kid: string }> {
  const { status, body } = await service.post("/v1/auth/license", { api_key: key.api_key, ...fields });
  expect({ status, code: body.code }).toEqual({ status: 200, code: undefined });
  return body;
}

/** Returns the keys as they are: the service publishes a rotation up to a second later. */
async function current(at = line): Promise<JSONWebKeySet> {
  return JSON.parse((await at.here(["licenses", "public-keys"])).out);
}

/** Returns the keys that the service publishes, as soon as they contain the rotations of other tests. */
async function pinned(): Promise<JSONWebKeySet> {
  const keys = await current();
  return await until(async () => {
    const published = await (await fetch(`${service.url}/.well-known/jwks.json`)).json();
    return Bun.deepEquals(published, keys) && (published as JSONWebKeySet);
  });
}

/** Verifies as an independent client does; returns the code of the error. */
async function verifyWithJose(license: string, keys: JSONWebKeySet, more: object = {}): Promise<string> {
  try {
    await jwtVerify(license, createLocalJWKSet(keys), {
      algorithms: ["EdDSA"],
      audience: "svc",
      typ: "license+jwt",
      ...more,
    });
    return "verified";
  } catch (error) {
    return (error as { code: string }).code;
  }
}

function part(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

describe("claviger licenses export of a license that starts on its first use", () => {
  const waiting = () => issue("--starts-on-first-use", "--term-days", "30");

  test("says before that the file starts the term, and afterwards when the license ends", async () => {
    const key = await waiting();
    const { status, out, err } = await line.here(["licenses", "export", key.id]);
    const { expires_at, started_at } = await line.json(["keys", "show", key.id]);
    expect(Date.parse(expires_at)).toBe(Date.parse(started_at) + 30 * 86_400_000);
    expect([status, out.slice(0, 27)]).toEqual([0, "-----BEGIN LICENSE-----\nLic"]);
    const [before, , after] = err.trimEnd().split("\n");
    expect(before).toMatch(
      /^The license waits for its first use\. This file starts its term, which then ends at \d{4}-/,
    );
    expect(after).toBe(`The term of the license has begun: it ends at ${expires_at}`);
    expect((await line.here(["licenses", "export", key.id])).err).not.toContain("first use");
  });

  test("names the end with --json, and null where nothing began", async () => {
    const key = await waiting();
    const { term_ends_at, expires_at } = await line.json(["licenses", "export", key.id]);
    expect(term_ends_at).toBe((await line.json(["keys", "show", key.id])).expires_at);
    expect(expires_at).toBe(term_ends_at);
    expect((await line.json(["licenses", "export", key.id])).term_ends_at).toBeNull();
  });

  test("starts nothing at a terminal without a yes", async () => {
    const key = await waiting();
    const { status, err } = await line.here(["licenses", "export", key.id], {
      isTerminal: true,
      isTyped: true,
      input: "no\n",
    });
    expect([status, err]).toEqual([
      1,
      expect.stringContaining("Nothing was changed: the answer was not yes"),
    ]);
    expect(await line.json(["keys", "show", key.id])).toMatchObject({ started_at: null });
  });
});

describe("a signed license", () => {
  test("is verified by another library, and refused after any change", async () => {
    const keys = await pinned();
    const { license, kid } = await fetchLicense(await issue(), { fingerprint: "host-7" });
    expect(await verifyWithJose(license, keys)).toBe("verified");
    const [head = "", payload = "", signature = ""] = license.split(".");
    for (const [index, text] of [head, payload, signature].entries()) {
      for (let at = 0; at < text.length; at += 7) {
        const changed = text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);
        const forged = [head, payload, signature].with(index, changed).join(".");
        expect(await verifyWithJose(forged, keys)).not.toBe("verified");
      }
    }
    const x = keys.keys.find((each) => each.kid === kid)?.x ?? "";
    const successor = keys.keys.at(-1)?.kid;
    const none = `${part({ alg: "none", typ: "license+jwt", kid })}.${payload}.`;
    const signed = `${part({ alg: "HS256", typ: "license+jwt", kid })}.${payload}`;
    const hmac = createHmac("sha256", Buffer.from(x, "base64url")).update(signed).digest("base64url");
    const otherKid = `${part({ alg: "EdDSA", typ: "license+jwt", kid: successor })}.${payload}.${signature}`;
    for (const forged of [none, `${signed}.${hmac}`, otherKid]) {
      expect(await verifyWithJose(forged, keys)).not.toBe("verified");
      const { status, out } = await line.here(["licenses", "verify", line.write("forged", forged)]);
      expect({ status, out }).toEqual({ status: 1, out: "" });
    }
    expect(await verifyWithJose(license, keys, { audience: "other" })).toBe(
      "ERR_JWT_CLAIM_VALIDATION_FAILED",
    );
    const later = new Date(Date.now() + 8 * 86_400_000);
    expect(await verifyWithJose(license, keys, { currentDate: later })).toBe("ERR_JWT_EXPIRED");
  });

  test("is verified with keys that were pinned before a rotation, and not after the second one", async () => {
    const key = await issue();
    const keys = await pinned();
    await line.json(["licenses", "rotate-signing-key"]);
    const second = await fetchLicense(key);
    expect(second.kid).toBe(keys.keys.at(-1)?.kid ?? "");
    expect(await verifyWithJose(second.license, keys)).toBe("verified");
    await line.json(["licenses", "rotate-signing-key"]);
    const third = await fetchLicense(key);
    expect(await verifyWithJose(third.license, keys)).toBe("ERR_JWKS_NO_MATCHING_KEY");
  });
});

describe("claviger licenses", () => {
  test("export writes a file that verify accepts with pinned keys, without an installation", async () => {
    const key = await issue();
    const { status, out, err } = await line.here([
      "licenses",
      "export",
      key.id,
      "--days",
      "30",
      "--fingerprint",
      "host-7",
    ]);
    expect(status).toBe(0);
    expect(err).toContain("a revocation of the key does not end it earlier");
    const head = Object.fromEntries(
      [...out.matchAll(/^([\w ]+): (.+)$/gm)].map(([, name, value]) => [name, value]),
    );
    const file = line.write("customer.license", out);
    const jwks = line.write("jwks.json", (await line.here(["licenses", "public-keys"])).out);
    const verified = await line.run(["licenses", "verify", file, "--jwks", jwks]);
    expect(verified.status).toBe(0);
    expect(verified.out).toContain(key.id);
    expect(verified.out).toContain("yes; not checked: revocation since then");
    const windows = line.write("windows.license", out.replaceAll("\n", "\r\n"));
    const shown = await line.json(["licenses", "verify", windows]);
    expect(shown).toMatchObject({ valid: true, not_checked: "revocation since then" });
    expect(head).toEqual({
      ...{ License: shown.claims.sub, Key: key.id, Tier: "research", Machine: "host-7" },
      "Valid until": toTimestamp(new Date(shown.claims.exp * 1_000)),
    });
    const tampered = line.write(
      "tampered.license",
      out.replace(/\n(\w)(\w)/g, (_, a, b) => `\n${b}${a}`),
    );
    expect((await line.run(["licenses", "verify", tampered, "--jwks", jwks])).status).toBe(1);
    const [entry] = await line.json(["audit", "--key", key.id, "--limit", "1"]);
    expect(entry.action).toBe("license.export");
    const outstanding = await line.json(["licenses", "outstanding", "--key", key.id]);
    expect(outstanding).toMatchObject([{ key_id: key.id, kind: "exported", count: 1 }]);
  });

  test("verify shows a number that is no time as it is, and does not accept it", async () => {
    const jwks = line.write("trusted.json", JSON.stringify({ keys: TRUSTED.map(toJwk) }));
    const file = line.write("endless.license", signSample({ exp: 1e300 }));
    const { status, out, err } = await line.run(["licenses", "verify", file, "--jwks", jwks]);
    expect(status).toBe(1);
    expect(out).toMatch(/^exp +1e\+300$/m);
    expect(err).toContain("is not valid: it has no times");
  });

  test("verify says which file it cannot use, and what to do", async () => {
    const file = line.write("bare.license", await fetchLicense(await issue()).then(({ license }) => license));
    const jwks = line.write("current.json", JSON.stringify(await current()));
    const other = line.write("other.json", JSON.stringify({ keys: [toJwk(generateKeyPair().publicKey)] }));
    const large = line.write("large", "x".repeat(70_000));
    const refusals: [file: string, jwks: string, why: string][] = [
      [join(line.folder, "missing"), jwks, "Cannot read .*missing: there is no such file"],
      [line.folder, jwks, "Cannot read .*: it is a folder"],
      [large, jwks, "Cannot read .*large: it is too large"],
      [jwks, jwks, "Cannot verify .*current.json: it holds no license"],
      [file, file, "bare.license is not a JWK set; `claviger licenses public-keys` prints one"],
      [file, other, "none of the trusted keys has signed it; the list of keys may be too old"],
    ];
    for (const [license, keys, why] of refusals) {
      const { status, out, err } = await line.run(["licenses", "verify", license, "--jwks", keys]);
      expect({ why, status, out, err }).toMatchObject({
        status: 1,
        out: "",
        err: expect.stringMatching(new RegExp(why)),
      });
    }
    const nowhere = await line.run(["licenses", "verify", file, "--data-dir", join(line.folder, "nowhere")]);
    expect(nowhere.status).toBe(1);
    expect(nowhere.err).toMatch(
      /^claviger: Cannot find a database in .*; or give the public keys with --jwks$/m,
    );
    const clock = createTestClock(new Date(Date.now() + 9 * 86_400_000).toISOString());
    const expired = await line.run(["licenses", "verify", file, "--jwks", jwks], { clock });
    expect(expired).toMatchObject({ status: 1, err: expect.stringContaining("it has expired") });
    expect(expired.out).toContain("no: it has expired");
  });

  test("verify accepts a signer whose clock is five minutes ahead, and only licenses of this brand", async () => {
    const key = await issue();
    const verify = async (aheadMs: number, env = {}) => {
      const clock = createTestClock(new Date(Date.now() + aheadMs).toISOString());
      const { license } = await line.json(["licenses", "export", key.id], { clock });
      return await line.here(["licenses", "verify", line.write("ahead.license", license)], { env });
    };
    expect(await verify(4 * 60_000)).toMatchObject({ status: 0 });
    const { status, err } = await verify(6 * 60_000);
    expect({ status, err }).toMatchObject({ status: 1, err: expect.stringContaining("it is not valid yet") });
    const other = await verify(0, { CLAVIGER_BRAND: "acme" });
    expect(other).toMatchObject({ status: 1, err: expect.stringContaining("it is for svc, not for acme") });
  });

  test("outstanding lists the licenses that are still valid, the latest expiry first", async () => {
    const key = await issue();
    const clock = createTestClock(new Date(Date.now() - 5 * 86_400_000).toISOString());
    const signed = async (days: number, options = {}) =>
      (await line.json(["licenses", "export", key.id, "--days", String(days)], options)).jti;
    await signed(4, { clock });
    const latest = [await signed(2), await signed(9), await signed(3)];
    const list = async (...more: string[]) => {
      const rows = await line.json(["licenses", "outstanding", "--key", key.id, ...more]);
      return rows.map(({ jti }: { jti: string }) => jti);
    };
    expect(await list()).toEqual([latest[1], latest[2], latest[0]]);
    expect(await list("--limit", "1")).toEqual([latest[1]]);
    const { out, err } = await line.here(["licenses", "outstanding", "--key", key.id, "--limit", "2"]);
    expect(out.trimEnd().split("\n")).toHaveLength(3);
    expect(err).toBe("There are more rows: raise --limit above 2\n");
  });

  test("rotate-signing-key --retire keeps a key whose licenses are valid, unless it leaked", async () => {
    const key = await issue();
    const { kid, license } = await fetchLicense(key);
    const refused = await line.here(["licenses", "rotate-signing-key", "--retire", kid]);
    expect(refused.err).toContain(
      "it is the signing key; `claviger licenses rotate-signing-key` comes first",
    );
    const { successor } = await line.json(["licenses", "rotate-signing-key"]);
    const early = await line.here(["licenses", "rotate-signing-key", "--retire", successor]);
    expect(early.err).toContain("retire it only if its private key leaked, with --now");
    const unknown = await line.here(["licenses", "rotate-signing-key", "--retire", "-".repeat(43)]);
    const now = await line.here(["licenses", "rotate-signing-key", "--now"]);
    expect(now).toMatchObject({
      status: 2,
      out: "",
      err: expect.stringContaining("--now needs --retire KID"),
    });
    expect(unknown.err).toContain("no key has that id; `claviger licenses public-keys` shows the ids");
    const old = await line.here(["licenses", "rotate-signing-key", "--retire", kid]);
    expect(old).toMatchObject({ status: 1 });
    expect(old.err).toMatch(/that it signed, valid until \S+; retire it after that, or add --now if/);
    const { kid: signing, license: ofLeaked } = await fetchLicense(key);
    const leaked = await line.here(["licenses", "rotate-signing-key", "--retire", signing, "--now"]);
    expect(leaked).toMatchObject({ status: 0 });
    expect(leaked.err).toContain("clients with pinned keys accept forgeries");
    expect((await fetchLicense(key)).kid).not.toBe(signing);
    const forgeable = await line.here(["licenses", "verify", line.write("leaked.license", ofLeaked)]);
    expect(forgeable).toMatchObject({
      status: 1,
      out: "",
      err: expect.stringContaining("the key was retired"),
    });
    expect((await current()).keys.map(({ kid }) => kid)).not.toContain(signing);
    expect(await line.here(["licenses", "verify", line.write("old.license", license)])).toMatchObject({
      status: 0,
    });
  });
});

describe("the signing keys", () => {
  test("are two after the first start", () => {
    expect(firstKeys.keys).toHaveLength(2);
  });

  test("are the same after a restore on another host, and sign further licenses", async () => {
    const key = await issue();
    const keys = await current();
    const { license, kid } = await fetchLicense(key);
    const file = join(line.folder, "saved");
    await line.json(["backup", file, "--with-secret"]);
    using elsewhere = createCommandLine({ prepared: true });
    expect(await elsewhere.here(["restore", file])).toMatchObject({ status: 0 });
    expect(await current(elsewhere)).toEqual(keys);
    expect(await elsewhere.here(["licenses", "verify", line.write("before.license", license)])).toMatchObject(
      {
        status: 0,
      },
    );
    const exported = await elsewhere.json(["licenses", "export", key.id, "--days", "7"]);
    expect(exported.kid).toBe(kid);
    expect(await verifyWithJose(exported.license, keys)).toBe("verified");
  });

  test("are new after a restore that forgets sealed data, and the start says what follows for pinned keys", async () => {
    await fetchLicense(await issue());
    const keys = await current();
    const file = join(line.folder, "without-secret");
    await line.json(["backup", file]);
    using elsewhere = createCommandLine({ prepared: true });
    await elsewhere.json(["restore", file, "--forget-sealed"]);
    const restarted = await elsewhere.serve([], { env: { CLAVIGER_STOP_GRACE: "0" } });
    const published = await current(elsewhere);
    const { out, err } = await restarted.stop();
    expect(out + err).toContain("clients that pinned the earlier keys will refuse new licenses");
    expect(published.keys).toHaveLength(2);
    const earlier = keys.keys.map(({ kid }) => kid);
    for (const { kid } of published.keys) expect(earlier).not.toContain(kid);
  });

  test("sign nothing and do not change with a wrong root secret", async () => {
    const key = await issue();
    const keys = await current();
    const env = { CLAVIGER_SECRET: randomBytes(32).toString("hex") };
    for (const args of [["export", key.id], ["rotate-signing-key"]]) {
      const { status, out, err } = await line.here(["licenses", ...args], { env });
      expect({ status, out }).toEqual({ status: 1, out: "" });
      expect(err).toContain("secret");
    }
    expect(await line.json(["licenses", "outstanding", "--key", key.id])).toEqual([]);
    expect(await current()).toEqual(keys);
  });
});
