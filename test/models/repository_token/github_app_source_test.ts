import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLog } from "../../../src/base/log.ts";
import { isRefusal, type Refusal } from "../../../src/base/refusal.ts";
import {
  createGitHubAppSource,
  type GitHubAppSource,
  type InstallerToken,
  openGitHubApp,
  tryGitHubApp,
} from "../../../src/models/repository_token/mod.ts";
import { createTestClock, type TestClock } from "../../support/clock.ts";
import {
  type Behaviour,
  type GitHubStandIn,
  HOUR_MS,
  startGitHubStandIn,
} from "../../support/github_stand_in.ts";
import { until } from "../../support/until.ts";
import { useFolder } from "../../support/use_folder.ts";

const MINUTE_MS = 60_000;
const folder = useFolder();

let clock: TestClock;
let host: GitHubStandIn;
let source: GitHubAppSource;
let log: string[];

beforeEach(async () => {
  clock = createTestClock();
  host = await startGitHubStandIn({ clock, folder });
  source = open();
});
afterEach(async () => {
  await source.stop();
  await host.close();
  // No token, JWT or key may be in the log, whatever the test did.
  for (const secret of [...host.tokens, ...host.seen.map(({ jwt }) => jwt), "ghs_", "PRIVATE KEY"]) {
    if (secret !== "") expect(log.join("")).not.toContain(secret);
  }
});

function open(settings = host.settings): GitHubAppSource {
  const app = openGitHubApp(settings);
  if (isRefusal(app)) throw new Error(app.sentence);
  log = [];
  return createGitHubAppSource({
    app,
    clock,
    log: createLog({ format: "text", clock, write: (line) => void log.push(line) }),
  });
}

async function token(from = source): Promise<string> {
  const current = await from.current();
  if (isRefusal(current)) throw new Error(current.sentence);
  return current.token;
}

async function refused(): Promise<Refusal> {
  const current = await source.current();
  if (!isRefusal(current)) throw new Error("A token was handed out");
  expect(current.code).toBe("NOT_CONFIGURED");
  expect(current.sentence).toMatch(/\S/);
  return current;
}

function leftMs({ expiresAt }: InstallerToken): number {
  return (expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) - clock.now().getTime();
}

describe("a token from the host", () => {
  test("is requested with a signed JWT, for one repository, with permission only to read contents", async () => {
    const current = await source.current();
    expect(host.seen).toMatchObject([{ wrong: undefined }]);
    expect(current).toEqual({ token: host.tokens[0]!, expiresAt: expect.any(Date) });
    expect(Math.abs(leftMs(current as InstallerToken) - HOUR_MS)).toBeLessThan(2_000);
    const claims = JSON.parse(atob(host.seen[0]!.jwt.split(".")[1]!));
    const nowSeconds = clock.now().getTime() / 1_000;
    expect(nowSeconds - claims.iat).toBeWithin(60, 65);
    expect(claims.exp - nowSeconds).toBeWithin(500, 600);
    expect(source.stats()).toEqual({ minted: 1, failed: 0 });
  });

  test("is requested once for many callers at once", async () => {
    const all = await Promise.all(Array.from({ length: 50 }, () => token()));
    expect(new Set(all)).toEqual(new Set(host.tokens));
    expect(host.seen).toHaveLength(1);
    await token();
    expect(host.seen).toHaveLength(1);
  });

  test("is not requested before a caller needs it", async () => {
    // A request would arrive within this time, and must not.
    await Bun.sleep(20);
    expect(host.seen).toHaveLength(0);
  });

  test("is replaced in the background when it has less than 15 minutes left", async () => {
    await token();
    clock.advance(44 * MINUTE_MS);
    expect(await token()).toBe(host.tokens[0]!);
    expect(host.seen).toHaveLength(1);
    clock.advance(2 * MINUTE_MS);
    expect(await token()).toBe(host.tokens[0]!);
    await until(() => source.stats().minted === 2);
    expect(await token()).toBe(host.tokens[1]!);
    expect(host.seen).toHaveLength(2);
  });

  test("is handed out while it is being replaced, without waiting for a host that stalls", async () => {
    await token();
    clock.advance(46 * MINUTE_MS);
    host.behave({ kind: "stall", after: "request" });
    const beganMs = performance.now();
    expect(await token()).toBe(host.tokens[0]!);
    expect(performance.now() - beganMs).toBeLessThan(2_500);
  });

  test("is never handed out with less than ten minutes left while the host gives new tokens", async () => {
    for (let minute = 0; minute < 180; minute++) {
      const current = await source.current();
      expect(leftMs(current as InstallerToken)).toBeGreaterThanOrEqual(10 * MINUTE_MS);
      clock.advance(MINUTE_MS + 137);
    }
    expect(host.seen.length).toBeWithin(3, 6);
  });

  test("is replaced before the answer when it has less than ten minutes left", async () => {
    await token();
    clock.advance(50 * MINUTE_MS);
    expect(await token()).toBe(host.tokens[1]!);
  });

  test("expires as soon as the wall clock or the monotonic clock says so", async () => {
    await token();
    clock.setWall(new Date(clock.now().getTime() - 10 * HOUR_MS).toISOString());
    clock.advance(55 * MINUTE_MS);
    expect(await token()).toBe(host.tokens[1]!);
    clock.setWall(new Date(clock.now().getTime() + 55 * MINUTE_MS).toISOString());
    expect(await token()).toBe(host.tokens[2]!);
  });
});

describe("a token that the host should not have given", () => {
  const wide: [what: string, change: object][] = [
    ["may write contents", { permissions: { contents: "write", metadata: "read" } }],
    ["may write something else", { permissions: { contents: "read", issues: "write" } }],
    ["administers", { permissions: { contents: "read", administration: "admin" } }],
    ["may not read contents", { permissions: { metadata: "read" } }],
    ["is for all repositories", { repository_selection: "all" }],
    ["is for two repositories", { repositories: [{ name: "core-package" }, { name: "other" }] }],
    ["is for another repository", { repositories: [{ name: "other" }] }],
  ];
  test.each(wide)("is refused: it %s", async (_, change) => {
    host.behave({ kind: "grant", change });
    expect((await refused()).sentence).toContain("access to the repository is not set up");
    expect(log.join("")).toContain("may do more than read core-package");
  });

  test("does not replace a good token", async () => {
    await token();
    host.behave({ kind: "grant", change: { permissions: { contents: "write" } } });
    clock.advance(52 * MINUTE_MS);
    expect(await token()).toBe(host.tokens[0]!);
  });

  test("is refused if it expires in less than eleven minutes", async () => {
    host.behave({ kind: "grant", lifeMs: 10.9 * MINUTE_MS });
    await refused();
    expect(log.join("")).toContain("but at least 660 are needed");
    clock.advance(MINUTE_MS);
    host.behave({ kind: "grant", lifeMs: 11.1 * MINUTE_MS });
    await token();
  });

  test("is accepted if the answer does not describe its permissions", async () => {
    const change = { permissions: undefined, repository_selection: undefined, repositories: undefined };
    host.behave({ kind: "grant", change });
    expect(await token()).toBe(host.tokens[0]!);
  });

  test("is accepted if the host writes the repository's name in capitals", async () => {
    host.behave({ kind: "grant", change: { repositories: [{ name: "Core-Package" }] } });
    await token();
  });
});

/** What a client is told: a sentence that ends with these words, and after how many seconds to try again. */
type Told = readonly [sentence: string, retryAfterSeconds: number | undefined];
const AWAY: Told = ["its host does not answer; try again later", 1];
const FAILS: Told = ["its host fails; try again later", 1];
const LIMITS: Told = ["its host limits requests; try again later", 1];
const NOT_SET_UP: Told = ["access to the repository is not set up; ask its operator", undefined];

const expiresAt = new Date(Date.now() + HOUR_MS).toISOString();
const failures: [what: string, behaviour: Behaviour, logged: string, told: Told][] = [
  ["answers 500", { kind: "answer", status: 500, body: "oops" }, "status 500", FAILS],
  ["answers 502 with HTML", { kind: "answer", status: 502, body: "<html>" }, "status 502", FAILS],
  ["answers 200", { kind: "answer", status: 200, body: "{}" }, "status 200", FAILS],
  ["answers 401", { kind: "answer", status: 401 }, "CLAVIGER_GITHUB_APP_ID", NOT_SET_UP],
  ["answers 403", { kind: "answer", status: 403 }, "suspended", NOT_SET_UP],
  ["answers 404", { kind: "answer", status: 404 }, "CLAVIGER_GITHUB_INSTALLATION_ID", NOT_SET_UP],
  ["answers 422", { kind: "answer", status: 422 }, "CLAVIGER_GITHUB_REPOSITORY", NOT_SET_UP],
  ["answers 429", { kind: "answer", status: 429 }, "status 429", LIMITS],
  [
    "limits requests by 403",
    { kind: "answer", status: 403, headers: { "Retry-After": "60" } },
    "status 403",
    [LIMITS[0], 60],
  ],
  [
    "answers 403 with x-ratelimit-remaining 0",
    { kind: "answer", status: 403, headers: { "X-RateLimit-Remaining": "0" } },
    "status 403",
    LIMITS,
  ],
  ["cuts the connection", { kind: "cut", after: "request" }, "cannot be reached", AWAY],
  ["cuts its answer", { kind: "cut", after: "headers" }, "GitHub host", AWAY],
  ["sends an endless answer", { kind: "flood" }, "not a token:", FAILS],
  ["answers no JSON", { kind: "answer", status: 201, body: "ghs_" }, "not a token:", FAILS],
  ["answers nothing", { kind: "answer", status: 201 }, "not a token:", FAILS],
  ["answers null", { kind: "answer", status: 201, body: "null" }, "not a token:", FAILS],
  ["gives no token", { kind: "grant", change: { token: undefined } }, "not a token:", FAILS],
  ["gives a token of two lines", { kind: "grant", change: { token: "ghs_a\nb" } }, "not a token:", FAILS],
  ["gives an empty token", { kind: "grant", change: { token: "" } }, "not a token:", FAILS],
  ["gives a number", { kind: "grant", change: { token: 7 } }, "not a token:", FAILS],
  ["gives the expiry null", { kind: "grant", change: { expires_at: null } }, "not a token:", FAILS],
  ["gives the expiry never", { kind: "grant", change: { expires_at: "never" } }, "not a token:", FAILS],
  ["gives a token that expires at once", { kind: "grant", lifeMs: 1 }, "at least 660 are needed", FAILS],
  ["gives permissions as text", { kind: "grant", change: { permissions: "all" } }, "not a token:", FAILS],
  [
    "answers more than 256 KiB",
    {
      kind: "answer",
      status: 201,
      body: JSON.stringify({ token: "ghs_x", expires_at: expiresAt, more: "x".repeat(256 * 1024) }),
    },
    "not a token:",
    FAILS,
  ],
  [
    "redirects",
    { kind: "answer", status: 307, headers: { Location: "/elsewhere" } },
    "redirects, and Claviger follows no redirect",
    NOT_SET_UP,
  ],
];

describe("tryGitHubApp()", () => {
  test("distinguishes an App that mints, a wrong App, and a host that is away", async () => {
    const app = openGitHubApp(host.settings);
    if (isRefusal(app)) throw new Error(app.sentence);
    const look = () => tryGitHubApp(app, { clock });
    expect(await look()).toBeUndefined();
    host.setClock({ aheadMs: 3_600_000, tellsDate: true });
    expect(await look()).toBeUndefined();
    expect(await tryGitHubApp({ ...app, installationId: "1" }, { clock })).toMatchObject({ kind: "refused" });
    host.behave({ kind: "answer", status: 401 });
    expect(await look()).toMatchObject({ kind: "refused" });
    host.behave({ kind: "stall", after: "headers" });
    const beganMs = performance.now();
    expect(await look()).toMatchObject({ kind: "away" });
    expect(performance.now() - beganMs).toBeLessThan(10_000);
  });
});

describe("a host that", () => {
  test.each(failures)(
    "%s gives no token, and an earlier token is handed out until its last minute",
    async (_, behaviour, logged, [sentence, retryAfterSeconds]) => {
      host.behave(behaviour);
      const refusal = await refused();
      expect(refusal.sentence).toEndWith(sentence);
      expect(refusal.retryAfterSeconds).toBe(retryAfterSeconds);
      expect(log).toEqual([expect.stringContaining(logged)]);
      expect(host.seen).toHaveLength(1);
      expect(source.stats()).toEqual({ minted: 0, failed: 1 });

      // After that time, the next request calls the host.
      host.behave({ kind: "grant" });
      clock.advance((retryAfterSeconds ?? 2) * 1_000);
      const kept = await token();
      expect(host.seen).toHaveLength(2);

      host.behave(behaviour);
      clock.advance(58 * MINUTE_MS);
      expect(await token()).toBe(kept);
      expect(source.stats()).toEqual({ minted: 1, failed: 2 });
      clock.advance(MINUTE_MS);
      await refused();
    },
  );

  test("sends an endless answer is read only up to the limit", async () => {
    host.behave({ kind: "flood" });
    await refused();
    // Time for the bytes in flight to arrive.
    await Bun.sleep(50);
    const flooded = host.flooded();
    expect(flooded).toBeLessThan(4 * 1024 * 1024);
    // More bytes would arrive within this time, and must not.
    await Bun.sleep(50);
    expect(host.flooded()).toBe(flooded);
  });

  test("redirects does not pass the JWT to another address", async () => {
    host.behave({ kind: "answer", status: 302, headers: { Location: `${host.settings.apiUrl}/elsewhere` } });
    await refused();
    expect(host.seen.map(({ path }) => path)).toEqual(["/api/v3/app/installations/4711/access_tokens"]);
  });

  for (const after of ["request", "headers"] as const) {
    test(`stalls after the ${after} delays all callers together by three seconds`, async () => {
      host.behave({ kind: "stall", after });
      const beganMs = performance.now();
      await Promise.all([refused(), refused(), refused()]);
      expect(performance.now() - beganMs).toBeWithin(2_800, 5_600);
      expect(log.join("")).toContain("did not answer in time");
      expect(host.seen).toHaveLength(1);
      // During the backoff, a caller does not wait.
      const againMs = performance.now();
      await refused();
      expect(performance.now() - againMs).toBeLessThan(2_500);
    });
  }

  test("does not listen is logged with the name of the error", async () => {
    await host.close();
    await refused();
    expect(log.join("")).toMatch(/cannot be reached: (ConnectionRefused|ECONNREFUSED)/);
  });

  test("fails is called at most seven times in any minute, and is used again when it works", async () => {
    host.behave({ kind: "answer", status: 500 });
    const askedAtMs: number[] = [];
    for (let second = 0; second < 600; second++) {
      const before = host.seen.length;
      await Promise.all([refused(), refused()]);
      for (let i = before; i < host.seen.length; i++) askedAtMs.push(second * 1_000);
      clock.advance(1_000);
    }
    for (const atMs of askedAtMs) {
      expect(askedAtMs.filter((other) => other >= atMs && other < atMs + 60_000).length).toBeLessThan(8);
    }
    // The calls never stop.
    expect(askedAtMs.at(-1)).toBeGreaterThan(560_000);

    host.behave({ kind: "grant" });
    clock.advance(30_000);
    await token();
    expect(log.at(-1)).toContain("gives tokens again");

    // The success resets the backoff: the next failure counts as the first.
    host.behave({ kind: "answer", status: 500 });
    clock.advance(HOUR_MS);
    await refused();
    const asked = host.seen.length;
    clock.advance(1_100);
    await refused();
    expect(host.seen).toHaveLength(asked + 1);
  });

  test("sends Retry-After is not called before that time, ten minutes at most", async () => {
    host.behave({ kind: "answer", status: 429, headers: { "Retry-After": "120" } });
    await refused();
    clock.advance(115_000);
    await refused();
    expect(host.seen).toHaveLength(1);
    clock.advance(10_000);
    host.behave({ kind: "answer", status: 403, headers: { "Retry-After": "999999" } });
    await refused();
    expect(host.seen).toHaveLength(2);
    host.behave({ kind: "grant" });
    clock.advance(10 * MINUTE_MS);
    await token();
  });

  test("tells the end of its limit by its own clock is not called before that time", async () => {
    const aheadMs = 30_000;
    host.setClock({ aheadMs, tellsDate: true });
    const resetAt = Math.floor((clock.now().getTime() + aheadMs) / 1_000) + 120;
    const headers = { "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": String(resetAt) };
    host.behave({ kind: "answer", status: 403, headers });
    expect((await refused()).retryAfterSeconds).toBeWithin(118, 123);
    clock.advance(115_000);
    await refused();
    expect(host.seen).toHaveLength(1);
    clock.advance(10_000);
    host.behave({
      kind: "answer",
      status: 403,
      headers: { ...headers, "X-RateLimit-Reset": "999999999999" },
    });
    expect((await refused()).retryAfterSeconds).toBe(600);
    clock.advance(600_000);
    host.behave({ kind: "grant" });
    await token();
  });
});

describe("a clock that differs from the host's", () => {
  const minutes = [-700, -12, -9, -2, 0.9, 2, 9, 12, 700];
  test.each(minutes)("by %d minutes does not prevent a token", async (minutes) => {
    host.setClock({ aheadMs: minutes * MINUTE_MS, tellsDate: true });
    const current = await source.current();
    expect(host.tokens).toHaveLength(1);
    expect(current).toMatchObject({ token: host.tokens[0]! });
    // The life of the token is counted in the host's time: it is too old 50 minutes later, and not before.
    clock.advance(43 * MINUTE_MS);
    expect(await token()).toBe(host.tokens[0]!);
    clock.advance(7 * MINUTE_MS);
    expect(await token()).toBe(host.tokens[1]!);
    const refusals = host.seen.filter(({ wrong }) => wrong !== undefined);
    expect(refusals.length).toBeLessThan(2);
    if (refusals.length > 0) expect(log.join("")).toContain("set this machine's clock with a time server");
  });

  test("is measured again after the clock is set right", async () => {
    host.setClock({ aheadMs: 20 * MINUTE_MS, tellsDate: true });
    await token();
    host.setClock({ aheadMs: 0, tellsDate: true });
    clock.advance(55 * MINUTE_MS);
    await token();
    expect(host.tokens).toHaveLength(2);
    expect(host.seen).toHaveLength(4);
  });

  test("causes no second call if the host does not send its time", async () => {
    host.setClock({ aheadMs: 20 * MINUTE_MS, tellsDate: false });
    await refused();
    expect(host.seen).toMatchObject([{ wrong: "exp" }]);
  });
});

test("the host refuses a key of another App once, and the log says what to correct", async () => {
  const other = join(folder, "other.pem");
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
  writeFileSync(other, privateKey.export({ type: "pkcs8", format: "pem" }));
  source = open({ ...host.settings, privateKeyFile: other });
  expect((await refused()).sentence).toEndWith("ask its operator");
  expect(host.seen).toMatchObject([{ wrong: "signature" }]);
  expect(log.join("")).toContain("must be of the same App");
});

test("stop() aborts the call in progress, and no call follows", async () => {
  host.behave({ kind: "stall", after: "request" });
  const asked = refused();
  await until(() => host.seen.length === 1);
  const beganMs = performance.now();
  await source.stop();
  await asked;
  expect(performance.now() - beganMs).toBeLessThan(500);
  await refused();
  expect(host.seen).toHaveLength(1);
  expect(log).toEqual([]);
});
