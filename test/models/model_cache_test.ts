/** Downloads of files in a bucket: fetched once, kept within a bound, and while the bucket fails in every way. */
import { beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hash } from "node:crypto";
import { mkdirSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { HOUR_MS } from "../../src/base/calendar.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { deleteMark, fetchingPathOf, holdPathOf, writeMark } from "../../src/models/_hold_marks.ts";
import { openBucket } from "../../src/models/bucket/mod.ts";
import { makeRoom } from "../../src/models/cache_room.ts";
import { pathOfFile } from "../../src/models/file_store.ts";
import { type StoredFile, storeBytes } from "../../src/models/mod.ts";
import { objectOf } from "../support/bucket_stand_in.ts";
import { testBytes } from "../support/hosted.ts";
import { addTestModel } from "../support/models.ts";
import { ON_NODE } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { type BucketStage, startBucketStage } from "./bucket_kit.ts";

setDefaultTimeout(30_000);

const readsOf = ({ server }: BucketStage, sha256: string) =>
  server.requests.filter((line) => line === `GET /models/${objectOf(sha256)}`).length;

/** The models of a stage, and the folder that keeps some of their files. */
function cacheOf(stage: BucketStage) {
  let models = 0;
  return {
    /** Adds a model on another host. Each has other bytes. */
    async add(sizeBytes: number) {
      const name = `m${++models}`;
      return { name, sha256: await stage.addElsewhere(name, testBytes(sizeBytes, models)) };
    },
    async load({ name }: { readonly name: string }) {
      const answer = await stage.download(name);
      await answer.arrayBuffer();
      return answer.status;
    },
    /** Makes a file look as if it was used last so many seconds ago. */
    age({ sha256 }: { readonly sha256: string }, seconds: number) {
      const at = new Date(Date.now() - seconds * 1_000);
      utimesSync(stage.pathOf(sha256), at, at);
    },
    has: (files: readonly { readonly sha256: string }[]) => files.map(({ sha256 }) => stage.isCached(sha256)),
    refusalOf: ({ sha256 }: { readonly sha256: string }) =>
      stage.service.logLines.find((line) => line.includes(sha256)),
  };
}

describe("GET /v1/models/download of a file in the bucket", () => {
  // A cache larger than any disk.
  const stage = useForAll(() => startBucketStage({ modelsCacheBytes: 1e16 }));

  test("fetches a file that another host added once for all who wait, byte for byte", async () => {
    const sha256 = await stage.addElsewhere("large", testBytes(6_000_000));
    const before = readsOf(stage, sha256);
    const answers = await Promise.all(Array.from({ length: 8 }, () => stage.download("large")));
    for (const answer of answers) {
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-length")).toBe("6000000");
      expect(answer.headers.get("etag")).toBe(`"${sha256}"`);
      expect(hash("sha256", new Uint8Array(await answer.arrayBuffer()))).toBe(sha256);
    }
    // Two ranges of one fetch.
    expect(readsOf(stage, sha256) - before).toBe(2);
  });

  test("sends a fetched file from the folder, also a range of it, while nothing of the bucket can be reached", async () => {
    const bytes = testBytes(5_000, 4);
    await stage.addElsewhere("fetched", bytes);
    await (await stage.download("fetched")).arrayBuffer();
    await stage.server.goAway();
    try {
      const whole = await stage.download("fetched");
      expect(whole.status).toBe(200);
      expect((await whole.arrayBuffer()).byteLength).toBe(bytes.length);
      const part = await stage.download("fetched", { Range: "bytes=4500-4509" });
      expect(part.status).toBe(206);
      expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(4_500, 4_510))).toBe(true);
    } finally {
      await stage.server.comeBack();
    }
  });

  test.each([
    ["has other bytes", (sha256: string) => stage.server.objects.get(objectOf(sha256))?.bytes.fill(0)],
    ["has no such file", (sha256: string) => stage.server.objects.delete(objectOf(sha256))],
    [
      "has a part of it",
      (sha256: string) => {
        const object = stage.server.objects.get(objectOf(sha256));
        if (object !== undefined) object.bytes = object.bytes.subarray(0, 10);
      },
    ],
  ])("answers 503 and keeps nothing when the bucket %s", async (what, spoil) => {
    const name = what.replaceAll(" ", "_");
    const sha256 = await stage.addElsewhere(name, testBytes(5_000, 100 + what.length));
    spoil(sha256);
    const answer = await stage.download(name);
    expect(answer.status).toBe(503);
    expect(answer.headers.has("retry-after")).toBe(true);
    expect(stage.isCached(sha256)).toBe(false);
    expect(stage.service.logLines.join("")).toContain(sha256);
  });

  test("counts a damaged copy in the folder as missing, if its size is wrong, and fetches the file again", async () => {
    const sha256 = await stage.addElsewhere("shortened", testBytes(6_000, 5));
    await (await stage.download("shortened")).arrayBuffer();
    writeFileSync(stage.pathOf(sha256), "short");
    const answer = await stage.download("shortened");
    expect(hash("sha256", new Uint8Array(await answer.arrayBuffer()))).toBe(sha256);
  });

  test("does not fetch a file for which the disk has no room", async () => {
    const sha256 = "ab".repeat(32);
    await addTestModel(stage.service, {
      name: "vast",
      version: "1.0",
      downloadUrl: null,
      checksum: sha256,
      hostedBytes: 8e15,
    });
    // With a license of its own: one that still reads the files of other tests may hold no more.
    const { apiKey } = await stage.service.issue({ tier: "enterprise" });
    expect((await stage.download("vast", { "X-API-Key": apiKey })).status).toBe(503);
    // Another fetch may look for room first.
    await until(() => stage.service.logLines.join("").includes("has no room for it"));
    expect(stage.server.requests.filter((each) => each.includes(sha256))).toEqual([]);
  });

  test("does not remove a file that takes hours to reach the bucket as an unfinished one", async () => {
    const { dataDir } = stage.service;
    const folder = join(dataDir, "models");
    const bytes = testBytes(6_000_000, 6);
    const long = new Date(Date.now() - 2 * HOUR_MS);
    let steps = 0;
    const age = () => {
      const name = readdirSync(folder).find((each) => each.startsWith("unfinished-")) ?? "";
      // The next step comes two hours later.
      if (++steps > 2) expect(statSync(join(folder, name)).mtimeMs).toBeGreaterThan(Date.now() - HOUR_MS);
      utimesSync(join(folder, name), long, long);
    };
    const options = { now: new Date(), sizeBytes: bytes.length, onProgress: age };
    await storeBytes({ dataDir, modelsBucket: stage.bucket }, Readable.from([bytes]), options);
    expect(steps).toBeGreaterThan(4);
  });

  // At once, because they wait for seconds. All but the first have a bucket of their own.
  describe.concurrent("that waits", () => {
    test("tells the first client to come again when the bucket is slow, and has the file a little later", async () => {
      const sha256 = await stage.addElsewhere("slow", testBytes(6_000_000, 7));
      const before = readsOf(stage, sha256);
      stage.server.delayMs = 3_400;
      const began = performance.now();
      const first = await stage.download("slow");
      expect(performance.now() - began).toBeLessThan(5_000);
      expect(first.status).toBe(503);
      expect(Number(first.headers.get("retry-after"))).toBeGreaterThan(0);
      stage.server.delayMs = 0;
      await until(async () => (await stage.download("slow")).status === 200);
      // Two ranges of one fetch.
      expect(readsOf(stage, sha256) - before).toBe(2);
    });

    test.each([
      ["gone", "nothing listens there"],
      ["cut", "it closed the connection"],
      ["failing", "it answered 500 InternalError"],
    ] as const)(
      "answers 503 within the bound and keeps nothing while the bucket is %s, and serves when it is back",
      async (fault, why) => {
        await using own = await startBucketStage();
        const { server, service } = own;
        const sha256 = await own.addElsewhere("m", testBytes(5_000));
        if (fault === "gone") await server.goAway();
        else server.fault = fault;
        const began = performance.now();
        const answers = await Promise.all(Array.from({ length: 20 }, () => own.download("m")));
        expect(performance.now() - began).toBeLessThan(5_000);
        for (const answer of answers) {
          expect(answer.status).toBe(503);
          expect(answer.headers.has("retry-after")).toBe(true);
          expect(await answer.json()).toMatchObject({ code: "SERVICE_UNAVAILABLE" });
        }
        const line = await until(() => service.logLines.find((each) => each.includes(sha256)));
        expect(line).toContain(why);
        expect(own.isCached(sha256)).toBe(false);
        if (fault === "gone") await server.comeBack();
        server.fault = "none";
        await until(async () => (await own.download("m")).status === 200);
        expect(own.isCached(sha256)).toBe(true);
      },
    );

    test.skipIf(ON_NODE)("never loses a file that is being read", async () => {
      // Larger than what the system keeps of an answer that nobody reads.
      const sizeBytes = 10_000_000;
      await using own = await startBucketStage({ modelsCacheBytes: 2.5 * sizeBytes });
      const { add, load, age, has, refusalOf } = cacheOf(own);
      const [one, two, three] = [await add(sizeBytes), await add(sizeBytes), await add(sizeBytes)];
      expect([await load(one), await load(two)]).toEqual([200, 200]);
      /** Lets a customer read a part of a file and wait. */
      const read = async ({ name }: typeof one) => {
        const { apiKey } = await own.service.issue({ tier: "enterprise" });
        const { hostname, port } = new URL(own.service.url);
        const socket = connect(Number(port), hostname);
        socket.on("error", () => {});
        socket.write(
          `GET /v1/models/download/${name}/1.0 HTTP/1.1\r\nHost: h\r\nX-API-Key: ${apiKey}\r\n\r\n`,
        );
        await new Promise((resolve) => socket.once("data", resolve));
        return socket.pause();
      };
      const readers = [await read(one), await read(two)];
      age(one, 1_000);
      age(two, 100);
      expect(await load(three)).toBe(503);
      expect(refusalOf(three)).toContain("has no room for it beside the files that are being read");
      readers[1]?.destroy();
      await until(async () => (await load(three)) === 200);
      expect(has([one, two])).toEqual([true, false]);
      readers[0]?.destroy();
    });
  });
});

// On Node the service gets its bound in whole gigabytes.
describe.skipIf(ON_NODE)("the cache of a bucket", () => {
  const stage = useForAll(() => startBucketStage({ modelsCacheBytes: 2_500_000 }));
  const { add, load, age, has, refusalOf } = cacheOf(stage);
  const addThree = async () => [await add(1_000_000), await add(1_000_000), await add(1_000_000)] as const;

  beforeEach(() => rmSync(join(stage.service.dataDir, "models"), { recursive: true, force: true }));

  test("loses what was used least recently when it is full", async () => {
    const [one, two, three] = await addThree();
    expect([await load(one), await load(two)]).toEqual([200, 200]);
    age(one, 100);
    age(two, 200);
    expect(await load(three)).toBe(200);
    expect(has([one, two, three])).toEqual([true, false, true]);
    age(one, 100);
    expect(await load(two)).toBe(200);
    expect(has([one, two, three])).toEqual([false, true, true]);
  });

  test("never loses a file that the bucket does not have", async () => {
    const [one, two, three] = await addThree();
    expect([await load(one), await load(two)]).toEqual([200, 200]);
    age(one, 200);
    age(two, 100);
    stage.server.objects.delete(objectOf(one.sha256));
    expect(await load(three)).toBe(200);
    expect(has([one, two, three])).toEqual([true, false, true]);
  });

  test("refuses a file that is larger than the cache, and keeps its other files", async () => {
    const one = await add(1_000_000);
    const huge = await add(2_600_000);
    expect(await load(one)).toBe(200);
    age(one, 100);
    expect(await load(huge)).toBe(503);
    expect(refusalOf(huge)).toContain("raise CLAVIGER_MODELS_CACHE_GB");
    expect(has([one])).toEqual([true]);
  });

  test("stays within its bound when files are only added on this host", async () => {
    const { dataDir } = stage.service;
    const place = { dataDir, modelsBucket: stage.bucket, modelsCacheBytes: 2_500_000 };
    const files: StoredFile[] = [];
    for (const seed of [101, 102, 103]) {
      const options = { now: new Date(), sizeBytes: 1_000_000, onProgress() {} };
      const stored = await storeBytes(place, Readable.from([testBytes(1_000_000, seed)]), options);
      if (isRefusal(stored)) throw new Error(stored.sentence);
      files.push(stored);
      age(stored, 200 - seed);
    }
    expect(has(files)).toEqual([false, true, true]);
  });

  test("has no room beside a fetch that ends while it looks for room", async () => {
    const { dataDir } = stage.service;
    const folder = join(dataDir, "models");
    const fetched = { sha256: hash("sha256", testBytes(1_000_000, 104)), sizeBytes: 1_000_000 };
    const fetching = fetchingPathOf(folder, "holder");
    const path = pathOfFile(folder, fetched.sha256);
    writeMark(fetching, String(fetched.sizeBytes));
    writeMark(holdPathOf(folder, { holder: "holder", file: fetched, process: "01" }));
    let reads = 0;
    const place = {
      dataDir,
      modelsBucket: stage.bucket,
      // Read before the files are listed, and again afterwards.
      get modelsCacheBytes() {
        if (++reads === 1) return 1_500_000;
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, testBytes(fetched.sizeBytes, 104));
        deleteMark(fetching);
        return 1_500_000;
      },
    };
    expect(await makeRoom(openBucket(stage.bucket), place, 1_000_000)).toContain("has no room for it");
    expect(has([fetched])).toEqual([true]);
  });

  test("stays within its bound when many files are fetched at once", async () => {
    const files = [...(await addThree()), ...(await addThree())];
    stage.server.delayMs = 50;
    const asked = files.map(async ({ name }) => {
      const { apiKey } = await stage.service.issue({ tier: "free" });
      const answer = await stage.download(name, { "X-API-Key": apiKey, Range: "bytes=0-9" });
      return answer.status;
    });
    const statuses = await Promise.all(asked);
    stage.server.delayMs = 0;
    expect(statuses.filter((status) => status === 206)).toHaveLength(2);
    expect(statuses.filter((status) => status === 503)).toHaveLength(4);
    expect(has(files).filter(Boolean)).toHaveLength(2);
  });

  test("finds its files again after it was emptied by hand", async () => {
    const one = await add(1_000_000);
    expect(await load(one)).toBe(200);
    rmSync(join(stage.service.dataDir, "models"), { recursive: true });
    expect(await load(one)).toBe(200);
  });
});
