/** The limit on files: 60 a minute for each key, all ranges of one counting once. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { IssuedKey } from "../../src/keys/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import {
  addHostedModel,
  type HostingService,
  linkTo,
  startHostingService,
  testBytes,
} from "../support/hosted.ts";
import { issueIn, UNKNOWN_KEY } from "../support/keys.ts";
import { startTestService } from "../support/service.ts";

const NO_LIMITS = { validate: 0, refresh: 0, revoke: 0, repo_token: 0, models: 0, analytics: 0 };
const FILES = ["a", "b", "c", "d"];

let service: HostingService;

beforeAll(async () => {
  service = await startHostingService({ config: { limits: { ...NO_LIMITS, downloads: 3 } } });
  for (const [index, name] of FILES.entries()) await addHostedModel(service, { name }, testBytes(100, index));
});
afterAll(() => service.close());

interface Answered {
  readonly status: number;
  readonly headers: Headers;
}

async function load(name: string, key: IssuedKey, headers: Record<string, string> = {}): Promise<Answered> {
  const url = `${service.url}/v1/models/download/${name}/1.0.0`;
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

test("GET /v1/models/download admits so many files a minute, and says how many are left", async () => {
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

test("GET /v1/models/download counts all ranges of a link once, a hundred at the same time too", async () => {
  const key = await service.issue();
  const link = await linkTo(service, key.apiKey, "a");
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, index) => follow(link, { Range: `bytes=${index}-${index}` })),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(206));
  expect(answers.map(remaining)).toEqual(Array(100).fill(2));
  // HEAD, the whole file and a range that is none are of the same link.
  expect((await fetch(link, { method: "HEAD" })).headers.get("x-ratelimit-remaining")).toBe("2");
  expect(remaining(await follow(link))).toBe(2);
  expect(remaining(await follow(link, { Range: "bytes=500-" }))).toBe(2);
});

test("GET /v1/models/download counts another link to the same file, and each file by itself", async () => {
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
  for (let times = 0; times < 5; times++)
    expect(remaining(await load("a", key, { Range: "bytes=0-1" }))).toBe(2);
  await service.advance(14 * 60_000);
  expect(remaining(await load("a", key, { Range: "bytes=0-1" }))).toBe(3);
  await service.advance(61_000);
  expect(remaining(await load("a", key, { Range: "bytes=0-1" }))).toBe(2);
});

test("GET /v1/models/download counts by key: a neighbour at the same address is not touched", async () => {
  const [one, other] = [await service.issue(), await service.issue()];
  for (const name of FILES) await load(name, one);
  expect((await load("d", one)).status).toBe(429);
  expect(remaining(await load("a", other))).toBe(2);
});

test("GET /v1/models/download counts each try for what is not there or not allowed", async () => {
  await addHostedModel(service, { name: "high", requiresLicense: "enterprise" }, testBytes(10, 9));
  for (const [name, status] of [
    ["nothing", 404],
    ["high", 403],
  ] as const) {
    const key = await service.issue();
    const statuses: number[] = [];
    for (let times = 0; times < 4; times++) statuses.push((await load(name, key)).status);
    expect(statuses).toEqual([status, status, status, 429]);
  }
});

test("GET /v1/models/download bounds guessing by address, and lets good links through all the same", async () => {
  const own = await startHostingService({ config: { limits: { ...NO_LIMITS, downloads: 3 } } });
  try {
    await addHostedModel(own, { name: "a" }, testBytes(10));
    const link = await linkTo(own, (await own.issue()).apiKey, "a");
    const path = link.slice(own.url.length);
    const forged = path.replace(/signature=.{5}/, "signature=AAAAA");
    const statuses: number[] = [];
    for (let times = 0; times < 3; times++) statuses.push((await own.get(forged)).status);
    statuses.push((await own.get(forged)).status);
    statuses.push((await own.get("/v1/models/download/a/1.0.0", { "X-API-Key": UNKNOWN_KEY })).status);
    expect(statuses).toEqual([401, 401, 401, 429, 429]);
    const revoked = await issueIn(own, "revoked");
    expect((await own.get("/v1/models/download/a/1.0.0", { "X-API-Key": revoked.apiKey })).status).toBe(429);
    expect((await follow(link)).status).toBe(200);
  } finally {
    await own.close();
  }
});

test("GET /v1/models/download has the contract's limit of 60 by default, and 0 switches it off", async () => {
  const { config } = service;
  const standard = await startTestService({
    on: service.testDatabase,
    limits: "default",
    config: { dataDir: config.dataDir },
  });
  const open = await startTestService({ on: service.testDatabase, config: { dataDir: config.dataDir } });
  try {
    const { apiKey } = await service.issue();
    for (const [{ url }, limit] of [
      [standard, "60"],
      [open, null],
    ] as const) {
      const response = await fetch(`${url}/v1/models/download/a/1.0.0`, { headers: { "X-API-Key": apiKey } });
      expect(response.status).toBe(200);
      expect(response.headers.get("x-ratelimit-limit")).toBe(limit);
    }
  } finally {
    await standard.close();
    await open.close();
  }
});
