/** The answer with a hosted file: whole, in ranges, a hundred at once, cut off, and damaged on disk. */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { addHostedModel, type HostingService, linkTo, testBytes } from "../support/hosted.ts";
import { until } from "../support/until.ts";
import { useHostingService } from "../support/use.ts";

const BYTES = testBytes(3_000_000);
const SIZE = BYTES.length;

const service = useHostingService();
let key: IssuedKey;
let etag: string;
let url: string;

beforeAll(async () => {
  key = await service.issue();
  etag = `"${await addHostedModel(service, { name: "m", version: "1.0" }, BYTES)}"`;
  url = await linkTo(service, key.apiKey, "m");
});

interface Download {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
}

async function get(headers: Record<string, string> = {}, method = "GET"): Promise<Download> {
  const response = await fetch(url, { headers, method });
  return {
    status: response.status,
    headers: response.headers,
    bytes: new Uint8Array(await response.arrayBuffer()),
  };
}

function expectBytes({ bytes, headers }: Download, first: number, end: number): void {
  expect(bytes.length).toBe(end - first);
  expect(Bun.deepEquals(bytes, BYTES.slice(first, end))).toBe(true);
  expect(headers.get("content-length")).toBe(String(end - first));
}

function expectWhole(got: Download): void {
  expect(got.status).toBe(200);
  expectBytes(got, 0, SIZE);
  expect(got.headers.get("content-range")).toBeNull();
}

describe("GET /v1/models/download, whole", () => {
  test("has the file's bytes, and headers for their name, length and checksum", async () => {
    const got = await get();
    expectWhole(got);
    expect(Object.fromEntries(got.headers)).toMatchObject({
      "content-type": "application/octet-stream",
      "content-disposition": 'attachment; filename="m-1.0"',
      "content-length": String(SIZE),
      "accept-ranges": "bytes",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      etag,
    });
    expect(got.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
    expect(got.headers.has("transfer-encoding")).toBe(false);
    expect(etag).toBe(`"${new Bun.CryptoHasher("sha256").update(got.bytes).digest("hex")}"`);
  });

  test("HEAD has the same headers and no body, whatever the Range", async () => {
    const whole = await get();
    for (const headers of [{}, { Range: "bytes=0-9" }]) {
      const head = await get(headers, "HEAD");
      expect([head.status, head.bytes.length]).toEqual([200, 0]);
      for (const name of ["content-length", "content-type", "etag", "accept-ranges", "content-disposition"]) {
        expect(head.headers.get(name)).toBe(whole.headers.get(name) ?? "");
      }
    }
  });
});

// `download_byte_ranges_test.ts` shows how every form of Range is read.
describe("GET /v1/models/download, a range", () => {
  test.each([
    ["bytes=0-0", 0, 1],
    ["bytes=0-", 0, SIZE],
    ["bytes=1000-1999", 1_000, 2_000],
    ["bytes=2000000-9999999999", 2_000_000, SIZE],
    ["bytes=-5000", SIZE - 5_000, SIZE],
  ])("%s gets the bytes from %d to before %d", async (range, first, end) => {
    const got = await get({ Range: range });
    expect(got.status).toBe(206);
    expectBytes(got, first, end);
    expect(got.headers.get("content-range")).toBe(`bytes ${first}-${end - 1}/${SIZE}`);
    expect(got.headers.get("etag")).toBe(etag);
    expect(got.headers.get("accept-ranges")).toBe("bytes");
  });

  test("that begins beyond the end gets 416 with the length of the file", async () => {
    const answer = await service.get(url.slice(service.url.length), { Range: `bytes=${SIZE}-` });
    expectRefusal(answer, 416, "RANGE_NOT_SATISFIABLE");
    expect(answer.headers.get("content-range")).toBe(`bytes */${SIZE}`);
  });

  test("that is not one range of bytes gets the whole file", async () => {
    expectWhole(await get({ Range: "bytes=0-1,5-6" }));
  });

  test("is sent if If-Range has the file's tag; any other tag gets the whole file", async () => {
    const fits = await get({ Range: "bytes=5-9", "If-Range": etag });
    expect(fits.status).toBe(206);
    expectBytes(fits, 5, 10);
    for (const other of ['"x"', `W/${etag}`, "Fri, 20 Nov 2026 21:38:58 GMT", etag.slice(1, -1)]) {
      expectWhole(await get({ Range: "bytes=5-9", "If-Range": other }));
      expectWhole(await get({ Range: "bytes=99999999-", "If-Range": other }));
    }
  });

  test("has the exact bytes in a hundred downloads at once by one link", async () => {
    const step = SIZE / 100;
    const getPart = async (index: number) => {
      for (;;) {
        const part = await get({ Range: `bytes=${index * step}-${(index + 1) * step - 1}` });
        // On a busy machine the pulse is late.
        if (part.status !== 503) return part;
        await Bun.sleep(50);
      }
    };
    const got = await Promise.all(Array.from({ length: 100 }, (_, index) => getPart(index)));
    expect(got.map(({ status }) => status)).toEqual(Array(100).fill(206));
    expect(Bun.deepEquals(Buffer.concat(got.map(({ bytes }) => bytes)), Buffer.from(BYTES))).toBe(true);
  });
});

describe("GET /v1/models/download, repeated", () => {
  test("answers 304 to If-None-Match with the file's tag, for GET, HEAD and a range", async () => {
    for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
      for (const method of ["GET", "HEAD"]) {
        const got = await get({ "If-None-Match": tag, Range: "bytes=0-1" }, method);
        expect(got.status).toBe(304);
        expect(got.bytes.length).toBe(0);
        expect(got.headers.get("etag")).toBe(etag);
      }
    }
    expectWhole(await get({ "If-None-Match": '"x"' }));
  });

  test("answers 412 to If-Match without the file's tag, before every other condition", async () => {
    for (const method of ["GET", "HEAD"]) {
      for (const more of [
        {},
        { Range: "bytes=5-9" },
        { Range: `bytes=${SIZE}-` },
        { Range: "bytes=5-9", "If-Range": etag },
        { "If-None-Match": etag },
      ]) {
        for (const other of ['"x"', `W/${etag}`]) {
          const got = await get({ ...more, "If-Match": other }, method);
          expect({ more, status: got.status }).toEqual({ more, status: 412 });
          expect(got.bytes.length > 0).toBe(method === "GET");
        }
      }
    }
    const refused = await service.get(url.slice(service.url.length), { "If-Match": '"x"' });
    expectRefusal(refused, 412, "PRECONDITION_FAILED");
  });

  test("sends what the other conditions ask for if If-Match has the file's tag", async () => {
    for (const own of [etag, `"x", ${etag}`, "*"]) {
      expectWhole(await get({ "If-Match": own }));
      const part = await get({ "If-Match": own, Range: "bytes=5-9", "If-Range": etag });
      expect(part.status).toBe(206);
      expectBytes(part, 5, 10);
      expect((await get({ "If-Match": own, "If-None-Match": etag })).status).toBe(304);
    }
  });
});

describe("GET /v1/models/download of a large file", () => {
  const size = 6_442_450_944;
  const marks = [0, 4_294_967_280, 4_294_967_296, size - 16];
  let large: string;

  beforeAll(async () => {
    // A sparse file instead of 6 GB of copied bytes: all bytes except the marks are zero.
    const sha256 = await addHostedModel(service, { name: "large" }, testBytes(64, 11));
    const path = join(service.dataDir, "models", sha256.slice(0, 2), sha256);
    truncateSync(path, size);
    const file = openSync(path, "r+");
    for (const at of marks) writeSync(file, `at ${at}`.padEnd(16), at);
    closeSync(file);
    await service.database.query(
      (sql) => sql`update model_files set size_bytes = ${size} where sha256 = ${sha256}`,
    );
    large = await linkTo(service, key.apiKey, "large");
  });

  test("sends ranges beyond 4 GB", async () => {
    for (const at of marks) {
      const response = await until(async () => {
        const got = await fetch(large, { headers: { Range: `bytes=${at}-${at + 15}` } });
        // 503: on a busy machine the pulse may be late, and then the service does not trust its cache.
        return got.status !== 503 && got;
      });
      expect(response.headers.get("content-range")).toBe(`bytes ${at}-${at + 15}/${size}`);
      expect(await response.text()).toBe(`at ${at}`.padEnd(16));
    }
    const end = await fetch(large, { headers: { Range: "bytes=-16" } });
    expect(await end.text()).toBe(`at ${size - 16}`.padEnd(16));
    expect((await fetch(large, { method: "HEAD" })).headers.get("content-length")).toBe(String(size));
  });

  test("keeps no memory and no descriptor of clients that hang up", async () => {
    const target = large.slice(service.url.length);
    const loadAndHangUp = () => load(target, { untilBytes: 8_000_000 });
    const held = Promise.withResolvers<void>();
    const first = load(target, { untilBytes: 8_000_000, goesOn: held.promise });
    await until(() => countFiles(service) === 1);
    held.resolve();
    await first;
    const before = memoryOf(service);
    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: 30 }, loadAndHangUp));
    await until(() => countFiles(service) === 0);
    // The service sent 0.7 GB. The bound is above the memory that the clients in this process use.
    await until(() => {
      Bun.gc(true);
      return memoryOf(service) - before < 300_000_000;
    });
    // Each of its three waits may take 20 s.
  }, 90_000);
});

interface LoadOptions {
  readonly untilBytes: number;
  /** The client reads only the first bytes before this promise resolves. */
  readonly goesOn?: Promise<void>;
}

/** Downloads through a socket until `untilBytes` have come, then hangs up; returns the bytes received. */
function load(target: string, { untilBytes, goesOn }: LoadOptions): Promise<number> {
  const { hostname, port } = new URL(service.url);
  return new Promise((resolve) => {
    let received = 0;
    const socket = connect(Number(port), hostname, () => {
      socket.write(`GET ${target} HTTP/1.1\r\nHost: h\r\n\r\n`);
    });
    socket.on("data", (chunk) => {
      if (received === 0 && goesOn !== undefined) {
        socket.pause();
        void goesOn.then(() => socket.resume());
      }
      received += chunk.length;
      if (received >= untilBytes) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(received));
  });
}

/** Counts the descriptors of the serving process for files in the service's data folder. */
function countFiles({ pid, dataDir }: HostingService): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(dataDir);
    } catch {
      return false;
    }
  }).length;
}

/** Returns the resident memory of the serving process in bytes. */
function memoryOf({ pid }: HostingService): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1_024;
}

describe("GET /v1/models/download of a file that is damaged on disk", () => {
  const name = "fragile";
  const bytes = testBytes(500, 12);
  let path: string;
  let link: string;

  beforeAll(async () => {
    const sha256 = await addHostedModel(service, { name }, bytes);
    path = join(service.dataDir, "models", sha256.slice(0, 2), sha256);
    link = (await linkTo(service, key.apiKey, name)).slice(service.url.length);
  });

  async function expectDamage(problem: string, sentence = "the file is damaged"): Promise<void> {
    service.logLines.splice(0);
    for (const headers of [{}, { Range: "bytes=0-1" }]) {
      const answer = await service.get(link, headers);
      // Another host may have a file that is missing here, and it may come back.
      if (problem === "missing") expectRefusal(answer, 503, "SERVICE_UNAVAILABLE");
      else expectRefusal(answer, 500, "SERVER_ERROR");
      expect(answer.headers.get("retry-after")).toBe(problem === "missing" ? "60" : null);
      expect(answer.body.error).toContain(sentence.replace(/^the file is/, ""));
      expect(answer.body.error).not.toContain(service.dataDir);
    }
    const line = service.logLines.map((text) => JSON.parse(text)).find(({ level }) => level === "error");
    expect(line).toMatchObject({ model: name, version: "1.0.0", problem });
    expect(line.message).toContain(`: ${sentence}; \`claviger models verify\``);
    // A new version would not help another host, which has the file.
    expect(line.mend.includes("a new version")).toBe(problem !== "missing");
  }

  const damages: readonly (readonly [
    what: string,
    damage: () => void,
    problem: string,
    sentence?: string,
  ])[] = [
    ["is missing", () => {}, "missing", "the file is missing on this host"],
    ["has another size", () => writeFileSync(path, testBytes(499, 12)), "changed"],
    ["is a folder", () => mkdirSync(path), "changed"],
    // Root may read everything.
    ...(process.getuid?.() === 0
      ? []
      : [["may not be read", () => writeFileSync(path, bytes, { mode: 0 }), "unreadable"] as const]),
  ];
  for (const [what, damage, problem, sentence] of damages) {
    test(`answers with an error, which the log explains, if the file ${what}, and sends a mended file`, async () => {
      rmSync(path);
      damage();
      await expectDamage(problem, sentence);
      rmSync(path, { recursive: true, force: true });
      writeFileSync(path, bytes);
      expect((await fetch(service.url + link)).status).toBe(200);
    });
  }
});
