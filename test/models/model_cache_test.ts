/** Downloads of files in a bucket: fetched once, kept within a bound, and while the bucket fails in every way. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hash } from "node:crypto";
import { readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { HOUR_MS } from "../../src/calendar.ts";
import { storeBytes } from "../../src/models/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { objectOf } from "../support/bucket_stand_in.ts";
import { testBytes } from "../support/hosted.ts";
import { addTestModel } from "../support/models.ts";
import { ON_NODE } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForAll, useForEach } from "../support/use.ts";
import { startBucketStage } from "./bucket_kit.ts";

setDefaultTimeout(30_000);

const LARGE = testBytes(20_000_000);

describe("GET /v1/models/download of a file in the bucket", () => {
  const stage = useForAll(startBucketStage);
  afterEach(() => {
    stage.server.fault = "none";
    stage.server.delayMs = 0;
  });

  const readsOf = (sha256: string) =>
    stage.server.requests.filter((line) => line === `GET /models/${objectOf(sha256)}`).length;

  test("fetches a file that another host added once for all who wait, byte for byte", async () => {
    const sha256 = await stage.addElsewhere("large", LARGE);
    const before = readsOf(sha256);
    const answers = await Promise.all(Array.from({ length: 8 }, () => stage.download("large")));
    for (const answer of answers) {
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-length")).toBe("20000000");
      expect(answer.headers.get("etag")).toBe(`"${sha256}"`);
      expect(hash("sha256", new Uint8Array(await answer.arrayBuffer()))).toBe(sha256);
    }
    // Four ranges of one fetch.
    expect(readsOf(sha256) - before).toBe(4);
  });

  test("sends a fetched file from the folder, also a range of it, while nothing of the bucket can be reached", async () => {
    const bytes = testBytes(6_000_000, 4);
    await stage.addElsewhere("fetched", bytes);
    await (await stage.download("fetched")).arrayBuffer();
    await stage.server.goAway();
    try {
      const whole = await stage.download("fetched");
      expect(whole.status).toBe(200);
      expect((await whole.arrayBuffer()).byteLength).toBe(bytes.length);
      const part = await stage.download("fetched", { Range: "bytes=5500000-5500009" });
      expect(part.status).toBe(206);
      expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(5_500_000, 5_500_010))).toBe(true);
    } finally {
      await stage.server.comeBack();
    }
  });

  test("tells the first client to come again when the bucket is slow, and has the file a little later", async () => {
    const sha256 = await stage.addElsewhere("slow", testBytes(60_000_000, 2));
    const before = readsOf(sha256);
    // Twelve parts.
    stage.server.delayMs = 350;
    const began = performance.now();
    const first = await stage.download("slow");
    expect(performance.now() - began).toBeLessThan(4_000);
    expect(first.status).toBe(503);
    expect(Number(first.headers.get("retry-after"))).toBeGreaterThan(0);
    stage.server.delayMs = 0;
    await until(async () => (await stage.download("slow")).status === 200);
    expect(readsOf(sha256) - before).toBe(12);
  });

  test("answers 503 within the bound while the bucket is gone, and serves when it is back", async () => {
    const sha256 = await stage.addElsewhere("gone", testBytes(5_000, 3));
    await stage.server.goAway();
    const began = performance.now();
    const answers = await Promise.all(Array.from({ length: 20 }, () => stage.download("gone")));
    expect(performance.now() - began).toBeLessThan(5_000);
    for (const answer of answers) {
      expect(answer.status).toBe(503);
      expect(answer.headers.has("retry-after")).toBe(true);
      expect(await answer.json()).toMatchObject({ code: "SERVICE_UNAVAILABLE" });
    }
    expect(stage.service.logLines.join("")).toContain("nothing listens there");
    await stage.server.comeBack();
    await until(async () => (await stage.download("gone")).status === 200);
    expect(stage.isCached(sha256)).toBe(true);
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
    [
      "closes the connection",
      () => {
        stage.server.fault = "cut";
      },
    ],
    [
      "fails",
      () => {
        stage.server.fault = "failing";
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
    const sha256 = await stage.addElsewhere("shortened", testBytes(6_000_000, 5));
    await (await stage.download("shortened")).arrayBuffer();
    writeFileSync(stage.pathOf(sha256), "short");
    const answer = await stage.download("shortened");
    expect(hash("sha256", new Uint8Array(await answer.arrayBuffer()))).toBe(sha256);
  });
});

test("A file for which the disk has no room is not fetched", async () => {
  await using stage = await startBucketStage({ modelsCacheBytes: 1e16 });
  await addTestModel(stage.service, {
    name: "vast",
    version: "1.0",
    downloadUrl: null,
    checksum: "ab".repeat(32),
    hostedBytes: 8e15,
  });
  expect((await stage.download("vast")).status).toBe(503);
  expect(stage.service.logLines.join("")).toContain("has no room for it");
  expect(stage.server.requests).toEqual([]);
});

test("A file that takes hours to reach the bucket is not removed as an unfinished one meanwhile", async () => {
  await using stage = await startBucketStage();
  const { dataDir } = stage.service;
  const folder = join(dataDir, "models");
  const bytes = testBytes(12_000_000);
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
  expect(steps).toBeGreaterThan(5);
});

// On Node the service gets its bound in whole gigabytes.
describe.skipIf(ON_NODE)("the cache of a bucket", () => {
  const stage = useForEach(() => startBucketStage({ modelsCacheBytes: 25_000_000 }));
  const bytes = (seed: number) => testBytes(10_000_000, seed);
  const load = async (name: string) => {
    const answer = await stage.download(name);
    await answer.arrayBuffer();
    return answer.status;
  };
  /** Makes a file look as if it was used last so many seconds ago. */
  const age = (sha256: string, seconds: number) => {
    const at = new Date(Date.now() - seconds * 1_000);
    utimesSync(stage.pathOf(sha256), at, at);
  };
  const cached = (sums: readonly string[]) => sums.map(stage.isCached);

  test("loses what was used least recently when it is full", async () => {
    const sums: string[] = [];
    for (const seed of [1, 2, 3]) sums.push(await stage.addElsewhere(`m${seed}`, bytes(seed)));
    const [one = "", two = ""] = sums;
    expect([await load("m1"), await load("m2")]).toEqual([200, 200]);
    age(one, 100);
    age(two, 200);
    expect(await load("m3")).toBe(200);
    expect(cached(sums)).toEqual([true, false, true]);
    age(one, 100);
    expect(await load("m2")).toBe(200);
    expect(cached(sums)).toEqual([false, true, true]);
  });

  test("never loses a file that is being read, or was used a moment ago", async () => {
    const one = await stage.addElsewhere("m1", bytes(1));
    const two = await stage.addElsewhere("m2", bytes(2));
    await stage.addElsewhere("m3", bytes(3));
    expect([await load("m1"), await load("m2")]).toEqual([200, 200]);
    // A client that has read a part of the answer and waits.
    const { apiKey } = await stage.service.issue({ tier: "enterprise" });
    const { hostname, port } = new URL(stage.service.url);
    const reading = Promise.withResolvers<void>();
    const socket = connect(Number(port), hostname, () => {
      socket.write(`GET /v1/models/download/m1/1.0 HTTP/1.1\r\nHost: h\r\nX-API-Key: ${apiKey}\r\n\r\n`);
    });
    socket.once("data", () => {
      socket.pause();
      reading.resolve();
    });
    socket.on("error", () => {});
    await reading.promise;
    age(one, 1_000);
    await until(() => statSync(stage.pathOf(one)).mtimeMs > Date.now() - 5_000);
    expect(await load("m3")).toBe(503);
    expect(stage.service.logLines.join("")).toContain(
      "has no room for it beside the files that are being read",
    );
    age(two, 100);
    expect(await load("m3")).toBe(200);
    expect(cached([one, two])).toEqual([true, false]);
    socket.destroy();
  });

  test("never loses a file that the bucket does not have", async () => {
    const sums: string[] = [];
    for (const seed of [1, 2, 3]) sums.push(await stage.addElsewhere(`m${seed}`, bytes(seed)));
    const [one = "", two = ""] = sums;
    expect([await load("m1"), await load("m2")]).toEqual([200, 200]);
    age(one, 200);
    age(two, 100);
    stage.server.objects.delete(objectOf(one));
    expect(await load("m3")).toBe(200);
    expect(cached(sums)).toEqual([true, false, true]);
  });

  test("refuses a file that is larger than the cache, when it is added and when it is asked for", async () => {
    const add = stage.addElsewhere("huge", testBytes(26_000_000));
    await add;
    expect(await load("huge")).toBe(503);
    expect(stage.service.logLines.join("")).toContain("raise CLAVIGER_MODELS_CACHE_GB");
  });

  test("keeps its files when one is asked for that cannot fit", async () => {
    const one = await stage.addElsewhere("m1", bytes(1));
    await stage.addElsewhere("huge", testBytes(26_000_000));
    expect(await load("m1")).toBe(200);
    age(one, 100);
    expect(await load("huge")).toBe(503);
    expect(cached([one])).toEqual([true]);
  });

  test("stays within its bound when files are only added on this host", async () => {
    const { dataDir } = stage.service;
    const place = { dataDir, modelsBucket: stage.bucket, modelsCacheBytes: 25_000_000 };
    const sums: string[] = [];
    for (const seed of [1, 2, 3]) {
      const options = { now: new Date(), sizeBytes: 10_000_000, onProgress() {} };
      const stored = await storeBytes(place, Readable.from([bytes(seed)]), options);
      if (isRefusal(stored)) throw new Error(stored.sentence);
      sums.push(stored.sha256);
      age(stored.sha256, 100 - seed);
    }
    expect(cached(sums)).toEqual([false, true, true]);
  });

  test("stays within its bound when many files are fetched at once", async () => {
    const sums: string[] = [];
    for (let seed = 1; seed <= 6; seed++) sums.push(await stage.addElsewhere(`m${seed}`, bytes(seed)));
    const statuses = await Promise.all(sums.map((_, at) => load(`m${at + 1}`)));
    expect(statuses.filter((status) => status === 200).length).toBe(2);
    expect(statuses.filter((status) => status === 503).length).toBe(4);
    expect(cached(sums).filter(Boolean)).toHaveLength(2);
  });

  test("finds its files again after it was emptied by hand", async () => {
    await stage.addElsewhere("m1", bytes(1));
    expect(await load("m1")).toBe(200);
    rmSync(join(stage.service.dataDir, "models"), { recursive: true });
    expect(await load("m1")).toBe(200);
  });
});
