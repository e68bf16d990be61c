/** A client may download a hosted file by a signed link or with a key. */

import { beforeAll, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { parseId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import type { Tier } from "../../src/licensing/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { addHostedModel, linkTo, PUBLIC_URL, startHostingService, testBytes } from "../support/hosted.ts";
import { bringInto, UNKNOWN_KEY, updateLicense } from "../support/keys.ts";
import { addTestModel } from "../support/models.ts";
import { sendRaw } from "../support/raw_http.ts";
import { startTestService } from "../support/service.ts";
import { useHostingService } from "../support/use.ts";

const BYTES = testBytes(1_000);
const OLD_BYTES = testBytes(900, 2);
const DOWNLOADS = "/v1/models/download";
const PATH = `${DOWNLOADS}/m/2.0+b`;

const service = useHostingService();
let key: IssuedKey;
let other: IssuedKey;
let sha256: string;

beforeAll(async () => {
  key = await service.issue({ email: "ada@example.org", tier: "research" });
  other = await service.issue();
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
  await addTestModel(service, { name: "high_elsewhere", requiresLicense: "commercial" });
  for (const version of ["1", "2"])
    await addHostedModel(service, { name: "same", version }, testBytes(60, 10));
  await addHostedModel(service, { name: "same_too", version: "2" }, testBytes(60, 10));
});

const withKey = (apiKey: string) => ({ "X-API-Key": apiKey });
const linkOf = (name: string, of = key) => linkTo(service, of.apiKey, name);
const pathOf = (link: string) => link.slice(service.url.length);

async function expectFile(url: string, bytes = BYTES, headers: Record<string, string> = {}): Promise<void> {
  const response = await fetch(url, { headers });
  expect(response.status).toBe(200);
  expect(hash("sha256", new Uint8Array(await response.arrayBuffer()))).toBe(hash("sha256", bytes));
}

describe("GET /v1/models/list", () => {
  test("gives a hosted model a link of this service, valid for this key and 15 minutes", async () => {
    const { body } = await service.get("/v1/models/list", withKey(key.apiKey));
    const find = (wanted: string) => body.models.find(({ name }: { name: string }) => name === wanted);
    const model = find("m");
    expect(model).toMatchObject({ version: "2.0+b", checksum: `sha256:${sha256}` });
    const url = new URL(model.download_url);
    expect(model.download_url).toStartWith(`${PUBLIC_URL}/v1/models/download/m/2.0%2Bb/m-2.0%2Bb?`);
    expect([...url.searchParams.keys()]).toEqual(["key", "expires", "signer", "signature"]);
    expect(url.searchParams.get("key")).toBe(key.id);
    const leftMs = Number(url.searchParams.get("expires")) * 1_000 - service.clock.now().getTime();
    expect(leftMs).toBeGreaterThan(14 * 60_000);
    expect(leftMs).toBeLessThanOrEqual(15 * 60_000);
    expect(model.download_url).not.toContain(key.apiKey);
    // A file that another server hosts has its registered address.
    expect(find("elsewhere").download_url).toBe("https://models.example/elsewhere");
  });

  test("never makes a link from the Host header", async () => {
    const lies = "Host: evil.example\r\nX-Forwarded-Host: evil.example";
    const request = `GET /v1/models/list HTTP/1.1\r\n${lies}\r\nX-API-Key: ${key.apiKey}\r\n\r\n`;
    const [answer] = await sendRaw(service.url, request);
    expect(answer?.text).toContain(PUBLIC_URL);
    expect(answer?.text).not.toContain("evil.example");
  });

  test("leaves hosted models out if the public URL is not set, and says so once in the log", async () => {
    await using bare = await startTestService({ on: service.testDatabase });
    for (let times = 0; times < 2; times++) {
      const { body } = await bare.get("/v1/models/list", withKey(key.apiKey));
      expect(body).toMatchObject({ models: [{ name: "elsewhere" }], total: 1 });
    }
    const lines = bare.logLines.filter((line) => line.includes("CLAVIGER_PUBLIC_URL"));
    expect(lines).toHaveLength(1);
  });
});

describe("GET /v1/models/download by a link", () => {
  test("sends the file to any client that has the link, without any header", async () => {
    const link = await linkOf("m");
    await expectFile(link);
    // Links had no file name in earlier versions.
    await expectFile(link.replace("/m-2.0%2Bb?", "?"));
  });

  test("refuses a link after 15 minutes", async () => {
    const link = await linkOf("m");
    await service.advance(14 * 60_000);
    await expectFile(link);
    await service.advance(60_000);
    expectRefusal(await service.get(pathOf(link)), 401, "INVALID_LINK");
  });

  const query = (edit: (query: URLSearchParams) => void) => (url: URL) => edit(url.searchParams);
  const at = (path: string) => (url: URL) => {
    url.pathname = `${DOWNLOADS}/${path}`;
  };
  test.each<[what: string, edit: (url: URL) => void, model?: string]>([
    ["a later expiry", query((of) => of.set("expires", String(Number(of.get("expires")) + 1)))],
    ["another key", query((of) => of.set("key", `key_${"0".repeat(32)}`))],
    ["another key that is active", query((of) => of.set("key", other.id))],
    ["another signer", query((of) => of.set("signer", "00000000"))],
    ["another signature", query((of) => of.set("signature", "A".repeat(43)))],
    ["a malformed signature", query((of) => of.set("signature", "x"))],
    ["a malformed key", query((of) => of.set("key", "key_1"))],
    ["a malformed expiry", query((of) => of.set("expires", "tomorrow"))],
    ["no signature", query((of) => of.delete("signature"))],
    ["no expiry", query((of) => of.delete("expires"))],
    ["no key", query((of) => of.delete("key"))],
    ["no signer", query((of) => of.delete("signer"))],
    ["two expiries", query((of) => of.append("expires", "9999999999"))],
    ["two signatures", query((of) => of.append("signature", "A".repeat(43)))],
    ["another file name", at("m/2.0%2Bb/evil.exe")],
    ["another version", at("m/1.0")],
    ["an unknown version", at("m/9")],
    ["another model", at("other/1.0.0")],
    ["an unknown model", at("nothing/1.0.0")],
    ["a model whose file is elsewhere", at("elsewhere/1.0.0")],
    ["another version of the same bytes", at("same/1"), "same"],
    ["another model of the same bytes", at("same_too/2"), "same"],
  ])("refuses a link with %s", async (_, edit, model = "m") => {
    const url = new URL(await linkOf(model));
    edit(url);
    const answer = await service.get(pathOf(url.href));
    expectRefusal(answer, 401, "INVALID_LINK");
    expect(answer.body.error).toContain("list the models again");
  });

  test("refuses a link when the version has another file than the signed one", async () => {
    await using changed = await startHostingService();
    const { apiKey } = await changed.issue();
    await addHostedModel(changed, { name: "m" }, testBytes(10, 6));
    const link = await linkTo(changed, apiKey, "m");
    const file = await addHostedModel(changed, { name: "n" }, testBytes(10, 7));
    await changed.database.query(
      (sql) => sql`update model_versions v set file = ${file}, checksum = ${file}
                     from models m where m.id = v.model_id and m.name = 'm'`,
    );
    expectRefusal(await changed.get(link.slice(changed.url.length)), 401, "INVALID_LINK");
  });

  test("refuses a link that a service with another secret signed", async () => {
    const foreign = await linkOf("m");
    const text = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
    await using other = await startHostingService({ config: { secret: { text, source: "a test" } } });
    await addHostedModel(other, { name: "m", version: "2.0+b" }, BYTES);
    expectRefusal(await other.get(pathOf(foreign)), 401, "INVALID_LINK");
  });

  test("refuses a link and all its ranges at once after its key was revoked over HTTP", async () => {
    const doomed = await service.issue();
    const link = await linkOf("m", doomed);
    await expectFile(link);
    const { status } = await service.post("/v1/auth/revoke", { api_key: doomed.apiKey });
    expect(status).toBe(200);
    for (const headers of [{}, { Range: "bytes=0-9" }]) {
      expectRefusal(await service.get(pathOf(link), headers), 401, "INVALID_KEY");
    }
  });

  test("refuses a link within a second after a command revoked its key, in every process", async () => {
    const doomed = await service.issue();
    const path = pathOf(await linkOf("m", doomed));
    const { dataDir } = service;
    await using second = await startTestService({
      on: service.testDatabase,
      config: { dataDir, publicUrl: PUBLIC_URL },
    });
    for (const each of [second, service]) await expectFile(each.url + path);
    await bringInto(service, doomed, "revoked");
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
    for (const each of [second, service]) expectRefusal(await each.get(path), 401, "INVALID_KEY");
  });

  test("refuses a link when the key's tier has become too low", async () => {
    const lowered = await service.issue({ tier: "commercial" });
    const link = await linkOf("high", lowered);
    await expectFile(link, testBytes(20, 4));
    await updateLicense(service, lowered, { tier: "free" });
    await service.service.directory.beat();
    expectRefusal(await service.get(pathOf(link)), 403, "LICENSE_REQUIRED");
  });
});

test.each([
  ["revoked", "INVALID_KEY"],
  ["suspended", "INVALID_KEY"],
  ["expired", "KEY_EXPIRED"],
] as const)("GET /v1/models/download refuses a key that is %s, and its link", async (state, code) => {
  const held = await service.issue();
  const link = await linkOf("m", held);
  await bringInto(service, held, state);
  await service.service.directory.beat();
  expectRefusal(await service.get(PATH, withKey(held.apiKey)), 401, code);
  expectRefusal(await service.get(pathOf(link)), 401, code);
});

describe("GET /v1/models/download with a key", () => {
  test("sends the file of the listed version and of an older one", async () => {
    await expectFile(service.url + PATH, BYTES, withKey(key.apiKey));
    await expectFile(`${service.url}${DOWNLOADS}/m/2.0%2Bb`, BYTES, withKey(key.apiKey));
    await expectFile(`${service.url}${DOWNLOADS}/m/1.0`, OLD_BYTES, withKey(key.apiKey));
  });

  test.each([
    ["speller.onnx", 'filename="speller.onnx"'],
    ["P300 (v2).onnx", 'filename="P300 (v2).onnx"'],
    ['a"b.onnx', `filename="a_b.onnx"; filename*=UTF-8''a%22b.onnx`],
    ["50%.onnx", `filename="50_.onnx"; filename*=UTF-8''50%25.onnx`],
    ["größe'*😀.onnx", `filename="gr__e'*_.onnx"; filename*=UTF-8''gr%C3%B6%C3%9Fe%27%2A%F0%9F%98%80.onnx`],
  ])("sends %s with its own name, and ends the link with that name", async (fileName, disposition) => {
    const name = `named_${hash("sha256", fileName).slice(0, 8)}`;
    await addHostedModel(service, { name, fileName }, testBytes(70, 20));
    const link = await linkOf(name);
    const { pathname } = new URL(link);
    expect(decodeURIComponent(pathname.slice(pathname.lastIndexOf("/") + 1))).toBe(fileName);
    for (const [url, headers] of [
      [link, {}],
      [`${service.url}${DOWNLOADS}/${name}/1.0.0`, withKey(key.apiKey)],
      [service.url + pathname, withKey(key.apiKey)],
    ] as const) {
      const response = await fetch(url, { headers });
      expect(response.headers.get("content-disposition")).toBe(`attachment; ${disposition}`);
      expect(Buffer.from(testBytes(70, 20)).equals(await response.bytes())).toBe(true);
    }
  });

  test("uses the key and ignores the link if a request has both", async () => {
    const link = await linkOf("m");
    await expectFile(link.replace(/signature=.*/, "signature=x"), BYTES, withKey(key.apiKey));
    expectRefusal(await service.get(pathOf(link), withKey(UNKNOWN_KEY)), 401, "INVALID_KEY");
  });

  test("refuses a request without a valid key or link", async () => {
    expectRefusal(await service.get(PATH), 400, "MISSING_KEY");
    expectRefusal(await service.get(PATH, withKey("")), 400, "MISSING_KEY");
    expectRefusal(await service.get(PATH, withKey("svc_live_1")), 400, "INVALID_FORMAT");
    expectRefusal(await service.get(PATH, withKey(UNKNOWN_KEY)), 401, "INVALID_KEY");
  });

  const ELSEWHERE = "The file is hosted elsewhere: use the download_url of the model list";
  const TOO_LOW = "The model requires the tier commercial or a higher one";
  const NO_MODEL = "There is no such model and version";
  test.each<[Tier, model: string, status: number, refusal: object | undefined]>([
    ["free", "high", 403, { error: TOO_LOW, code: "LICENSE_REQUIRED" }],
    ["research", "high", 403, { error: TOO_LOW, code: "LICENSE_REQUIRED" }],
    ["commercial", "high", 200, undefined],
    ["enterprise", "high", 200, undefined],
    ["research", "high_elsewhere", 403, { error: TOO_LOW, code: "LICENSE_REQUIRED" }],
    ["commercial", "high_elsewhere", 404, { error: ELSEWHERE, code: "NOT_FOUND" }],
    // Another customer's model gets the same answer as an unknown one.
    ["enterprise", "none", 404, { error: NO_MODEL, code: "NOT_FOUND" }],
    ["enterprise", "custom", 404, { error: NO_MODEL, code: "NOT_FOUND" }],
    ["free", "custom", 404, { error: NO_MODEL, code: "NOT_FOUND" }],
  ])("answers a %s key for the model %s with %d", async (tier, model, status, refusal) => {
    const { apiKey } = await service.issue({ tier });
    const response = await fetch(`${service.url}${DOWNLOADS}/${model}/1.0.0`, { headers: withKey(apiKey) });
    expect(response.status).toBe(status);
    if (refusal !== undefined) expect(await response.json()).toEqual(refusal);
  });

  test("sends a custom model to its owner's keys", async () => {
    const { apiKey } = await service.issue({ email: "owner@example.org", tier: "commercial" });
    await expectFile(`${service.url}${DOWNLOADS}/custom/1.0.0`, testBytes(30, 5), withKey(apiKey));
  });

  for (const path of [
    ...["", "/", "/m", "/m/", "/m/2.0+b/", "/m/2.0+b/x", "//2.0+b"],
    ...["/nothing/1.0.0", "/m/9.9", "/elsewhere/1.0.0", "/M/2.0+b", "/m/2.0%20b"],
    ...["/m%2F..%2F..%2Fsecret/1", "/..%2f..%2fsecret/1", "/m/..%2Fsecret", "/%2e%2e%2f/x", "/%252e%252e/x"],
    ...["/m%00/1.0", "/m/1.0%00", "/m/%ff", "/m/%", "/m/%E0%80%80"],
    ...[`/${"a".repeat(5_000)}/1`, `/m/${"1".repeat(5_000)}`],
  ]) {
    test(`answers NOT_FOUND at ${DOWNLOADS}${path.slice(0, 40)}`, async () => {
      const answer = await service.get(DOWNLOADS + path, withKey(key.apiKey));
      expectRefusal(answer, 404, "NOT_FOUND");
    });
  }

  test("answers NOT_FOUND to targets with .. that only a raw socket can send", async () => {
    for (const path of [
      "../../secret",
      "%2e%2e/%2e%2e/secret",
      "..\\..\\secret",
      "m/../../../../etc/passwd",
    ]) {
      const request = `GET ${DOWNLOADS}/${path} HTTP/1.1\r\nHost: h\r\nX-API-Key: ${key.apiKey}\r\n\r\n`;
      const [answer] = await sendRaw(service.url, request);
      expect(answer?.status).toBe(404);
      expect(answer?.text).toContain('"NOT_FOUND"');
    }
  });

  test("sends an unlisted model, such as a removed one, by its name and version", async () => {
    await addHostedModel(service, { name: "gone" }, testBytes(40, 8));
    await service.database.query((sql) => sql`update models set listed_version = null where name = 'gone'`);
    await expectFile(`${service.url}${DOWNLOADS}/gone/1.0.0`, testBytes(40, 8), withKey(key.apiKey));
  });

  test("finds a version as soon as it is added, even after a request for it was refused", async () => {
    const path = `${DOWNLOADS}/late/1.0.0`;
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
    const link = await linkOf("m");
    await expectFile(link);
    const log = service.logLines.join("");
    expect(log).toContain("/v1/models/download/m/2.0%2Bb/m-2.0%2Bb?key=[hidden]");
    expect(log).not.toContain(new URL(link).searchParams.get("signature") ?? "?");
    expect(log).not.toContain(key.apiKey);
  });
});
