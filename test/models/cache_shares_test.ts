/** No customer keeps the others from the cache of a bucket: what a license holds in it, and what it may have fetched. */
import { beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { HOUR_MS } from "../../src/base/calendar.ts";
import { systemClock } from "../../src/base/clock.ts";
import { deleteOldMarks, readHeld } from "../../src/models/_hold_marks.ts";
import { createFileHolds, type FetchTurn } from "../../src/models/file_holds.ts";
import { expectRefusal } from "../support/answers.ts";
import { objectOf } from "../support/bucket_stand_in.ts";
import { createTestClock } from "../support/clock.ts";
import { addHostedModel, testBytes } from "../support/hosted.ts";
import { addTestModel } from "../support/models.ts";
import { testFolder } from "../support/postgres.ts";
import { limitsOf, ON_NODE, startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForAll, useHostingService } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { type BucketStage, startBucketStage } from "./bucket_kit.ts";

setDefaultTimeout(30_000);

/** As long as a file that was fetched stays for a client that asks for next to nothing. */
const SILENCE_MS = 15_000;

interface Model {
  readonly name: string;
  readonly sha256: string;
}

interface Wanted {
  readonly apiKey: string;
  readonly model: Model;
  readonly range?: string | undefined;
}

/** Downloads a file or a range of it. Comes again while a busy machine takes more than three seconds for a fetch. */
async function loadFrom({ url }: TestService, { apiKey, model, range }: Wanted) {
  for (;;) {
    const answer = await fetch(`${url}/v1/models/download/${model.name}/1.0`, {
      headers: { "X-API-Key": apiKey, ...(range && { Range: `bytes=${range}` }) },
    });
    const { status, headers } = answer;
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const text = status < 400 ? "" : Buffer.from(bytes).toString();
    if (!text.includes("is being fetched")) return { status, headers, bytes, text };
  }
}

function customersOf(stage: BucketStage) {
  let models = 0;
  return {
    /** Adds a model whose file only the bucket has. */
    async add(sizeBytes: number): Promise<Model> {
      const name = `m${++models}`;
      // Cheap bytes: most tests do not look at them.
      const bytes = Buffer.alloc(sizeBytes, testBytes(64, models));
      const sha256 = hash("sha256", bytes);
      stage.server.objects.set(objectOf(sha256), { bytes, changedAt: new Date() });
      const hosted = { checksum: sha256, hostedBytes: sizeBytes, sizeMb: sizeBytes / 1e6, downloadUrl: null };
      await addTestModel(stage.service, { name, version: "1.0", ...hosted });
      return { name, sha256 };
    },
    /** Makes a customer: a function that loads a model, or a range of it. */
    async customer({ tier = "free" as const, on = stage.service as TestService } = {}) {
      const { apiKey } = await stage.service.issue({ tier });
      const load = (model: Model, range?: string) => loadFrom(on, { apiKey, model, range });
      return {
        apiKey,
        load,
        statusOf: async (model: Model, range?: string) => (await load(model, range)).status,
      };
    },
  };
}

const readsOf = ({ server }: BucketStage, { sha256 }: Model) =>
  server.requests.filter((line) => line === `GET /models/${objectOf(sha256)}`).length;

const heldIn = (dataDir: string) => join(dataDir, "models", ".held");
const marksIn = (dataDir: string) =>
  readdirSync(heldIn(dataDir), { recursive: true, encoding: "utf8" }).filter((path) => path.includes("/"));

/** Makes marks as old as that. */
function age(dataDir: string, kind: string, ms: number): void {
  const at = new Date(Date.now() - ms);
  for (const path of marksIn(dataDir).filter((each) => each.includes(kind)))
    utimesSync(join(heldIn(dataDir), path), at, at);
}

/** Begins a download, and reads only its first bytes. */
async function stall(service: TestService, apiKey: string, model: Model): Promise<Socket> {
  // The file is there then.
  expect((await loadFrom(service, { apiKey, model, range: "0-0" })).status).toBe(206);
  const { name } = model;
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  socket.write(`GET /v1/models/download/${name}/1.0 HTTP/1.1\r\nHost: h\r\nX-API-Key: ${apiKey}\r\n\r\n`);
  const first = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
  socket.pause();
  expect(first.toString("latin1")).toStartWith("HTTP/1.1 200 ");
  return socket;
}

// On Node the service gets its bound in whole gigabytes.
describe.skipIf(ON_NODE)("a cache with room for one file", () => {
  const stage = useForAll(() => startBucketStage({ modelsCacheBytes: 1_500_000 }));
  const { add, customer } = customersOf(stage);
  beforeEach(() => rmSync(join(stage.service.dataDir, "models"), { recursive: true, force: true }));

  test("is not kept by a customer who asks for a byte of one file again and again", async () => {
    const [wanted, kept] = [await add(1_000_000), await add(1_000_000)];
    const [attacker, other] = [await customer(), await customer()];
    expect(await attacker.statusOf(kept, "0-0")).toBe(206);
    // The file stays for a moment, because the client may go on.
    expect(await other.statusOf(wanted)).toBe(503);
    for (let asked = 0; asked < 4; asked++) {
      await stage.service.advance(SILENCE_MS / 4);
      expect(await attacker.statusOf(kept, "0-0")).toBe(206);
    }
    expect(await other.statusOf(wanted)).toBe(200);
    expect(stage.isCached(kept.sha256)).toBe(false);
  });

  test("keeps a file for a client that goes on with it, and not after 15 s without a request", async () => {
    const [wanted, begun] = [await add(1_000_000), await add(1_400_000)];
    const [client, other] = [await customer(), await customer()];
    const step = 100_000;
    expect(await client.statusOf(begun, `0-${step - 1}`)).toBe(206);
    await stage.service.advance(SILENCE_MS - 1_000);
    expect(await client.statusOf(begun, `${step}-1299999`)).toBe(206);
    // Longer than 15 s after the fetch, because it has asked for more than a megabyte.
    await stage.service.advance(1_500);
    expect(await other.statusOf(wanted)).toBe(503);
    await stage.service.advance(SILENCE_MS);
    expect(await other.statusOf(wanted)).toBe(200);
  });

  test("gives its room at once when a client has asked for the whole file", async () => {
    const [one, two] = [await add(1_000_000), await add(1_000_000)];
    const [client, other] = [await customer(), await customer()];
    expect([await client.statusOf(one), await other.statusOf(two), await client.statusOf(one)]).toEqual([
      200, 200, 200,
    ]);
  });

  test("has files fetched for a license only so often in an hour, and tells it how long to wait", async () => {
    const models = [await add(1_000_000), await add(1_000_000)] as const;
    const [attacker, other] = [await customer(), await customer()];
    const statuses: number[] = [];
    for (let asked = 0; asked < 8; asked++)
      statuses.push(await attacker.statusOf(models[asked % 2] ?? models[0], "0-0"));
    // Three megabytes are twice the cache. The third file stays, so every second request finds it.
    expect(statuses).toEqual([206, 206, 206, 429, 206, 429, 206, 429]);
    expect(models.map((model) => readsOf(stage, model))).toEqual([2, 1]);
    const refused = await attacker.load(models[1], "0-0");
    expectRefusal({ ...refused, body: JSON.parse(refused.text) }, 429, "RATE_LIMIT_EXCEEDED");
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(HOUR_MS / 1_000 - 60, HOUR_MS / 1_000 + 1);
    await stage.service.advance(SILENCE_MS);
    expect(await other.statusOf(models[1])).toBe(200);
    age(stage.service.dataDir, "fetched-", HOUR_MS);
    expect(await attacker.statusOf(models[0], "0-0")).toBe(206);
  });

  test("does not count a fetch that got nothing from the bucket", async () => {
    const model = await add(1_000_000);
    const client = await customer();
    await stage.server.goAway();
    for (let asked = 0; asked < 4; asked++) expect(await client.statusOf(model)).toBe(503);
    await stage.server.comeBack();
    expect(marksIn(stage.service.dataDir).filter((path) => path.includes("fetched-"))).toEqual([]);
    expect(await client.statusOf(model)).toBe(200);
  });

  test("writes no license and no key into the names of its marks", async () => {
    const { apiKey, userId } = await stage.service.issue();
    const model = await add(1_000);
    const answer = await stage.download(model.name, { "X-API-Key": apiKey, Range: "bytes=0-0" });
    expect(answer.status).toBe(206);
    const [row] = await stage.service.database.query<{ license: string; hash: string }>(
      (sql) =>
        sql`select license_id as license, encode(hash, 'hex') as hash from keys order by id desc limit 1`,
    );
    const names = marksIn(stage.service.dataDir).join("\n");
    expect(names).toContain("fetched-1000-");
    for (const secret of [apiKey, userId, row?.license, row?.license.replaceAll("-", ""), row?.hash])
      expect(names).not.toContain(secret ?? "");
  });
});

describe.skipIf(ON_NODE)("a cache with room for ten files", () => {
  // Larger than what the system keeps of an answer that nobody reads.
  const SIZE = 10_000_000;
  const stage = useForAll(() => startBucketStage({ modelsCacheBytes: 10 * SIZE }));
  const { add, customer } = customersOf(stage);
  beforeEach(() => rmSync(join(stage.service.dataDir, "models"), { recursive: true, force: true }));

  test("gives a quarter of itself to the slow downloads of one license, and the rest to the others", async () => {
    const models = [await add(SIZE), await add(SIZE), await add(SIZE)] as const;
    const [slow, other] = [await customer(), await customer()];
    const stalled = [
      await stall(stage.service, slow.apiKey, models[0]),
      await stall(stage.service, slow.apiKey, models[1]),
    ];
    try {
      const refused = await slow.load(models[2]);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
      expect(refused.text).toContain("Other downloads with the keys of this license are in progress");
      expect(stage.isCached(models[2].sha256)).toBe(false);
      expect(await other.statusOf(models[2])).toBe(200);
      // A file that it holds already costs no further room.
      expect(await slow.statusOf(models[0], "0-9")).toBe(206);
      stalled[0]?.destroy();
      await until(async () => (await slow.statusOf(models[2], "0-9")) === 206);
    } finally {
      for (const socket of stalled) socket.destroy();
    }
  });

  test("gives a license one file that is larger than its quarter", async () => {
    const [large, small] = [await add(4 * SIZE), await add(1_000)];
    const client = await customer();
    const socket = await stall(stage.service, client.apiKey, large);
    try {
      expect(await client.statusOf(small)).toBe(503);
    } finally {
      socket.destroy();
    }
    await until(async () => (await client.statusOf(small)) === 200);
  });

  test("says of a file that never fits that there is no room, and not that it was fetched too often", async () => {
    const client = await customer();
    expect(await client.statusOf(await add(1_000))).toBe(200);
    const before = stage.server.requests.length;
    const vast = { name: "vast", version: "1.0", downloadUrl: null, checksum: "ab".repeat(32) };
    await addTestModel(stage.service, { ...vast, hostedBytes: 8e15 });
    expect(await client.statusOf({ name: "vast", sha256: vast.checksum })).toBe(503);
    expect(stage.service.logLines.join("")).toContain("has no room for it");
    expect(stage.server.requests).toHaveLength(before);
  });

  test("fetches one file after another for one license, and at the same time for two", async () => {
    const models = [await add(1_000_000), await add(1_000_000), await add(1_000_000)] as const;
    const [client, other] = [await customer(), await customer()];
    stage.server.delayMs = 1_000;
    const asked = [client.statusOf(models[0]), client.statusOf(models[1]), other.statusOf(models[2])];
    const ofClient = () => readsOf(stage, models[0]) + readsOf(stage, models[1]);
    await until(() => readsOf(stage, models[2]) === 1 && ofClient() > 0);
    expect(ofClient()).toBe(1);
    stage.server.delayMs = 0;
    expect(await Promise.all(asked)).toEqual([200, 200, 200]);
  });
});

describe.skipIf(ON_NODE)("a client with 16 connections", () => {
  const limits = limitsOf(3);
  const stage = useForAll(() => startBucketStage({ modelsCacheBytes: 12_000_000, limits }));
  const { add, customer } = customersOf(stage);

  test("keeps its file while it loads the file in pieces, and pays for one download and one fetch", async () => {
    const [size, piece] = [10_000_000, 250_000];
    const [large, wanted] = [await add(size), await add(5_000_000)];
    const [client, other] = [await customer(), await customer()];
    const received = Buffer.alloc(size);
    let next = 0;
    /** Loads the next pieces until so many bytes were asked for. */
    const loadUntil = (end: number) =>
      Promise.all(
        Array.from({ length: 16 }, async () => {
          while (next < end) {
            const first = next;
            next += piece;
            const { status, bytes } = await client.load(large, `${first}-${first + piece - 1}`);
            expect(status).toBe(206);
            received.set(bytes, first);
          }
        }),
      );
    for (const end of [piece, size / 2, size - piece]) {
      await loadUntil(end);
      // Somebody else needs the room.
      expect(await other.statusOf(wanted)).toBe(503);
    }
    await loadUntil(size);
    expect(hash("sha256", received)).toBe(large.sha256);
    // Two ranges of one fetch.
    expect(readsOf(stage, large)).toBe(2);
    expect(await other.statusOf(wanted)).toBe(200);
  });
});

describe.skipIf(ON_NODE)("a cache that two services share", () => {
  // Larger than what the system keeps of an answer that nobody reads.
  const SIZE = 10_000_000;
  const config = { modelsCacheBytes: 3 * SIZE };
  const stage = useForAll(() => startBucketStage(config));
  const second = useForAll(() => {
    const { testDatabase, dataDir } = stage.service;
    const shared = { dataDir, publicUrl: stage.service.config.publicUrl, modelsBucket: stage.bucket };
    return startTestService({ on: testDatabase, config: { ...config, ...shared } });
  });
  const { add, customer } = customersOf(stage);
  beforeEach(() => rmSync(join(stage.service.dataDir, "models"), { recursive: true, force: true }));

  test("counts what a license holds in both, and never loses a file that the other one sends", async () => {
    const models = [await add(SIZE), await add(SIZE), await add(SIZE), await add(SIZE)] as const;
    const [client, other] = [await customer(), await customer({ on: second })];
    const socket = await stall(stage.service, client.apiKey, models[0]);
    try {
      const elsewhere = await loadFrom(second, { apiKey: client.apiKey, model: models[1] });
      expect(elsewhere.status).toBe(503);
      expect(elsewhere.text).toContain("with the keys of this license");
      for (const model of models.slice(1)) expect(await other.statusOf(model)).toBe(200);
      expect(models.map(({ sha256 }) => stage.isCached(sha256))).toEqual([true, false, true, true]);
    } finally {
      socket.destroy();
    }
  });

  test("counts the fetches of a license in both", async () => {
    const models: Model[] = [];
    for (let added = 0; added < 4; added++) models.push(await add(2 * SIZE));
    const client = await customer();
    const statuses: number[] = [];
    for (const [index, model] of models.entries()) {
      const on = index % 2 === 0 ? stage.service : second;
      statuses.push((await loadFrom(on, { apiKey: client.apiKey, model })).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429]);
  });
});

describe("createFileHolds()", () => {
  const folder = useFolder();
  const cacheBytes = 1_000;
  const holder = "holder";
  const [one, two] = ["a", "b"].map((digit) => ({ sha256: digit.repeat(64), sizeBytes: 300 })) as [
    { sha256: string; sizeBytes: number },
    { sha256: string; sizeBytes: number },
  ];
  const wanted = { holder, bytes: 1, isOver: () => false };

  test("does not count what a killed process held and fetched, 15 s after its last sign of life", async () => {
    const script = `
      import { createFileHolds } from ${JSON.stringify(join(import.meta.dir, "../../src/models/file_holds.ts"))};
      import { systemClock } from ${JSON.stringify(join(import.meta.dir, "../../src/base/clock.ts"))};
      const holds = createFileHolds({ folder: process.argv[1], cacheBytes: 1_000, clock: systemClock });
      const file = ${JSON.stringify(one)};
      holds.take(file, { holder: "holder", bytes: 1, isOver: () => false });
      holds.beginFetch("holder", file).reserve();
      console.log("holds");
      setInterval(() => {}, 1_000);`;
    const killed = Bun.spawn([process.execPath, "-e", script, folder], { stdout: "pipe" });
    for await (const text of killed.stdout) if (Buffer.from(text).includes("holds")) break;
    killed.kill("SIGKILL");
    await killed.exited;
    const holds = createFileHolds({ folder, cacheBytes, clock: systemClock });
    try {
      expect(holds.take(two, wanted)).toBe(false);
      expect(holds.beginFetch(holder, two)).toBe("busy");
      const marks = join(folder, ".held", holder);
      const late = new Date(Date.now() - SILENCE_MS);
      for (const name of readdirSync(marks)) utimesSync(join(marks, name), late, late);
      expect(holds.take(two, wanted)).toBe(true);
      expect(holds.beginFetch(holder, two)).toBeObject();
    } finally {
      holds.stop();
    }
  });
});

describe("createFileHolds() of a fetched file", () => {
  const clock = createTestClock(undefined, { stands: true });
  const file = { sha256: "c".repeat(64), sizeBytes: 100_000_000 };
  const holder = "holder";
  const asks = (bytes: number) => ({ holder, bytes, isOver: () => true });

  /** Makes holds in a folder of their own, in which the file was just fetched. */
  function fetched() {
    const folder = mkdtempSync(join(testFolder(), "holds-"));
    const holds = createFileHolds({ folder, cacheBytes: 1e9, clock });
    holds.take(file, asks(0));
    const turn = holds.beginFetch(holder, file) as FetchTurn;
    turn.reserve();
    turn.end({ isThere: true, hasRead: true });
    return {
      folder,
      holds,
      isHeld() {
        holds.endWhatIsOver();
        return readHeld(folder).held.has(file.sha256);
      },
      ask(bytes: number) {
        holds.take(file, asks(bytes));
        holds.noteSent(file, asks(bytes));
      },
      [Symbol.dispose]: () => holds.stop(),
    };
  }

  test("holds it while its client asks for more, and ends after 15 s of silence", () => {
    using own = fetched();
    own.ask(90_000_000);
    for (const _ of [1, 2, 3]) {
      clock.advance(SILENCE_MS - 1);
      expect(own.isHeld()).toBe(true);
      own.ask(1);
    }
    clock.advance(SILENCE_MS);
    expect(own.isHeld()).toBe(false);
  });

  test("ends when its client has asked for as many bytes as the file has", () => {
    using own = fetched();
    own.ask(file.sizeBytes - 1);
    expect(own.isHeld()).toBe(true);
    own.ask(1);
    expect(own.isHeld()).toBe(false);
  });

  test("admits 240 fetches in an hour, and says when the next one may begin", () => {
    using own = fetched();
    const marks = join(own.folder, ".held", holder);
    for (let made = 1; made < 240; made++) writeFileSync(join(marks, `fetched-1-${made.toString(16)}`), "");
    const at = new Date(Date.now() - HOUR_MS / 2);
    utimesSync(join(marks, "fetched-1-1"), at, at);
    expect(own.holds.beginFetch(holder, file)).toBeWithin(HOUR_MS / 2_000 - 60, HOUR_MS / 2_000 + 1);
    expect(own.holds.beginFetch("another", file)).toBeObject();
  });

  test("deletes marks that do not count any more, and no others", () => {
    using own = fetched();
    own.ask(1);
    const marks = join(own.folder, ".held", holder);
    const write = (path: string, ageMs: number) => {
      writeFileSync(path, "");
      utimesSync(path, new Date(Date.now() - ageMs), new Date(Date.now() - ageMs));
    };
    write(join(marks, `hold-${"d".repeat(64)}-5-ab`), SILENCE_MS);
    write(join(marks, "fetched-5-ab"), HOUR_MS);
    mkdirSync(join(own.folder, ".held", "gone"));
    write(join(own.folder, ".held", "gone", "fetching"), SILENCE_MS);
    deleteOldMarks(own.folder);
    expect(readdirSync(join(own.folder, ".held"))).toEqual([holder]);
    expect(readdirSync(marks).sort()).toEqual([
      expect.stringMatching(/^fetched-100000000-/),
      expect.stringMatching(/^hold-c{64}-100000000-/),
    ]);
  });
});

describe("a folder without a bucket", () => {
  const service = useHostingService();

  test("has no marks, and no bound for a license", async () => {
    const bytes = testBytes(10_000);
    const names = ["one", "two", "three"];
    for (const [index, name] of names.entries())
      await addHostedModel(service, { name, version: "1.0" }, bytes.subarray(index));
    const { apiKey } = await service.issue({ tier: "enterprise" });
    const loaded = names
      .flatMap((name) => [name, name])
      .map(async (name) => {
        const answer = await fetch(`${service.url}/v1/models/download/${name}/1.0`, {
          headers: { "X-API-Key": apiKey },
        });
        await answer.arrayBuffer();
        return answer.status;
      });
    expect(await Promise.all(loaded)).toEqual(Array(6).fill(200));
    expect(existsSync(heldIn(service.dataDir))).toBe(false);
  });
});
