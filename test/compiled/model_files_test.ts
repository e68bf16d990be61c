/** Follows model files from `models add --file` to a client's complete copy, with the executable. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { testBytes } from "../support/hosted.ts";
import { type Installed, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

/** The address at which clients reach the service; it differs from the address at which the service listens. */
const PUBLIC_URL = "https://licenses.example.org/claviger";
const BYTES = testBytes(2_345_678);
const SIZE = BYTES.length;
const SHA256 = hash("sha256", BYTES);
const SHAPE = "--type SvcLDA --paradigm p300 --n-features 44 --n-classes 4 --requires-license free".split(
  " ",
);

describe.skipIf(!isBuilt)("the executable as a host of model files", () => {
  let installed: Installed;
  let apiKey: string;
  let source: string;

  beforeAll(async () => {
    installed = install();
    source = join(installed.place.folder, "p300.onnx");
    writeFileSync(source, BYTES);
    await installed.start({ env: { CLAVIGER_PUBLIC_URL: PUBLIC_URL } });
    const issue = ["keys", "issue", "--email", "ada@example.org", "--tier", "research"];
    apiKey = (await installed.json(issue)).api_key;
    const options = ["--name", "p300", "--version", "1.0.0", "--file", source, ...SHAPE];
    await installed.json(["models", "add", ...options], { CLAVIGER_PUBLIC_URL: PUBLIC_URL });
  });
  afterAll(() => installed.remove());

  async function listed(name = "p300") {
    const { models } = await installed.get("/v1/models/list", { "X-API-Key": apiKey });
    return models.find((model: { name: string }) => model.name === name);
  }
  /** Returns the list's link with this machine's address, as an operator's proxy would lead it. */
  const link = async (): Promise<string> =>
    (await listed()).download_url.replace(PUBLIC_URL, installed.service.url);

  test("stores a file under its SHA-256, and lists it with its size and a signed link", async () => {
    const model = await listed();
    expect(model).toMatchObject({ version: "1.0.0", size_mb: 2.35, checksum: `sha256:${SHA256}` });
    expect(model.download_url).toStartWith(`${PUBLIC_URL}/v1/models/download/p300/1.0.0/p300.onnx?`);
    const stored = Bun.file(join(installed.dataDir, "models", SHA256.slice(0, 2), SHA256));
    expect(Bun.deepEquals(await stored.bytes(), BYTES)).toBe(true);
  });

  test("sends the whole file to a client with the link, and to a client with the key", async () => {
    const address = await link();
    for (const [url, headers] of [
      [address, {}],
      [address.replace(/\?.*/, ""), { "X-API-Key": apiKey }],
    ] as const) {
      const got = await fetch(url, { headers });
      expect(got.status).toBe(200);
      expect(hash("sha256", await got.bytes())).toBe(SHA256);
      expect(Object.fromEntries(got.headers)).toMatchObject({
        "content-length": String(SIZE),
        "content-disposition": 'attachment; filename="p300.onnx"',
        "accept-ranges": "bytes",
        etag: `"${SHA256}"`,
      });
    }
  });

  test("lets curl resume a download", async () => {
    writeFileSync(join(installed.place.folder, "half"), BYTES.slice(0, 1_000_000));
    const { status, err } = await installed.place.shell(`curl -sf -C - -o half '${await link()}'`);
    expect({ status, err }).toEqual({ status: 0, err: "" });
    const { out } = await installed.place.shell("sha256sum half");
    expect(out).toStartWith(SHA256);
  });

  test("shows no model after an add that was killed", async () => {
    const large = join(installed.place.folder, "large");
    await installed.place.shell(`head -c 400000000 /dev/zero > ${large}`);
    const add = `./claviger models add --name large --version 1 --file ${large} ${SHAPE.join(" ")}`;
    const env = `CLAVIGER_PUBLIC_URL=${PUBLIC_URL}`;
    const line = `${env} timeout -s KILL 0.3 ${add} --data-dir ${installed.dataDir}`;
    expect((await installed.place.shell(line)).status).toBe(137);
    expect(await listed("large")).toBeUndefined();
    expect(await installed.json(["models", "verify"])).toMatchObject({ unnamed: [] });
  });
});
