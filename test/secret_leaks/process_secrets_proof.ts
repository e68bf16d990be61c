/**
 * The service runs with its own PostgreSQL and gets its secrets as operators give them. No secret may be in its log,
 * in the system's list of its processes, or anywhere in its data folder.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { generateApiKey } from "../../src/licensing/keys/mod.ts";
import { APP_KEYS, type GitHubStandIn, startGitHubStandIn } from "../support/github_stand_in.ts";
import { INSTALLER_TOKEN } from "../support/installer.ts";
import { BRAND } from "../support/issue.ts";
import { type ServiceProcess, SOURCE, spawnService, toServeCommand } from "../support/service_process.ts";
import { openStopped } from "../support/stopped_database.ts";
import { useFolder } from "../support/use_folder.ts";
import { descendantsOf, searchProcesses, searchTables } from "./places.ts";
import { createSecretSearch } from "./secret_search.ts";

/** Its own, because other tests run processes with the secret of all tests at the same time. */
const ROOT_SECRET = randomBytes(32).toString("hex");

const folder = useFolder();
// Root runs PostgreSQL as another user, who needs access to this folder.
chmodSync(folder, 0o711);
const dataDir = join(folder, "data");
const place = ["--data-dir", dataDir, "--env-file", "/dev/null"];
let service: ServiceProcess;
let gitHub: GitHubStandIn;
let env: Record<string, string>;

beforeAll(async () => {
  gitHub = await startGitHubStandIn({ clock: systemClock, folder });
  const { appId, installationId, privateKeyFile, repository, apiUrl } = gitHub.settings;
  env = {
    CLAVIGER_SECRET: ROOT_SECRET,
    CLAVIGER_LOG_REQUESTS: "all",
    CLAVIGER_GITHUB_APP_ID: appId,
    CLAVIGER_GITHUB_INSTALLATION_ID: installationId,
    CLAVIGER_GITHUB_PRIVATE_KEY_FILE: privateKeyFile ?? "",
    CLAVIGER_GITHUB_REPOSITORY: repository,
    CLAVIGER_GITHUB_URL: apiUrl,
  };
});

afterAll(async () => {
  await service.end();
  await gitHub.close();
});

async function run(args: readonly string[], input = ""): Promise<string> {
  const child = Bun.spawn([...SOURCE, ...args, ...place], { cwd: folder, env, stdin: new Blob([input]) });
  const out = await child.stdout.text();
  if ((await child.exited) !== 0) throw new Error(`${args.join(" ")} failed`);
  return out;
}

test("A service with its own database writes no secret to its log, its process list or its data folder", async () => {
  service = spawnService(toServeCommand(SOURCE, ["--data-dir", dataDir]), { cwd: folder, env, dataDir });
  await service.untilServing();
  const { url } = service;
  const issue = async (email: string): Promise<string> =>
    JSON.parse(await run(["keys", "issue", "--email", email, "--tier", "research", "--json"])).api_key;
  const keys = [await issue("a@example.org"), await issue("b@example.org")];
  await run(["installer", "set-token"], INSTALLER_TOKEN);
  const unknown = generateApiKey(BRAND, "live").apiKey;
  const minted: string[] = [];

  for (const apiKey of [...keys, unknown]) {
    const headers = { "X-API-Key": apiKey };
    const post = (path: string, body: object) =>
      fetch(url + path, { method: "POST", body: JSON.stringify({ api_key: apiKey, ...body }) });
    await post("/v1/auth/validate", {});
    await post("/v1/auth/refresh", { api_key: `${apiKey}0` });
    await post("/v1/analytics/log", {
      event_type: "error",
      error_message: apiKey,
      metadata: { [apiKey]: apiKey },
    });
    await fetch(`${url}/v1/models/list?api_key=${apiKey}&type=${apiKey}`);
    await fetch(`${url}/${encodeURIComponent(apiKey)}?${apiKey}=${apiKey}`, { headers });
    const answer = await fetch(`${url}/v1/installer/repo-token`, { headers });
    const token = /"repo_token":"([^"]+)"/.exec(await answer.text())?.[1];
    if (token !== undefined) minted.push(token);
    // The second key is not revoked.
    if (apiKey !== keys[1]) await post("/v1/auth/revoke", { reason: `lost ${apiKey} at /${apiKey}` });
  }
  expect(minted).toHaveLength(2);

  const search = createSecretSearch();
  search.add([
    ...[...keys, unknown].map((value) => ({ name: "key", value })),
    ...minted.map((value) => ({ name: "minted token", value })),
    { name: "installer token", value: INSTALLER_TOKEN },
    { name: "root secret", value: ROOT_SECRET },
    { name: "root secret as bytes", value: Buffer.from(ROOT_SECRET, "hex").toString("base64") },
    { name: "private key", value: APP_KEYS.privateKey },
    ...gitHub.seen.map(({ jwt }) => ({ name: "JWT", value: jwt.slice(jwt.lastIndexOf(".") + 1) })),
  ]);

  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const below = descendantsOf(service.pid, pids.map(Number));
  expect(below.length).toBeGreaterThan(3);
  // Given: the service has its secret in its environment. Then: the processes that it starts do not.
  const shown = searchProcesses(search).found;
  expect(shown.filter((each) => !each.startsWith(`/proc/${service.pid}/environ`))).toEqual([]);
  expect(shown).not.toEqual([]);

  expect(await service.stop()).toBe(0);
  expect(service.err()).toContain("/v1/auth/validate");
  expect(search.find(service.out() + service.err())).toEqual([]);

  const leaks: string[] = [];
  let files = 0;
  for (const entry of readdirSync(dataDir, { recursive: true, withFileTypes: true })) {
    // The programs of PostgreSQL are the same in every installation, so they are left out.
    if (!entry.isFile() || entry.parentPath.includes("/postgres-")) continue;
    files++;
    for (const each of search.find(readFileSync(join(entry.parentPath, entry.name), "latin1"))) {
      leaks.push(`${entry.name}: ${each}`);
    }
  }
  expect(files).toBeGreaterThan(500);
  expect(leaks).toEqual([]);

  await using database = await openStopped(dataDir);
  const { found, searched } = await searchTables(database, search);
  expect(searched).toBeGreaterThan(10);
  expect(found).toEqual([]);
});
