/** Follows model files from `models add --file` to a client's complete copy, with the executable. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { testBytes } from "../support/hosted.ts";
import { type Installed, type Issued, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

/** The address at which clients reach the service; it differs from the address at which the service listens. */
const PUBLIC_URL = "https://licenses.example.org/claviger";
const BYTES = testBytes(2_345_678);
const SIZE = BYTES.length;
const SHA256 = hash("sha256", BYTES);
const ETAG = `"${SHA256}"`;

describe.skipIf(!isBuilt)("the executable as a host of model files", () => {
  let installed: Installed;
  let key: Issued;
  let source: string;

  beforeAll(async () => {
    installed = install();
    source = join(installed.place.folder, "p300.onnx");
    writeFileSync(source, BYTES);
    await installed.start({ env: { CLAVIGER_PUBLIC_URL: PUBLIC_URL } });
    key = await installed.issue();
    await add({ name: "p300" });
  });
  afterAll(() => installed.remove());

  // biome-ignore lint/suspicious/noExplicitAny: the output of commands has every shape.
  function add(fields: Readonly<Record<string, string>>): Promise<any> {
    const all = {
      ...{ version: "1.0.0", type: "SvcLDA", paradigm: "p300", "n-features": "44", "n-classes": "4" },
      ...{ "requires-license": "free", file: source },
      ...fields,
    };
    const options = Object.entries(all).flatMap(([name, value]) => [`--${name}`, value]);
    return installed.json(["models", "add", ...options], { CLAVIGER_PUBLIC_URL: PUBLIC_URL });
  }

  async function listed(of: Issued, name = "p300") {
    const { body } = await installed.get("/v1/models/list", { "X-API-Key": of.api_key });
    return body.models.find((model: { name: string }) => model.name === name);
  }
  /** Returns the list's link with this machine's address, as an operator's proxy would lead it. */
  const linkOf = async (of: Issued, name?: string): Promise<string> =>
    (await listed(of, name)).download_url.replace(PUBLIC_URL, installed.service.url);
  const load = async (url: string, headers: Record<string, string> = {}, method = "GET") => {
    const response = await fetch(url, { method, headers });
    return { status: response.status, headers: response.headers, bytes: await response.bytes() };
  };

  test("stores a file under its SHA-256, and lists it with its size and a signed link", async () => {
    const model = await listed(key);
    expect(model).toMatchObject({ version: "1.0.0", size_mb: 2.35, checksum: `sha256:${SHA256}` });
    expect(model.download_url).toStartWith(`${PUBLIC_URL}/v1/models/download/p300/1.0.0/p300.onnx?`);
    const stored = Bun.file(join(installed.dataDir, "models", SHA256.slice(0, 2), SHA256));
    expect(Bun.deepEquals(await stored.bytes(), BYTES)).toBe(true);
  });

  test("sends the whole file to a client with the link, and to a client with the key", async () => {
    const link = await linkOf(key);
    for (const got of [
      await load(link),
      await load(link.replace(/\?.*/, ""), { "X-API-Key": key.api_key }),
    ]) {
      expect(got.status).toBe(200);
      expect(hash("sha256", got.bytes)).toBe(SHA256);
      expect(Object.fromEntries(got.headers)).toMatchObject({
        "content-length": String(SIZE),
        "content-disposition": 'attachment; filename="p300.onnx"',
        "accept-ranges": "bytes",
        etag: ETAG,
      });
    }
    const head = await load(link, {}, "HEAD");
    expect([
      head.status,
      head.bytes.length,
      head.headers.get("content-length"),
      head.headers.get("etag"),
    ]).toEqual([200, 0, String(SIZE), ETAG]);
  });

  test("sends ranges, and answers 304 to a client that has the file", async () => {
    const link = await linkOf(key);
    for (const [range, first, end] of [
      ["bytes=1000-1999", 1_000, 2_000],
      ["bytes=-500", SIZE - 500, SIZE],
      ["bytes=2345000-", 2_345_000, SIZE],
    ] as const) {
      const got = await load(link, { Range: range, "If-Range": ETAG });
      expect([got.status, got.headers.get("content-range")]).toEqual([
        206,
        `bytes ${first}-${end - 1}/${SIZE}`,
      ]);
      expect(Bun.deepEquals(got.bytes, BYTES.slice(first, end))).toBe(true);
    }
    const other = await load(link, { Range: "bytes=0-9", "If-Range": '"another"' });
    expect([other.status, other.bytes.length]).toEqual([200, SIZE]);
    const outside = await load(link, { Range: `bytes=${SIZE}-` });
    expect([outside.status, outside.headers.get("content-range")]).toEqual([416, `bytes */${SIZE}`]);
    const known = await load(link, { "If-None-Match": ETAG });
    expect([known.status, known.bytes.length]).toEqual([304, 0]);
  });

  test("lets curl resume a download", async () => {
    const link = await linkOf(key);
    writeFileSync(join(installed.place.folder, "half"), BYTES.slice(0, 1_000_000));
    const { status, err } = await installed.place.shell(`curl -sf -C - -o half '${link}'`);
    expect({ status, err }).toEqual({ status: 0, err: "" });
    const { out } = await installed.place.shell("sha256sum half");
    expect(out).toStartWith(SHA256);
  });

  test("refuses a download for a wrong tier, a wrong customer, or a changed link", async () => {
    const owner = await installed.issue();
    await installed.json(["keys", "tier", owner.id, "commercial"]);
    await add({ name: "custom", "requires-license": "commercial", owner: owner.user_id });
    await installed.expectWithinASecond(owner, { license_type: "commercial" });
    expect((await load(await linkOf(owner, "custom"))).status).toBe(200);
    expect(await listed(key, "custom")).toBeUndefined();
    const path = "/v1/models/download/custom/1.0.0";
    expect(await installed.get(path, { "X-API-Key": key.api_key })).toMatchObject({
      status: 404,
      body: { code: "NOT_FOUND" },
    });
    const link = await linkOf(key);
    const forged = link.replace("p300/1.0.0", "custom/1.0.0");
    expect([(await load(forged)).status, (await load(`${link}0`)).status]).toEqual([401, 401]);
    expect((await load(`${installed.service.url}${path}/../../../secret`)).status).toBe(404);
  });

  test("refuses the links of a revoked key", async () => {
    const mayLoad = await installed.issue();
    const link = await linkOf(mayLoad);
    expect((await load(link)).status).toBe(200);
    await installed.post("/v1/auth/revoke", { api_key: mayLoad.api_key });
    expect((await load(link)).status).toBe(401);
  });

  test("shows no model after an add that was killed", async () => {
    const large = join(installed.place.folder, "large");
    await installed.place.shell(`head -c 400000000 /dev/zero > ${large}`);
    const options = "--version 1 --type SvcLDA --paradigm p300 --n-features 1 --n-classes 2";
    const add = `./claviger models add --name large --file ${large} --requires-license free ${options}`;
    const env = `CLAVIGER_PUBLIC_URL=${PUBLIC_URL}`;
    const line = `${env} timeout -s KILL 0.3 ${add} --data-dir ${installed.dataDir}`;
    expect((await installed.place.shell(line)).status).toBe(137);
    expect(await listed(key, "large")).toBeUndefined();
    expect(await installed.json(["models", "verify"])).toMatchObject({ unnamed: [] });
  });

  test("verifies every file, and reports a changed one", async () => {
    expect((await installed.run(["models", "verify"])).status).toBe(0);
    const stored = join(installed.dataDir, "models", SHA256.slice(0, 2), SHA256);
    await installed.place.shell(`chmod u+w ${stored}; printf x | dd of=${stored} bs=1 conv=notrunc`);
    const { status, out, err } = await installed.run(["models", "verify"]);
    expect(status).toBe(1);
    expect(out + err).toMatch(/p300 .*changed/);
  });
});
