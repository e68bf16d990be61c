/** Two services with folders of their own and one bucket, which dies and comes back. */
import { beforeAll, expect, test } from "bun:test";
import { createHash, hash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { useCommandLine } from "../cli/use_command_line.ts";
import { REGION, startBucketStandIn } from "../support/bucket_stand_in.ts";
import { createExternalDatabase } from "../support/external_database.ts";
import { testBytes } from "../support/hosted.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { addArgs, PUBLIC } from "./model_stage.ts";

const bucket = useForAll(startBucketStandIn);
const database = useForAll(createExternalDatabase);
const one = useCommandLine();
const two = useCommandLine();
const credentials = join(one.folder, "credentials");

const env = () => ({
  ...PUBLIC,
  DATABASE_URL: database.url,
  CLAVIGER_SECRET: TEST_SECRET,
  CLAVIGER_MODELS_S3: bucket.url,
  CLAVIGER_MODELS_S3_REGION: REGION,
  CLAVIGER_MODELS_S3_CREDENTIALS_FILE: credentials,
});

beforeAll(async () => {
  writeFileSync(credentials, bucket.credentials);
  mkdirSync(two.dataDir, { mode: 0o700 });
  expect((await one.here(["migrate"], { env: env() })).status).toBe(0);
});

test("A model that was added on one host arrives on another one byte for byte and can be resumed, while the bucket dies during the fetch and comes back", async () => {
  const size = 30_000_000;
  const bytes = testBytes(size, 6);
  const path = join(one.folder, "travels.onnx");
  writeFileSync(path, bytes);
  await using first = await one.serve([], { env: env() });
  await using second = await two.serve([], { env: env() });
  expect((await one.here(addArgs({ name: "travels", file: path }), { env: env() })).err).toBe("");
  const issued = await one.json(["keys", "issue", "--email", "b@example.org", "--tier", "research"], {
    env: env(),
  });
  const download = (url: string, headers: Readonly<Record<string, string>> = {}) =>
    fetch(`${url}/v1/models/download/travels/1.0.0`, {
      headers: { "X-API-Key": issued.api_key, ...headers },
    });

  const before = bucket.requests.length;
  const reads = () => bucket.requests.slice(before).filter((line) => line.startsWith("GET"));
  bucket.delayMs = 20;
  const early = download(second.url);
  await until(() => reads().length === 2);
  await bucket.goAway();
  bucket.delayMs = 0;
  const refused = await early;
  expect([refused.status, refused.headers.has("retry-after")]).toEqual([503, true]);
  expect((await download(first.url)).status).toBe(200);
  await bucket.comeBack();
  const answer = await until(async () => {
    const again = await download(second.url);
    return again.status === 200 && again;
  });

  await bucket.goAway();
  try {
    const etag = answer.headers.get("etag") ?? "";
    const reader = (answer.body ?? new ReadableStream<Uint8Array>()).getReader();
    const received: Uint8Array[] = [];
    let length = 0;
    while (length < size / 3) {
      const { value = new Uint8Array() } = await reader.read();
      received.push(value);
      length += value.length;
    }
    await reader.cancel();
    const rest = await download(second.url, { Range: `bytes=${length}-`, "If-Range": etag });
    expect(rest.status).toBe(206);
    received.push(new Uint8Array(await rest.arrayBuffer()));
    const sum = createHash("sha256");
    for (const chunk of received) sum.update(chunk);
    expect(etag).toBe(`"${hash("sha256", bytes)}"`);
    expect(`"${sum.digest("hex")}"`).toBe(etag);
  } finally {
    await bucket.comeBack();
  }
});
