/** The client of buckets against s3rver, a server that others wrote. It checks no secret: see `bucket_test.ts`. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { BucketFailure, createBucket, PART_BYTES } from "../../../src/models/bucket/mod.ts";
import { findFreePort } from "../../support/find_free_port.ts";
import { testBytes } from "../../support/hosted.ts";
import { until } from "../../support/until.ts";
import { useFolder } from "../../support/use_folder.ts";

const PROGRAM = join(import.meta.dir, "../../../node_modules/s3rver/bin/s3rver.js");
const folder = useFolder();
const port = await findFreePort();
const url = `http://127.0.0.1:${port}/models/claviger/files`;
const access = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER", region: "eu-test-1" };
const bucket = createBucket({ url, access });
let server: Bun.Subprocess | undefined;

async function start() {
  const place = ["--directory", folder, "--address", "127.0.0.1", "--port", `${port}`];
  server = Bun.spawn([process.execPath, PROGRAM, ...place, "--silent", "--configure-bucket", "models"], {
    stdout: "ignore",
  });
  await until(async () => (await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined)) !== undefined);
}

async function kill() {
  server?.kill("SIGKILL");
  await server?.exited;
}

beforeAll(start);
afterAll(kill);

const write = (name: string, bytes: Uint8Array) =>
  bucket.write(name, bytes.length, async (first, length) => bytes.subarray(first, first + length));
const read = async (name: string, sizeBytes: number) =>
  Buffer.concat(await Array.fromAsync(bucket.read(name, sizeBytes)));

describe("A bucket of s3rver", () => {
  test.each([1, PART_BYTES, PART_BYTES + 1, 6 * PART_BYTES + 12_345])(
    "gives back an object of %d bytes",
    async (size) => {
      const bytes = testBytes(size);
      await write(`ab/object-${size}`, bytes);
      expect(await bucket.sizeOf(`ab/object-${size}`)).toBe(size);
      expect((await read(`ab/object-${size}`, size)).equals(bytes)).toBe(true);
    },
  );

  test("lists its objects, and forgets one that is removed", async () => {
    await write("cd/kept", testBytes(3));
    await write("cd/removed", testBytes(3));
    await bucket.remove("cd/removed");
    expect(await bucket.sizeOf("cd/removed")).toBeUndefined();
    const names = (await Array.fromAsync(bucket.list())).map(({ name }) => name);
    expect(names).toContain("cd/kept");
    expect(names).not.toContain("cd/removed");
  });

  test("refuses an access key that it does not know", async () => {
    const stranger = createBucket({ url, access: { ...access, accessKeyId: "STRANGER" } });
    const failure = await stranger.write("ef/object", 1, async () => Buffer.alloc(1)).catch((error) => error);
    expect(failure).toBeInstanceOf(BucketFailure);
    expect(failure.message).toContain("it does not know the access key");
  });

  test("has what was written before it was killed, and nothing of an object whose write was cut", async () => {
    const bytes = testBytes(3 * PART_BYTES);
    await write("ab/whole", bytes);
    const cut = bucket.write("ab/cut", bytes.length, async (first, length) => {
      if (first > 0) await kill();
      return bytes.subarray(first, first + length);
    });
    expect(await cut.catch((error) => error)).toBeInstanceOf(BucketFailure);
    await start();
    expect((await read("ab/whole", bytes.length)).equals(bytes)).toBe(true);
    expect(await bucket.sizeOf("ab/cut")).toBeUndefined();
  });
});
