/** Tests `claviger keys why` while a service runs: the command shows the refusals of the service. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  createCommandLine,
  createIssuer,
  type Issued,
  type RunningService,
  refusalOf,
} from "./command_line.ts";
import { postJson } from "./use_command_line.ts";

const line = createCommandLine({ prepared: true });
const env = { CLAVIGER_LIMIT_REFRESH: "2", CLAVIGER_LIMIT_VALIDATE: "0", CLAVIGER_STOP_GRACE: "0" };
let service: RunningService;

beforeAll(async () => {
  service = await line.serve([], { env });
});
afterAll(async () => {
  await service.stop();
  line.remove();
});

const issue = createIssuer(line);

const post = async (path: string, { api_key }: Issued, fields = {}) =>
  (await postJson(service.url + path, { api_key, ...fields })).status;

/** Restarts the service, because refusals are written some seconds later or when the service ends. */
async function restart(): Promise<void> {
  await service.stop();
  service = await line.serve([], { env });
}

/** Returns the page with changing values masked; checks that no line is too long for a terminal. */
async function pageOf({ id }: Pick<Issued, "id">): Promise<string> {
  const { status, out, err } = await line.here(["keys", "why", id], { env });
  expect({ status, err }).toEqual({ status: 0, err: "" });
  expect(out.split("\n").filter((text) => text.length > 80)).toEqual([]);
  return out
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, "TIME")
    .replaceAll(/key_[0-9a-f]{32}/g, "key_ID")
    .replaceAll(/[0-9a-f]{4}…[0-9a-f]{4}/g, "HINT");
}

describe("claviger keys why", () => {
  test("shows state, limits, the month's use, the last refusals, and what to do next", async () => {
    const key = await issue("--monthly-limit", "1234");
    expect(await post("/v1/analytics/log", key, { event_type: "inference" })).toBe(202);
    for (const status of [200, 200, 429, 429]) expect(await post("/v1/auth/refresh", key)).toBe(status);
    await line.json([
      "keys",
      "suspend",
      key.id,
      "--reason",
      `the invoice of March is open; ${"x".repeat(70)}`,
    ]);
    await restart();
    for (let round = 0; round < 3; round++) expect(await post("/v1/auth/validate", key)).toBe(401);
    await restart();

    expect(await pageOf(key)).toBe(`key          key_ID svc_live_HINT
account      ${key.email}
tier         research, live
state        suspended since TIME
by           command:olga (key.suspend)
reason       the invoice of March is open;
             xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
             xxx
expires      TIME
quota        1 of 1,234 inferences used this month (the license's own limit);
             resets at TIME
limits       requests a minute: validate unlimited, refresh 2, revoke 10,
             license 10, repo_token 20, models 60, downloads 60,
             analytics 1,000, analytics_batch 10, machine_activate 60,
             machine_heartbeat 60, machine_release 60, machine_list 60
last used    TIME

LAST REFUSED          COUNT  CODE                 REASON
TIME      3  INVALID_KEY          suspended
TIME      2  RATE_LIMIT_EXCEEDED  refresh

The key is suspended. When the cause is settled, resume it:
  claviger keys resume key_ID

Some requests were refused because there were too many (2 refused in the last
hour): the client must wait as long as the answer says.
`);
    expect(await line.json(["keys", "why", key.id], { env })).toMatchObject({
      id: key.id,
      state: "suspended",
      change: { action: "key.suspend", actor: "command:olga" },
      obstacles: ["suspended", "too_many_requests"],
      quota: { monthly_limit: 1234, used: 1, remaining: 1233 },
      limits: { validate: null, refresh: 2 },
      refusals: [
        { code: "INVALID_KEY", reason: "suspended", count: 3 },
        { code: "RATE_LIMIT_EXCEEDED", reason: "refresh", count: 2 },
      ],
    });

    await line.json(["keys", "resume", key.id]);
    expect(await pageOf(key)).toEndWith(`
TIME      2  RATE_LIMIT_EXCEEDED  refresh

Some requests were refused because there were too many (2 refused in the last
hour): the client must wait as long as the answer says.
`);
  });

  test("shows the limits that have grown with the machines of the license, and none where the setting is 0", async () => {
    const key = await issue("--max-machines", "1000");
    const { limits } = await line.json(["keys", "why", key.id], {
      env: { CLAVIGER_LIMIT_MACHINE_ACTIVATE: "0" },
    });
    expect(limits).toMatchObject({
      machine_activate: null,
      license: 1_000,
      machine_release: 60,
      validate: 100,
    });
  });

  test("shows a key that was never used or refused, without a limit and without an expiry", async () => {
    const key = await issue("--expires-at", "never");
    await line.json(["keys", "tier", key.id, "enterprise"]);
    const page = await pageOf(key);
    expect(page).toContain(
      "expires      never\nquota        0 inferences used this month, without a limit\n",
    );
    expect(page).toEndWith(
      "last used    never (a use is recorded within a minute)\nrefused      never\n\nThe key works: it is active, and its quota is not used up.\n",
    );
  });

  test("names the remedy for each obstacle, and for the last refusal of a key that works", async () => {
    const asked = await issue();
    const response = await fetch(`${service.url}/v1/installer/repo-token`, {
      headers: { "X-API-Key": asked.api_key },
    });
    expect(response.status).toBe(503);
    await restart();
    expect(await pageOf(asked)).toEndWith(`
The key works: it is active, and its quota is not used up.

The last refusal: the service has no repository token at present. Look for the
cause:
  claviger doctor
`);

    const used = await issue("--monthly-limit", "0");
    expect(await pageOf(used)).toEndWith(`
The month's quota is used up. Wait until it resets, or give the license a higher
limit:
  claviger keys limit key_ID N
`);

    const expiresAt = Date.now() + 2_000;
    const expired = await issue("--expires-at", new Date(expiresAt).toISOString());
    // The key expires by the machine's clock.
    await Bun.sleep(expiresAt - Date.now() + 10);
    expect(await pageOf(expired)).toEndWith(`
The license has expired. Give it another expiry:
  claviger keys renew key_ID --expires-at TIME
`);

    const old = await issue();
    const { id } = await line.json(["keys", "rotate", old.id, "--overlap", "0d"]);
    const { out } = await line.here(["keys", "why", old.id], { env });
    expect(out).toContain(`\nreplaced by  ${id}\n`);
    expect(out).toEndWith(`
The customer should use the key that replaced this one,
${id}. Look at that key:
  claviger keys why ${id}
`);

    await line.json(["keys", "revoke", id]);
    expect(await pageOf({ id })).toEndWith(`
The key is revoked for good. Replace it with a new one:
  claviger keys replace key_ID
`);
    const { user_id } = await line.json(["keys", "show", id]);
    await line.json(["accounts", "erase", user_id, "--revoke-keys", "--yes"]);
    expect(await pageOf({ id })).toEndWith(`
The key is revoked for good, and the person was erased from its account.
`);
  });

  test("refuses a key that does not exist", async () => {
    const unknown = `key_${"0".repeat(32)}`;
    expect(refusalOf(await line.here(["keys", "why", unknown]))).toBe(
      `Cannot explain key: there is no key ${unknown}; see \`claviger keys list\``,
    );
  });
});
