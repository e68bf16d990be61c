/** The client of buckets against a server that checks signatures, and that fails in every way. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Bucket,
  BucketFailure,
  createBucket,
  openBucket,
  PART_BYTES,
} from "../../../src/models/bucket/mod.ts";
import {
  ACCESS_KEY_ID,
  type BucketStandIn,
  REGION,
  SECRET_ACCESS_KEY,
  startBucketStandIn,
} from "../../support/bucket_stand_in.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { testBytes } from "../../support/hosted.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder();
const access = { accessKeyId: ACCESS_KEY_ID, secretAccessKey: SECRET_ACCESS_KEY, region: REGION };
let server: BucketStandIn;
let bucket: Bucket;

beforeEach(async () => {
  server = await startBucketStandIn({ pageSize: 3 });
  bucket = createBucket({ url: server.url, access });
});
afterEach(() => server.close());

const write = (name: string, bytes: Uint8Array) =>
  bucket.write(name, bytes.length, async (first, length) => bytes.subarray(first, first + length));
const read = async (name: string, sizeBytes: number) =>
  Buffer.concat(await Array.fromAsync(bucket.read(name, sizeBytes)));
const listOf = (one: Bucket) => Array.fromAsync(one.list());
async function failureOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(BucketFailure);
  return (error as BucketFailure).message.replace(/^the bucket http[^ ]+: /, "");
}

describe("createBucket()", () => {
  test.each([0, 1, 5_000, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 12_345])(
    "writes and reads an object of %d bytes",
    async (size) => {
      const bytes = testBytes(size);
      await write("ab/object", bytes);
      expect(await bucket.sizeOf("ab/object")).toBe(size);
      expect((await read("ab/object", size)).equals(bytes)).toBe(true);
      expect(server.uploads.size).toBe(0);
    },
  );

  test("lists all objects below the prefix over several pages, and removes one", async () => {
    server.objects.set("claviger/other", { bytes: Buffer.alloc(1), changedAt: new Date() });
    const names = Array.from({ length: 8 }, (_, at) => `ab/object-${at}`);
    for (const name of names) await write(name, testBytes(10));
    const listed = await Array.fromAsync(bucket.list());
    expect(listed.map(({ name }) => name)).toEqual(names);
    expect(listed[0]).toMatchObject({ sizeBytes: 10, changedAt: expect.any(Date) });
    await bucket.remove("ab/object-3");
    await bucket.remove("ab/object-3");
    expect(await bucket.sizeOf("ab/object-3")).toBeUndefined();
  });

  test("says that there is no such object, or that it is too short", async () => {
    expect(await bucket.sizeOf("ab/none")).toBeUndefined();
    expect(await failureOf(read("ab/none", 5))).toBe("its object ab/none is missing");
    await write("ab/short", testBytes(4));
    for (const size of [5, PART_BYTES + 5])
      expect(await failureOf(read("ab/short", size))).toBe("its object ab/short is cut short");
    await write("ab/part", testBytes(PART_BYTES));
    expect(await failureOf(read("ab/part", PART_BYTES + 5))).toBe("its object is cut short");
  });

  test("refuses a list without an end", async () => {
    let pages = 0;
    const answer = () =>
      new Response(
        `<IsTruncated>true</IsTruncated><NextContinuationToken>${++pages}</NextContinuationToken>`,
      );
    await using hostile = Bun.serve({ port: 0, fetch: answer });
    const other = createBucket({ url: `http://127.0.0.1:${hostile.port}/models`, access });
    expect(await failureOf(listOf(other))).toBe("its list of objects does not end");
    expect(pages).toBeLessThan(1_100);
  });

  test("reads a list of broken entries, and an error of megabytes, in a moment", async () => {
    let status = 200;
    const bodies = { 200: "<Contents>".repeat(50_000), 400: `<Code>${"A".repeat(1_000_000)}</Code>` };
    await using hostile = Bun.serve({
      port: 0,
      fetch: () => new Response(bodies[status as 200 | 400], { status }),
    });
    const other = createBucket({ url: `http://127.0.0.1:${hostile.port}/models`, access });
    const began = performance.now();
    await listOf(other);
    // It takes some ms: the rest of the text is not searched again for each entry.
    expect(performance.now() - began).toBeLessThan(5_000);
    status = 400;
    expect(await failureOf(listOf(other))).toBe("it answered 400");
  });

  test.each(["none", "silent"] as const)(
    "ends an upload with the reason of its signal and cleans up, for a short time, while the fault of the server is %s",
    async (fault) => {
      const stopping = new AbortController();
      const stopped = new Error("stopped");
      const other = createBucket({ url: server.url, access, signal: stopping.signal });
      const work = other.write("ab/object", PART_BYTES + 5, async (first, length) => {
        if (first > 0) {
          server.fault = fault;
          server.delayMs = 50;
          setTimeout(() => stopping.abort(stopped), 20);
        }
        return testBytes(length);
      });
      const began = performance.now();
      expect(await work.catch((error: unknown) => error)).toBe(stopped);
      expect(performance.now() - began).toBeLessThan(10_000);
      expect(server.requests.at(-1)).toStartWith("DELETE");
      expect([server.objects.size, server.uploads.size]).toEqual([0, fault === "none" ? 0 : 1]);
    },
  );

  test.each(["failing", "throttling"] as const)(
    "sends requests again, while the server is %s for a moment",
    async (fault) => {
      const failForAMoment = () => {
        server.fault = fault;
        setTimeout(() => {
          server.fault = "none";
        }, 100);
      };
      failForAMoment();
      await write("ab/object", testBytes(10));
      failForAMoment();
      expect(await bucket.sizeOf("ab/object")).toBe(10);
      const bytes = testBytes(PART_BYTES + 1);
      await bucket.write("ab/parts", bytes.length, async (first, length) => {
        failForAMoment();
        return bytes.subarray(first, first + length);
      });
      failForAMoment();
      expect((await read("ab/parts", bytes.length)).equals(bytes)).toBe(true);
      failForAMoment();
      expect((await listOf(bucket)).map(({ name }) => name)).toEqual(["ab/object", "ab/parts"]);
    },
  );

  test.each([
    ["does not answer", "silent", "it does not answer in time"],
    ["fails", "failing", "it answered 500 InternalError"],
    ["has too many requests", "throttling", "it answered 429 TooManyRequests"],
    ["closes the connection", "cut", "it closed the connection"],
  ] as const)("says that the server %s, within a bounded time", async (_what, fault, message) => {
    await write("ab/object", testBytes(1_000));
    server.fault = fault;
    // What fails at once needs no short limit, which a busy machine exceeds.
    const limitMs = fault === "silent" ? 300 : undefined;
    const other = createBucket({ url: server.url, access, limitMs });
    expect(await failureOf(Array.fromAsync(other.read("ab/object", 1_000)))).toBe(message);
  });

  test("says that the server is full, without trying again", async () => {
    server.fault = "full";
    expect(await failureOf(write("ab/object", testBytes(10)))).toBe(
      "it is full; raise its quota, or free some space",
    );
    expect(server.requests).toHaveLength(1);
  });

  test("says that nothing listens", async () => {
    await server.goAway();
    expect(await failureOf(bucket.sizeOf("a"))).toBe("nothing listens there");
  });

  test.each([
    [{ accessKeyId: "other" }, "it does not know the access key; check the file of the credentials"],
    [{ secretAccessKey: "other" }, "the secret key is wrong; check the file of the credentials"],
    [{ region: "other" }, "the region is wrong; check CLAVIGER_MODELS_S3_REGION"],
  ])("says what is wrong with %p", async (wrong, message) => {
    const other = createBucket({ url: server.url, access: { ...access, ...wrong } });
    expect(await failureOf(listOf(other))).toBe(message);
    // The answer to HEAD has no code.
    expect(await failureOf(other.sizeOf("ab/object"))).toBe(message);
  });

  test("says that there is no such bucket", async () => {
    const other = createBucket({ url: server.url.replace("/models/", "/others/"), access });
    const message = "it does not exist; make it, or correct CLAVIGER_MODELS_S3";
    expect(await failureOf(listOf(other))).toBe(message);
    expect(await failureOf(other.sizeOf("ab/object"))).toBe(message);
  });

  test("says that a server without TLS is asked with TLS", async () => {
    const other = createBucket({ url: server.url.replace("http:", "https:"), access });
    expect(await failureOf(listOf(other))).toBe(
      "it does not speak TLS at this port; correct CLAVIGER_MODELS_S3",
    );
  });
});

describe("openBucket()", () => {
  const credentialsFile = join(folder, "credentials");
  writeFileSync(
    credentialsFile,
    `aws_access_key_id=${ACCESS_KEY_ID}\naws_secret_access_key=${SECRET_ACCESS_KEY}\n`,
  );
  const settings = {
    url: "https://s3.example.org/models",
    region: REGION,
    credentialsFile,
    caFile: undefined,
  };
  const refusalOf = (changed: object) => failureOf((async () => openBucket({ ...settings, ...changed }))());

  test("trusts the authority in the given file, and says what to do without it", async () => {
    const { certificate, privateKey, certFile } = makeCertificate(folder, "bucket");
    const secure = await startBucketStandIn({ tls: { cert: certificate, key: privateKey } });
    try {
      const open = (caFile: string | undefined) => openBucket({ ...settings, url: secure.url, caFile });
      expect(await listOf(open(certFile))).toEqual([]);
      expect(await failureOf(listOf(open(undefined)))).toBe(
        "its certificate is not trusted; name its authority in CLAVIGER_MODELS_S3_CA_FILE",
      );
    } finally {
      await secure.close();
    }
  });

  test("refuses files that it cannot use, and shows nothing of them", async () => {
    const wrong = join(folder, "wrong");
    writeFileSync(wrong, "aws_access_key_id=hidden\n");
    expect(openBucket(settings).url).toBe(settings.url);
    expect(await refusalOf({ credentialsFile: undefined })).toBe(
      "CLAVIGER_MODELS_S3_CREDENTIALS_FILE is missing, and there is no systemd credential claviger-models-s3",
    );
    expect(await refusalOf({ credentialsFile: "/nothing" })).toBe("/nothing: there is no such file");
    expect(await refusalOf({ credentialsFile: wrong })).toBe(
      `${wrong} must have a line aws_access_key_id=… and a line aws_secret_access_key=…`,
    );
    expect(await refusalOf({ caFile: wrong })).toBe(`there is no certificate in PEM form in ${wrong}`);
  });
});
