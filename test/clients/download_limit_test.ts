/** The limit on downloads for each key: a whole file counts each time, all ranges of a file count once. */
import { beforeAll, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { rmSync } from "node:fs";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { modelsFolderOf, pathOfFile } from "../../src/models/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { addHostedModel, linkTo, startHostingService, testBytes } from "../support/hosted.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { bringInto, issueIn, type State, UNKNOWN_KEY } from "../support/keys.ts";
import { NO_LIMITS, startTestService } from "../support/service.ts";
import { useHostingService } from "../support/use.ts";

const FILES = ["a", "b", "c", "d"];

const limits = { ...NO_LIMITS, downloads: 3 };
const service = useHostingService({ config: { limits } });
/** Counts in the database. */
const sharing = useHostingService({ config: { limits, rateLimits: "shared" } });
const BOTH = [
  ["in the process", service],
  ["in the database", sharing],
] as const;

beforeAll(async () => {
  for (const [, on] of BOTH) {
    await addHostedModel(on, { name: "high", requiresLicense: "enterprise" }, testBytes(10, 9));
    for (const [index, name] of FILES.entries()) await addHostedModel(on, { name }, testBytes(100, index));
  }
});

interface Answered {
  readonly status: number;
  readonly headers: Headers;
}

async function load(
  name: string,
  key: IssuedKey,
  headers: Record<string, string> = {},
  on = service,
): Promise<Answered> {
  const url = `${on.url}/v1/models/download/${name}/1.0.0`;
  const response = await fetch(url, { headers: { "X-API-Key": key.apiKey, ...headers } });
  await response.arrayBuffer();
  return response;
}

async function follow(link: string, headers: Record<string, string> = {}): Promise<Answered> {
  const response = await fetch(link, { headers });
  await response.arrayBuffer();
  return response;
}

const remaining = ({ headers }: Answered) => Number(headers.get("x-ratelimit-remaining"));
const statusesOf = (answers: readonly Answered[]) => answers.map(({ status }) => status);

/** Sends a request several times, one after the other. */
async function repeat(times: number, send: () => Promise<Answered>): Promise<Answered[]> {
  const answers: Answered[] = [];
  while (answers.length < times) answers.push(await send());
  return answers;
}

test("GET /v1/models/download admits the limit of files a minute, and says how many are left", async () => {
  const key = await service.issue();
  for (const [index, name] of ["a", "b", "c"].entries()) {
    const answer = await load(name, key);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-ratelimit-limit")).toBe("3");
    expect(remaining(answer)).toBe(2 - index);
  }
  const answer = await service.get("/v1/models/download/d/1.0.0", { "X-API-Key": key.apiKey });
  expectRefusal(answer, 429, "RATE_LIMIT_EXCEEDED");
  const waitSeconds = Number(answer.headers.get("retry-after"));
  expect(waitSeconds).toBeGreaterThan(50);
  expect((await load("a", key, { Range: "bytes=1-2" })).status).toBe(206);
  await service.advance(waitSeconds * 1_000);
  expect((await load("d", key)).status).toBe(200);
});

test.each(BOTH)(
  "GET /v1/models/download counts all ranges of a link once %s, even a hundred at the same time",
  async (_, on) => {
    const key = await on.issue();
    const link = await linkTo(on, key.apiKey, "a");
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) => follow(link, { Range: `bytes=${index}-${index}` })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(206));
    expect(answers.map(remaining)).toEqual(Array(100).fill(2));
    // HEAD and a 304 send no bytes of the file.
    const head = await fetch(link, { method: "HEAD" });
    expect(remaining(head)).toBe(2);
    const known = await follow(link, { "If-None-Match": head.headers.get("etag") ?? "" });
    expect([known.status, remaining(known)]).toEqual([304, 2]);
  },
);

const countedEachTime: readonly (readonly [
  what: string,
  status: number,
  request: { readonly name?: string; readonly headers?: Record<string, string>; readonly state?: State },
])[] = [
  ["a whole file", 200, {}],
  ["a range from 0", 206, { headers: { Range: "bytes=0-" } }],
  ["a range that exceeds the file", 206, { headers: { Range: "bytes=0-105" } }],
  ["a range of the last bytes, which are all", 206, { headers: { Range: "bytes=-100" } }],
  ["two ranges", 200, { headers: { Range: "bytes=0-1,5-6" } }],
  ["a range of another file", 200, { headers: { Range: "bytes=5-", "If-Range": '"another"' } }],
  ["a model that is missing", 404, { name: "nothing" }],
  ["a model above the key's tier", 403, { name: "high" }],
  ["a file, with a suspended key", 401, { state: "suspended" }],
  ["a file, with an expired key", 401, { state: "expired" }],
  ["a range, with an expired key", 401, { state: "expired", headers: { Range: "bytes=1-2" } }],
];
for (const [what, status, { name = "a", headers = {}, state = "active" }] of countedEachTime) {
  test.each(BOTH)(
    `GET /v1/models/download counts each request for ${what} %s, one after the other or at once`,
    async (_, on) => {
      const [one, other] = [await issueIn(on, state), await issueIn(on, state)];
      const answers = await repeat(4, () => load(name, one, headers, on));
      expect(statusesOf(answers)).toEqual([status, status, status, 429]);
      expect(answers.map(remaining)).toEqual([2, 1, 0, 0]);
      expect(Number(answers[3]?.headers.get("retry-after"))).toBeGreaterThan(50);
      const atOnce = await Promise.all(Array.from({ length: 20 }, () => load(name, other, headers, on)));
      expect(statusesOf(atOnce).toSorted()).toEqual([...Array(3).fill(status), ...Array(17).fill(429)]);
    },
  );
}

test("GET /v1/models/download lets a client continue a file that was cut off without counting it again", async () => {
  const key = await service.issue();
  expect(remaining(await load("a", key))).toBe(2);
  for (let from = 1; from < 100; from++) {
    const answer = await load("a", key, { Range: `bytes=${from}-` });
    expect([answer.status, remaining(answer)]).toEqual([206, 2]);
  }
});

test("GET /v1/models/download counts a range that lies beyond the file's end each time", async () => {
  const key = await service.issue();
  expect((await load("a", key, { Range: "bytes=0-1" })).status).toBe(206);
  const beyond = await repeat(3, () => load("a", key, { Range: "bytes=500-" }));
  expect(statusesOf(beyond)).toEqual([416, 416, 429]);
  expect((await load("a", key, { Range: "bytes=0-1" })).status).toBe(206);
});

test.each(["suspended", "expired"] as const)(
  "GET /v1/models/download counts each request by a link whose key is %s by now",
  async (state) => {
    const key = await service.issue();
    const link = await linkTo(service, key.apiKey, "a");
    // This file is counted already: with a good key, its ranges would not count again.
    expect((await follow(link, { Range: "bytes=1-2" })).status).toBe(206);
    await bringInto(service, key, state);
    await service.advance(61_000);
    const answers = await repeat(5, () => follow(link, { Range: "bytes=1-2" }));
    expect(statusesOf(answers)).toEqual([401, 401, 401, 429, 429]);
  },
);

test.each(BOTH)(
  "GET /v1/models/download says that the file cannot be sent now, counted %s, also while the window is full",
  async (_, on) => {
    const name = "away";
    await addHostedModel(on, { name }, testBytes(100, 7));
    const key = await on.issue();
    expect(statusesOf(await repeat(3, () => load(name, key, {}, on)))).toEqual([200, 200, 200]);
    rmSync(pathOfFile(modelsFolderOf(on), hash("sha256", testBytes(100, 7))));
    const answer = await on.get(`/v1/models/download/${name}/1.0.0`, {
      "X-API-Key": key.apiKey,
      Range: "bytes=1-2",
    });
    expectRefusal(answer, 503, "SERVICE_UNAVAILABLE");
    expect(answer.body.error).toContain("is missing on this host");
  },
);

test("GET /v1/models/download counts each link to a file, and each file separately", async () => {
  const key = await service.issue();
  const first = await linkTo(service, key.apiKey, "a");
  expect(remaining(await follow(first))).toBe(2);
  await service.advance(1_000);
  const second = await linkTo(service, key.apiKey, "a");
  expect(second).not.toBe(first);
  expect(remaining(await follow(second))).toBe(1);
  expect(remaining(await follow(await linkTo(service, key.apiKey, "b")))).toBe(0);
  expect((await follow(await linkTo(service, key.apiKey, "c"))).status).toBe(429);
  expect((await follow(first, { Range: "bytes=0-1" })).status).toBe(206);
});

test("GET /v1/models/download counts the ranges of one file by one key once, for 15 minutes", async () => {
  const key = await service.issue();
  const ranges = await repeat(5, () => load("a", key, { Range: "bytes=0-1" }));
  expect(ranges.map(remaining)).toEqual(Array(5).fill(2));
  await service.advance(14 * 60_000);
  expect(remaining(await load("a", key, { Range: "bytes=0-1" }))).toBe(3);
  await service.advance(61_000);
  expect(remaining(await load("a", key, { Range: "bytes=0-1" }))).toBe(2);
});

test("GET /v1/models/download counts by key: another key at the same address keeps its window", async () => {
  const [one, other] = [await service.issue(), await service.issue()];
  for (const name of FILES) await load(name, one);
  expect((await load("d", one)).status).toBe(429);
  expect(remaining(await load("a", other))).toBe(2);
});

test("GET /v1/models/download limits forged links and keys by address, but still serves valid links", async () => {
  await using own = await startHostingService({ config: { limits: { ...NO_LIMITS, downloads: 3 } } });
  await addHostedModel(own, { name: "a" }, testBytes(10));
  const link = await linkTo(own, (await own.issue()).apiKey, "a");
  const path = link.slice(own.url.length);
  const forged = path.replace(/signature=.{5}/, "signature=AAAAA");
  expect(statusesOf(await repeat(4, () => own.get(forged)))).toEqual([401, 401, 401, 429]);
  for (const apiKey of [UNKNOWN_KEY, (await issueIn(own, "revoked")).apiKey]) {
    expect((await own.get("/v1/models/download/a/1.0.0", { "X-API-Key": apiKey })).status).toBe(429);
  }
  expect((await follow(link)).status).toBe(200);
});

test("GET /v1/models/download has a limit of 60 by default, and 0 switches it off", async () => {
  const { config } = service;
  await using standard = await startTestService({
    on: service.testDatabase,
    limits: "default",
    config: { dataDir: config.dataDir },
  });
  await using open = await startTestService({
    on: service.testDatabase,
    config: { dataDir: config.dataDir },
  });
  const { apiKey } = await service.issue();
  for (const [{ url }, limit] of [
    [standard, "60"],
    [open, null],
  ] as const) {
    const response = await fetch(`${url}/v1/models/download/a/1.0.0`, { headers: { "X-API-Key": apiKey } });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-ratelimit-limit")).toBe(limit);
  }
});

test("Ranges of one download that wait for each other are answered within 5 s while the database counts nothing", async () => {
  const key = await issueIn(sharing, "active");
  await load("a", key, {}, sharing);
  await inTransaction(sharing.testDatabase.address, async (sql) => {
    await sql`select from shared_windows for update`;
    const beganMs = performance.now();
    const ranges = Array.from({ length: 12 }, (_, at) => ({ Range: `bytes=${at}-${at}` }));
    const answers = await Promise.all(ranges.map((range) => load("b", key, range, sharing)));
    expect(new Set(statusesOf(answers))).toEqual(new Set([503]));
    expect(performance.now() - beganMs).toBeLessThan(5_000);
  });
});
