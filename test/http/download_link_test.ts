/** A client may download a hosted file by a signed link or with a key. */

import { beforeAll, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { parseId } from "../../src/ids.ts";
import { type IssuedKey, revokeKey, suspendKey } from "../../src/keys/mod.ts";
import type { Tier } from "../../src/licensing/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { addHostedModel, linkTo, PUBLIC_URL, startHostingService, testBytes } from "../support/hosted.ts";
import { expire, issueIn, UNKNOWN_KEY, uuidOf } from "../support/keys.ts";
import { addTestModel } from "../support/models.ts";
import { sendRaw } from "../support/raw_http.ts";
import { startTestService } from "../support/service.ts";
import { useHostingService } from "../support/use.ts";

const BYTES = testBytes(1_000);
const OLD_BYTES = testBytes(900, 2);
const PATH = "/v1/models/download/m/2.0+b";

const service = useHostingService();
let key: IssuedKey;
let sha256: string;

beforeAll(async () => {
  key = await service.issue({ email: "ada@example.org", tier: "research" });
  const owner = await service.issue({ email: "owner@example.org", tier: "commercial" });
  const ownerUuid = parseId("usr", owner.userId);
  await addHostedModel(service, { name: "m", version: "1.0" }, OLD_BYTES);
  sha256 = await addHostedModel(service, { name: "m", version: "2.0+b" }, BYTES);
  await addHostedModel(service, { name: "other" }, testBytes(10, 3));
  await addHostedModel(service, { name: "high", requiresLicense: "commercial" }, testBytes(20, 4));
  await addHostedModel(
    service,
    { name: "custom", requiresLicense: "commercial", ownerUuid },
    testBytes(30, 5),
  );
  await addTestModel(service, { name: "elsewhere" });
  for (const version of ["1", "2"])
    await addHostedModel(service, { name: "same", version }, testBytes(60, 10));
  await addHostedModel(service, { name: "same_too", version: "2" }, testBytes(60, 10));
});

const withKey = (apiKey: string) => ({ "X-API-Key": apiKey });

async function expectFile(url: string, bytes = BYTES, headers: Record<string, string> = {}): Promise<void> {
  const response = await fetch(url, { headers });
  expect(response.status).toBe(200);
  expect(hash("sha256", new Uint8Array(await response.arrayBuffer()))).toBe(hash("sha256", bytes));
}

/** Returns the path of a link with one of its parameters changed. */
function change(link: string, edit: (query: URLSearchParams) => void): string {
  const url = new URL(link);
  edit(url.searchParams);
  return url.href.slice(service.url.length);
}

describe("GET /v1/models/list", () => {
  test("gives a hosted model a link of this service, valid for this key and 15 minutes", async () => {
    const { body } = await service.get("/v1/models/list", withKey(key.apiKey));
    const model = body.models.find(({ name }: { name: string }) => name === "m");
    expect(model).toMatchObject({ version: "2.0+b", checksum: `sha256:${sha256}` });
    const url = new URL(model.download_url);
    expect(model.download_url).toStartWith(`${PUBLIC_URL}/v1/models/download/m/2.0%2Bb/m-2.0%2Bb?`);
    expect([...url.searchParams.keys()]).toEqual(["key", "expires", "signer", "signature"]);
    expect(url.searchParams.get("key")).toBe(key.id);
    const leftMs = Number(url.searchParams.get("expires")) * 1_000 - service.clock.now().getTime();
    expect(leftMs).toBeGreaterThan(14 * 60_000);
    expect(leftMs).toBeLessThanOrEqual(15 * 60_000);
    expect(model.download_url).not.toContain(key.apiKey);
  });

  test("never makes a link from the Host header", async () => {
    const lies = "Host: evil.example\r\nX-Forwarded-Host: evil.example";
    const request = `GET /v1/models/list HTTP/1.1\r\n${lies}\r\nX-API-Key: ${key.apiKey}\r\n\r\n`;
    const [answer] = await sendRaw(service.url, request);
    expect(answer?.text).toContain(PUBLIC_URL);
    expect(answer?.text).not.toContain("evil.example");
  });

  test("gives the registered address of a file that another server hosts", async () => {
    const { body } = await service.get("/v1/models/list", withKey(key.apiKey));
    const model = body.models.find(({ name }: { name: string }) => name === "elsewhere");
    expect(model.download_url).toBe("https://models.example/elsewhere");
  });

  test("gives no link if the public URL is not set, and says so once in the log", async () => {
    const bare = await startTestService({ on: service.testDatabase });
    try {
      for (let times = 0; times < 2; times++) {
        const { body } = await bare.get("/v1/models/list", withKey(key.apiKey));
        expect(body.models.map((model: { download_url: string }) => model.download_url)).toContain("");
      }
      const lines = bare.logLines.filter((line) => line.includes("CLAVIGER_PUBLIC_URL"));
      expect(lines).toHaveLength(1);
    } finally {
      await bare.close();
    }
  });
});

describe("GET /v1/models/download by a link", () => {
  test("sends the file to any client that has the link, without any header", async () => {
    await expectFile(await linkTo(service, key.apiKey, "m"));
  });

  test("accepts a link of the old form, without the file's name", async () => {
    const link = await linkTo(service, key.apiKey, "m");
    await expectFile(link.replace("/m-2.0%2Bb?", "?"));
  });

  test("refuses a link under another file name", async () => {
    const link = await linkTo(service, key.apiKey, "m");
    const path = link.slice(service.url.length).replace("/m-2.0%2Bb?", "/evil.exe?");
    expectRefusal(await service.get(path), 401, "INVALID_LINK");
  });

  test("refuses a link after 15 minutes", async () => {
    const link = await linkTo(service, key.apiKey, "m");
    const path = link.slice(service.url.length);
    await service.advance(14 * 60_000);
    await expectFile(link);
    await service.advance(60_000);
    expectRefusal(await service.get(path), 401, "INVALID_LINK");
  });

  const tampered: readonly (readonly [what: string, edit: (query: URLSearchParams) => void])[] = [
    ["a later expiry", (query) => query.set("expires", String(Number(query.get("expires")) + 1))],
    ["another key", (query) => query.set("key", `key_${"0".repeat(32)}`)],
    ["another signer", (query) => query.set("signer", "00000000")],
    ["another signature", (query) => query.set("signature", "A".repeat(43))],
    ["a malformed signature", (query) => query.set("signature", "x")],
    ["a malformed key", (query) => query.set("key", "key_1")],
    ["a malformed expiry", (query) => query.set("expires", "tomorrow")],
    ["no signature", (query) => query.delete("signature")],
    ["no expiry", (query) => query.delete("expires")],
    ["no key", (query) => query.delete("key")],
    ["no signer", (query) => query.delete("signer")],
    ["two expiries", (query) => query.append("expires", "9999999999")],
    ["two signatures", (query) => query.append("signature", "A".repeat(43))],
  ];
  for (const [what, edit] of tampered) {
    test(`refuses a link with ${what}`, async () => {
      const link = await linkTo(service, key.apiKey, "m");
      const answer = await service.get(change(link, edit));
      expectRefusal(answer, 401, "INVALID_LINK");
      expect(answer.body.error).toContain("list the models again");
    });
  }

  test("refuses a link under the path of another model or version, known or not", async () => {
    const link = await linkTo(service, key.apiKey, "m");
    const query = link.slice(link.indexOf("?"));
    for (const path of ["m/1.0", "other/1.0.0", "nothing/1.0.0", "m/9", "elsewhere/1.0.0"]) {
      expectRefusal(await service.get(`/v1/models/download/${path}${query}`), 401, "INVALID_LINK");
    }
  });

  test("refuses a link that was changed to another key, even an active one", async () => {
    const other = await service.issue();
    const link = await linkTo(service, key.apiKey, "m");
    const path = change(link, (query) => query.set("key", other.id));
    expectRefusal(await service.get(path), 401, "INVALID_LINK");
  });

  test("refuses a link under the path of another version or name of the same bytes", async () => {
    const link = await linkTo(service, key.apiKey, "same");
    await expectFile(link, testBytes(60, 10));
    const query = link.slice(link.indexOf("?"));
    for (const path of ["same/1", "same_too/2"]) {
      expectRefusal(await service.get(`/v1/models/download/${path}${query}`), 401, "INVALID_LINK");
    }
  });

  test("refuses a link when the version has another file than the signed one", async () => {
    const changed = await startHostingService();
    try {
      const { apiKey } = await changed.issue();
      await addHostedModel(changed, { name: "m" }, testBytes(10, 6));
      const link = await linkTo(changed, apiKey, "m");
      const other = await addHostedModel(changed, { name: "n" }, testBytes(10, 7));
      await changed.database.query(
        (sql) => sql`update model_versions v set file = ${other}, checksum = ${other}
                       from models m where m.id = v.model_id and m.name = 'm'`,
      );
      expectRefusal(await changed.get(link.slice(changed.url.length)), 401, "INVALID_LINK");
    } finally {
      await changed.close();
    }
  });

  test("refuses a link that a service with another secret signed", async () => {
    const foreign = await linkTo(service, key.apiKey, "m");
    const text = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
    const other = await startHostingService({ config: { secret: { text, source: "a test" } } });
    try {
      await addHostedModel(other, { name: "m", version: "2.0+b" }, BYTES);
      expectRefusal(await other.get(foreign.slice(service.url.length)), 401, "INVALID_LINK");
    } finally {
      await other.close();
    }
  });

  test("refuses a link and all its ranges at once after its key was revoked over HTTP", async () => {
    const doomed = await service.issue();
    const link = await linkTo(service, doomed.apiKey, "m");
    await expectFile(link);
    const { status } = await service.post("/v1/auth/revoke", { api_key: doomed.apiKey });
    expect(status).toBe(200);
    for (const headers of [{}, { Range: "bytes=0-9" }]) {
      expectRefusal(await service.get(link.slice(service.url.length), headers), 401, "INVALID_KEY");
    }
  });

  test("refuses a link within a second after a command revoked its key, in every process", async () => {
    const doomed = await service.issue();
    const link = await linkTo(service, doomed.apiKey, "m");
    const { dataDir } = service;
    const second = await startTestService({
      on: service.testDatabase,
      config: { dataDir, publicUrl: PUBLIC_URL },
    });
    try {
      const path = link.slice(service.url.length);
      await expectFile(second.url + path);
      await expectFile(link);
      const actor = { kind: "command", name: "test" } as const;
      await revokeKey(
        createLicenseChanges(service.database),
        { uuid: uuidOf(doomed) },
        { actor, now: service.clock.now() },
      );
      const revokedMs = performance.now();
      const watched = [second, service].map(async (each) => {
        for (let servedMs = revokedMs; ; ) {
          const beganMs = performance.now();
          const answer = await fetch(each.url + path);
          await answer.bytes();
          if (!answer.ok || beganMs - revokedMs > 5_000) return servedMs;
          servedMs = beganMs;
        }
      });
      const lastMs = Math.max(...(await Promise.all(watched)));
      expect(lastMs - revokedMs).toBeLessThan(1_000);
      expectRefusal(await second.get(path), 401, "INVALID_KEY");
      expectRefusal(await service.get(path), 401, "INVALID_KEY");
    } finally {
      await second.close();
    }
  });

  test("refuses a link whose key is suspended or whose license has expired", async () => {
    const suspended = await service.issue();
    const first = await linkTo(service, suspended.apiKey, "m");
    const actor = { kind: "command", name: "test" } as const;
    await suspendKey(createLicenseChanges(service.database), uuidOf(suspended), {
      actor,
      now: service.clock.now(),
    });
    const expired = await service.issue();
    const second = await linkTo(service, expired.apiKey, "m");
    await expire(service, expired);
    await service.service.directory.beat();
    expectRefusal(await service.get(first.slice(service.url.length)), 401, "INVALID_KEY");
    expectRefusal(await service.get(second.slice(service.url.length)), 401, "KEY_EXPIRED");
  });

  test("refuses a link when the key's tier has become too low", async () => {
    const lowered = await service.issue({ tier: "commercial" });
    const link = await linkTo(service, lowered.apiKey, "high");
    await expectFile(link, testBytes(20, 4));
    await service.database.query(
      (sql) => sql`update licenses set tier = 'free' where id = ${lowered.licenseUuid}::uuid`,
    );
    await service.service.directory.beat();
    expectRefusal(await service.get(link.slice(service.url.length)), 403, "LICENSE_REQUIRED");
  });
});

describe("GET /v1/models/download with a key", () => {
  test("sends the file of the listed version and of an older one", async () => {
    await expectFile(service.url + PATH, BYTES, withKey(key.apiKey));
    await expectFile(`${service.url}/v1/models/download/m/2.0%2Bb`, BYTES, withKey(key.apiKey));
    await expectFile(`${service.url}/v1/models/download/m/1.0`, OLD_BYTES, withKey(key.apiKey));
  });

  const fileNames: readonly (readonly [name: string, disposition: string])[] = [
    ["speller.onnx", 'filename="speller.onnx"'],
    ["P300 (v2).onnx", 'filename="P300 (v2).onnx"'],
    ['a"b.onnx', `filename="a_b.onnx"; filename*=UTF-8''a%22b.onnx`],
    ["50%.onnx", `filename="50_.onnx"; filename*=UTF-8''50%25.onnx`],
    ["größe'*😀.onnx", `filename="gr__e'*_.onnx"; filename*=UTF-8''gr%C3%B6%C3%9Fe%27%2A%F0%9F%98%80.onnx`],
  ];
  for (const [index, [fileName, disposition]] of fileNames.entries()) {
    test(`sends ${fileName} with its own name, and ends the link with that name`, async () => {
      const name = `named_${index}`;
      await addHostedModel(service, { name, fileName }, testBytes(70, 20));
      const link = await linkTo(service, key.apiKey, name);
      const { pathname } = new URL(link);
      expect(decodeURIComponent(pathname.slice(pathname.lastIndexOf("/") + 1))).toBe(fileName);
      for (const [url, headers] of [
        [link, {}],
        [`${service.url}/v1/models/download/${name}/1.0.0`, withKey(key.apiKey)],
        [service.url + pathname, withKey(key.apiKey)],
      ] as const) {
        const response = await fetch(url, { headers });
        expect(response.headers.get("content-disposition")).toBe(`attachment; ${disposition}`);
        expect(Buffer.from(testBytes(70, 20)).equals(await response.bytes())).toBe(true);
      }
    });
  }

  test("uses the key and ignores the link if a request has both", async () => {
    const link = await linkTo(service, key.apiKey, "m");
    await expectFile(
      change(link, (query) => query.set("signature", "x")).replace(/^/, service.url),
      BYTES,
      withKey(key.apiKey),
    );
    expectRefusal(
      await service.get(link.slice(service.url.length), withKey(UNKNOWN_KEY)),
      401,
      "INVALID_KEY",
    );
  });

  test("refuses a request without a valid key or link", async () => {
    expectRefusal(await service.get(PATH), 400, "MISSING_KEY");
    expectRefusal(await service.get(PATH, withKey("")), 400, "MISSING_KEY");
    expectRefusal(await service.get(PATH, withKey("svc_live_1")), 400, "INVALID_FORMAT");
    expectRefusal(await service.get(PATH, withKey(UNKNOWN_KEY)), 401, "INVALID_KEY");
  });

  for (const [state, code] of [
    ["revoked", "INVALID_KEY"],
    ["suspended", "INVALID_KEY"],
    ["expired", "KEY_EXPIRED"],
  ] as const) {
    test(`refuses a ${state} key`, async () => {
      const { apiKey } = await issueIn(service, state);
      expectRefusal(await service.get(PATH, withKey(apiKey)), 401, code);
    });
  }

  const tiers: readonly (readonly [Tier, number])[] = [
    ["free", 403],
    ["research", 403],
    ["commercial", 200],
    ["enterprise", 200],
  ];
  for (const [tier, status] of tiers) {
    test(`answers a ${tier} key for a commercial model with ${status}`, async () => {
      const { apiKey } = await service.issue({ tier });
      const response = await fetch(`${service.url}/v1/models/download/high/1.0.0`, {
        headers: withKey(apiKey),
      });
      expect(response.status).toBe(status);
      if (status === 403) {
        expect(await response.json()).toEqual({
          error: "The model requires the tier commercial or a higher one",
          code: "LICENSE_REQUIRED",
        });
      }
    });
  }

  test("refuses a low tier for a file on another server, and tells an allowed key to use download_url", async () => {
    const path = "/v1/models/download/high_elsewhere/1.0.0";
    await addTestModel(service, { name: "high_elsewhere", requiresLicense: "commercial" });
    const refused = await service.get(path, withKey(key.apiKey));
    expectRefusal(refused, 403, "LICENSE_REQUIRED");
    expect(refused.body.error).toContain("commercial");
    const { apiKey } = await service.issue({ tier: "commercial" });
    const allowed = await service.get(path, withKey(apiKey));
    expectRefusal(allowed, 404, "NOT_FOUND");
    expect(allowed.body.error).toContain("download_url");
  });

  test("sends a custom model only to its owner's keys", async () => {
    const path = "/v1/models/download/custom/1.0.0";
    const owners = await service.issue({ email: "owner@example.org", tier: "commercial" });
    await expectFile(service.url + path, testBytes(30, 5), withKey(owners.apiKey));
    const stranger = await service.issue({ tier: "enterprise" });
    const refused = await service.get(path, withKey(stranger.apiKey));
    expectRefusal(refused, 404, "NOT_FOUND");
    const lower = await service.issue({ tier: "free" });
    const unknown = await service.get("/v1/models/download/none/1.0.0", withKey(stranger.apiKey));
    for (const answer of [refused, await service.get(path, withKey(lower.apiKey))]) {
      expect([answer.status, answer.body]).toEqual([unknown.status, unknown.body]);
    }
  });

  const unknown = [
    "nothing/1.0.0",
    "m/9.9",
    "elsewhere/1.0.0",
    "M/2.0+b",
    "m/2.0%20b",
    "m%2F..%2F..%2Fsecret/1",
    "..%2f..%2fsecret/1",
    "m/..%2Fsecret",
    "%2e%2e%2f/x",
    "%252e%252e/x",
    "m%00/1.0",
    "m/1.0%00",
    "m/%ff",
    "m/%",
    "m/%E0%80%80",
    `${"a".repeat(5_000)}/1`,
    `m/${"1".repeat(5_000)}`,
  ];
  for (const path of unknown) {
    test(`answers NOT_FOUND at ${path.slice(0, 40)}`, async () => {
      const answer = await service.get(`/v1/models/download/${path}`, withKey(key.apiKey));
      expectRefusal(answer, 404, "NOT_FOUND");
    });
  }

  test("answers NOT_FOUND unless the path is a name and a version", async () => {
    for (const path of ["", "/", "/m", "/m/", "/m/2.0+b/", "/m/2.0+b/x", "//2.0+b"]) {
      const answer = await service.get(`/v1/models/download${path}`, withKey(key.apiKey));
      expectRefusal(answer, 404, "NOT_FOUND");
    }
  });

  test("answers NOT_FOUND to targets with .. that only a raw socket can send", async () => {
    for (const path of [
      "../../secret",
      "%2e%2e/%2e%2e/secret",
      "..\\..\\secret",
      "m/../../../../etc/passwd",
    ]) {
      const request = `GET /v1/models/download/${path} HTTP/1.1\r\nHost: h\r\nX-API-Key: ${key.apiKey}\r\n\r\n`;
      const [answer] = await sendRaw(service.url, request);
      expect(answer?.status).toBe(404);
      expect(answer?.text).toContain('"NOT_FOUND"');
    }
  });

  test("sends an unlisted model, such as a removed one, by its name and version", async () => {
    await addHostedModel(service, { name: "gone" }, testBytes(40, 8));
    await service.database.query((sql) => sql`update models set listed_version = null where name = 'gone'`);
    await expectFile(`${service.url}/v1/models/download/gone/1.0.0`, testBytes(40, 8), withKey(key.apiKey));
  });

  test("finds a version as soon as it is added, even after a request for it was refused", async () => {
    const path = "/v1/models/download/late/1.0.0";
    expectRefusal(await service.get(path, withKey(key.apiKey)), 404, "NOT_FOUND");
    await addHostedModel(service, { name: "late" }, testBytes(50, 9));
    await expectFile(service.url + path, testBytes(50, 9), withKey(key.apiKey));
  });

  test("allows only GET and HEAD", async () => {
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
      const answer = await service.send(PATH, { method, headers: withKey(key.apiKey) });
      expect(answer.status).toBe(405);
      expect(answer.headers.get("allow")).toBe("GET, HEAD");
    }
  });

  test("is logged without signature or key", async () => {
    const link = await linkTo(service, key.apiKey, "m");
    await expectFile(link);
    const log = service.logLines.join("");
    expect(log).toContain("/v1/models/download/m/2.0%2Bb/m-2.0%2Bb?key=[hidden]");
    expect(log).not.toContain(new URL(link).searchParams.get("signature") ?? "?");
    expect(log).not.toContain(key.apiKey);
  });
});
