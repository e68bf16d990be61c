import { afterEach, beforeEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal } from "../../support/answers.ts";
import { createTestClock, type TestClock } from "../../support/clock.ts";
import { call, ENDPOINTS } from "../../support/endpoints.ts";
import { HOUR_MS, startGitHubStandIn } from "../../support/github_stand_in.ts";
import { INSTALLER_TOKEN, setToken } from "../../support/installer.ts";
import { issueIn, UNKNOWN_KEY } from "../../support/keys.ts";
import { ON_NODE, startTestService } from "../../support/service.ts";
import { useForEach } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder();

let clock: TestClock;
beforeEach(() => {
  clock = createTestClock();
});
const host = useForEach(() => startGitHubStandIn({ clock, folder }));
const service = useForEach(() => startTestService({ clock, config: { gitHubApp: host.settings } }));
afterEach(() => {
  const log = service.logLines.join("\n");
  for (const secret of [...host.tokens, ...host.seen.map(({ jwt }) => jwt)])
    expect(log).not.toContain(secret);
});

const BOTH = [ENDPOINTS.getRepoToken, ENDPOINTS.postRepoToken];

for (const endpoint of BOTH) {
  test(`${endpoint.title} hands out a token of the GitHub App, and the same token again`, async () => {
    const key = await service.issue();
    const { status, body } = await call(service, endpoint, key.apiKey);
    expect(status).toBe(200);
    expect(body).toEqual({
      success: true,
      repo_token: host.tokens[0]!,
      expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      message: expect.stringMatching(/\S/),
    });
    const lifeMs = Date.parse(body.expires_at) - clock.now().getTime();
    expect(Math.abs(lifeMs - HOUR_MS)).toBeLessThan(5_000);
    expect((await call(service, endpoint, key.apiKey)).body).toEqual(body);
    expect(host.seen).toHaveLength(1);
  });

  test(`${endpoint.title} checks the key before it calls the host`, async () => {
    expectRefusal(await call(service, endpoint, undefined), 400, "MISSING_KEY");
    expectRefusal(await call(service, endpoint, "svc_live_1"), 400, "INVALID_FORMAT");
    expectRefusal(await call(service, endpoint, UNKNOWN_KEY), 401, "INVALID_KEY");
    const expired = await issueIn(service, "expired");
    expectRefusal(await call(service, endpoint, expired.apiKey), 401, "KEY_EXPIRED");
    expect(host.seen).toHaveLength(0);
  });

  test(`${endpoint.title} answers NOT_CONFIGURED while the host refuses, and hands out a token afterwards`, async () => {
    const key = await service.issue();
    host.behave({ kind: "answer", status: 404 });
    const answer = await call(service, endpoint, key.apiKey);
    expectRefusal(answer, 503, "NOT_CONFIGURED");
    expect(answer.headers.has("retry-after")).toBe(false);
    expect(answer.body.message).toMatch(/\S/);
    expect(service.logLines.join("\n")).toContain("CLAVIGER_GITHUB_INSTALLATION_ID");
    host.behave({ kind: "grant" });
    await service.advance(2_000);
    expect((await call(service, endpoint, key.apiKey)).body.repo_token).toBe(host.tokens[0]!);
  });
}

test("GET and POST /v1/installer/repo-token answer within five seconds while the host stalls", async () => {
  const key = await service.issue();
  host.behave({ kind: "stall", after: "headers" });
  const beganMs = performance.now();
  // Both wait for the same call of the host.
  for (const answer of await Promise.all(BOTH.map((endpoint) => call(service, endpoint, key.apiKey)))) {
    expectRefusal(answer, 503, "NOT_CONFIGURED");
    expect(answer.headers.get("retry-after")).toBe("1");
  }
  expect(performance.now() - beganMs).toBeLessThan(5_000);
});

test("GET /v1/installer/repo-token hands out the kept token while the host is away", async () => {
  const key = await service.issue();
  const before = await call(service, ENDPOINTS.getRepoToken, key.apiKey);
  await host.close();
  await service.advance(55 * 60_000);
  expect((await call(service, ENDPOINTS.getRepoToken, key.apiKey)).body).toEqual(before.body);
  await service.advance(10 * 60_000);
  expectRefusal(await call(service, ENDPOINTS.getRepoToken, key.apiKey), 503, "NOT_CONFIGURED");
});

test("GET /v1/installer/repo-token calls the host once for many requests at once", async () => {
  const key = await service.issue();
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => call(service, ENDPOINTS.getRepoToken, key.apiKey)),
  );
  expect(new Set(answers.map(({ body }) => body.repo_token))).toEqual(new Set(host.tokens));
  expect(host.seen).toHaveLength(1);
});

test("the service prefers the GitHub App to a token that the operator stored", async () => {
  await setToken(service);
  const key = await service.issue();
  expect((await call(service, ENDPOINTS.getRepoToken, key.apiKey)).body.repo_token).toBe(host.tokens[0]!);
  host.behave({ kind: "answer", status: 500 });
  await service.advance(2 * HOUR_MS);
  const answer = await call(service, ENDPOINTS.getRepoToken, key.apiKey);
  expectRefusal(answer, 503, "NOT_CONFIGURED");
  expect(JSON.stringify(answer.body)).not.toContain(INSTALLER_TOKEN);
});

test("the service stores tokens of the GitHub App in no table", async () => {
  const key = await service.issue();
  await call(service, ENDPOINTS.getRepoToken, key.apiKey);
  const rows = await service.database.query((sql) => sql`select 1 from installer_token`);
  expect(rows).toEqual([]);
});

test.skipIf(ON_NODE)("a service does not start with a key that it cannot use", async () => {
  const privateKeyFile = join(folder, "damaged.pem");
  writeFileSync(privateKeyFile, "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n");
  const gitHubApp = { ...host.settings, privateKeyFile };
  expect(startTestService({ on: service.testDatabase, config: { gitHubApp } })).rejects.toThrow(
    `Cannot use the GitHub App's private key ${privateKeyFile}: the key in it is damaged`,
  );
});
