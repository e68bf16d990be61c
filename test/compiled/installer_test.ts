/** Tests the executable's installer tokens: a stored token, and the tokens of a GitHub App. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { type GitHubStandIn, startGitHubStandIn } from "../support/github_stand_in.ts";
import { type Installed, type Issued, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

const PATH = "/v1/installer/repo-token";
const STORED = "read_only_token_of_the_operator";

describe.skipIf(!isBuilt)("the executable's installer tokens", () => {
  let installed: Installed;
  let key: Issued;
  let host: GitHubStandIn;

  beforeAll(async () => {
    installed = install();
    host = await startGitHubStandIn({ clock: systemClock, folder: installed.place.folder });
    await installed.start();
    key = await installed.issue();
  });
  afterAll(async () => {
    await installed.remove();
    await host.close();
  });

  const get = () => installed.get(PATH, { "X-API-Key": key.api_key });
  const setToken = (more = "") =>
    installed.place.shell(
      `printf '%s' ${STORED} | ./claviger installer set-token --data-dir ${installed.dataDir} ${more}`,
    );

  test("are the stored token, or a refusal when none is stored", async () => {
    const none = { status: 503, body: { code: "NOT_CONFIGURED", message: expect.stringMatching(/\S/) } };
    expect(await get()).toMatchObject(none);
    expect(await setToken()).toMatchObject({ status: 0, err: "" });
    const expected = { success: true, repo_token: STORED, expires_at: null, message: expect.any(String) };
    expect((await get()).body).toEqual(expected);
    expect((await installed.post(PATH, { api_key: key.api_key })).body).toEqual(expected);
    expect((await installed.run(["installer", "clear-token"])).status).toBe(0);
    expect(await get()).toMatchObject(none);
    const audit = JSON.stringify(await installed.json(["audit", "--limit", "10"]));
    expect(audit).toContain("installer");
    expect(audit + installed.service.err()).not.toContain(STORED);
  });

  test("are refused to a wrong key before the token is looked up", async () => {
    expect((await setToken()).status).toBe(0);
    const statuses = [
      await installed.get(PATH),
      await installed.get(PATH, { "X-API-Key": "svc_live_1" }),
      await installed.get(PATH, { "X-API-Key": `svc_live_${"0a".repeat(24)}` }),
    ].map(({ status, body }) => [status, body.code]);
    expect(statuses).toEqual([
      [400, "MISSING_KEY"],
      [400, "INVALID_FORMAT"],
      [401, "INVALID_KEY"],
    ]);
  });

  test("are minted by a GitHub App on demand, once for all clients, and cached until they expire", async () => {
    const { appId, installationId, repository, apiUrl, privateKeyFile } = host.settings;
    const env = {
      CLAVIGER_GITHUB_APP_ID: appId,
      CLAVIGER_GITHUB_INSTALLATION_ID: installationId,
      CLAVIGER_GITHUB_REPOSITORY: repository,
      CLAVIGER_GITHUB_URL: apiUrl,
      CLAVIGER_GITHUB_PRIVATE_KEY_FILE: privateKeyFile ?? "",
    };
    await installed.service.stop("SIGINT");
    await installed.start({ env });
    const answers = await Promise.all(Array.from({ length: 20 }, get));
    expect(new Set(answers.map(({ body }) => body.repo_token))).toEqual(new Set(host.tokens));
    expect(host.seen).toHaveLength(1);
    expect(host.seen[0]?.wrong).toBeUndefined();
    const lifeMs = new Date(answers[0]?.body.expires_at).getTime() - Date.now();
    expect(lifeMs).toBeGreaterThan(50 * 60_000);
    expect(await installed.json(["doctor"], env)).toMatchObject({ ok: true });

    // A cached token is still handed out when the host does not answer.
    host.behave({ kind: "cut", after: "request" });
    expect(await get()).toMatchObject({ status: 200, body: { repo_token: host.tokens[0] } });
    expect(installed.service.err()).not.toContain(host.tokens[0]);
    await installed.service.stop("SIGINT");
    await installed.start({ env });
    expect(await get()).toMatchObject({
      status: 503,
      body: { code: "NOT_CONFIGURED", message: expect.stringMatching(/\S/) },
    });
    host.behave({ kind: "grant" });
  });
});
