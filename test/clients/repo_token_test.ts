import { afterEach, expect, test } from "bun:test";
import { clearInstallerToken } from "../../src/models/repository_token/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { INSTALLER_TOKEN, setToken } from "../support/installer.ts";
import { issueIn, UNKNOWN_KEY } from "../support/keys.ts";
import { createStandingClock } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const BOTH = [ENDPOINTS.getRepoToken, ENDPOINTS.postRepoToken];
const actor = { kind: "command", name: "test" } as const;

const service = useTestService({ clock: createStandingClock() });

afterEach(() => clearInstallerToken(service.database, { actor, now: service.clock.now() }));

for (const endpoint of BOTH) {
  test(`${endpoint.title} returns the token`, async () => {
    await setToken(service);
    const key = await service.issue();
    const { status, body } = await call(service, endpoint, key.apiKey);
    expect(status).toBe(200);
    expect(body).toEqual({
      success: true,
      repo_token: INSTALLER_TOKEN,
      expires_at: null,
      message: expect.stringMatching(/\S/),
    });
  });

  test(`${endpoint.title} returns the time at which the token expires`, async () => {
    await setToken(service, new Date("2099-01-02T03:04:05Z"));
    const key = await service.issue();
    const { body } = await call(service, endpoint, key.apiKey);
    expect(body.expires_at).toBe("2099-01-02T03:04:05Z");
  });

  test(`${endpoint.title} answers NOT_CONFIGURED without a token`, async () => {
    const key = await service.issue();
    const answer = await call(service, endpoint, key.apiKey);
    expectRefusal(answer, 503, "NOT_CONFIGURED");
    expect(answer.body.message).toMatch(/\S/);
  });

  test(`${endpoint.title} answers NOT_CONFIGURED from the second at which the token expires`, async () => {
    await setToken(service, new Date(service.clock.now().getTime() + 60_000));
    const key = await service.issue();
    await service.advance(59_000);
    expect(await call(service, endpoint, key.apiKey)).toMatchObject({ status: 200 });
    await service.advance(1_000);
    const answer = await call(service, endpoint, key.apiKey);
    expectRefusal(answer, 503, "NOT_CONFIGURED");
    expect(JSON.stringify(answer.body)).not.toContain(INSTALLER_TOKEN);
  });

  test(`${endpoint.title} refuses the key before it looks for a token`, async () => {
    expectRefusal(await call(service, endpoint, undefined), 400, "MISSING_KEY");
    expectRefusal(await call(service, endpoint, "svc_live_1"), 400, "INVALID_FORMAT");
    expectRefusal(await call(service, endpoint, UNKNOWN_KEY), 401, "INVALID_KEY");
    const expired = await issueIn(service, "expired");
    expectRefusal(await call(service, endpoint, expired.apiKey), 401, "KEY_EXPIRED");
  });
}

test("HEAD /v1/installer/repo-token does not return the token", async () => {
  await setToken(service);
  const key = await service.issue();
  const { status, headers, body } = await service.send("/v1/installer/repo-token", {
    method: "HEAD",
    headers: { "X-API-Key": key.apiKey },
  });
  expect(status).toBe(405);
  expect(body).toBeUndefined();
  expect(JSON.stringify([...headers])).not.toContain(INSTALLER_TOKEN);
});
