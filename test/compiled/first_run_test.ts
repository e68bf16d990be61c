/** Runs the executable from its first start in an empty folder through stops, kills and restarts. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { builtPostgres } from "../../src/base/platform/bun/pack_postgres.ts";
import { BUILT_POSTGRES } from "../../src/base/version.ts";
import { findFreePort } from "../support/find_free_port.ts";
import type { ServiceProcess } from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { builtExecutable, createPlace, longPath, type Place, postmasterOf } from "./executable.ts";
import { isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

const SIZE_LIMIT_BYTES = 120e6;
/** CI builds it first, and fails where it cannot. With BUILD_POSTGRES=no the executable may hold the one of the package. */
const hasBuilt = existsSync(builtPostgres());
const KEY = /\b[a-z0-9]+_(?:live|test)_[0-9a-f]{48}\b/g;

describe.skipIf(!isBuilt)("the executable", () => {
  let place: Place;
  let dataDir: string;
  let service: ServiceProcess;
  /** Every key that was seen. None of them may appear in logs or arguments. */
  const keys = new Set<string>();

  beforeAll(() => {
    place = createPlace();
    dataDir = join(place.folder, "data");
  });
  afterAll(() => place.remove());

  const serve = (args: readonly string[] = []) =>
    place.serve(dataDir, { args, env: { CLAVIGER_LOG_REQUESTS: "all", CLAVIGER_LIMIT_REFRESH: "0" } });
  const ask = async (path: string, body: object) => {
    const answer = await fetch(service.url + path, {
      method: "POST",
      body: JSON.stringify(body),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  let issued: { id: string; api_key: string };

  test("is the only file in its folder", () => {
    expect(readdirSync(place.folder)).toEqual(["claviger"]);
  });

  test.skipIf(!hasBuilt)("is at most 120 MB", () => {
    expect(statSync(builtExecutable).size).toBeLessThanOrEqual(SIZE_LIMIT_BYTES);
  });

  test.skipIf(!hasBuilt)("holds the PostgreSQL that was built from its source", async () => {
    const { out } = await place.run(["version", "--json"]);
    expect(JSON.parse(out)).toMatchObject({ postgres: BUILT_POSTGRES, postgres_from: "source" });
    expect((await place.run(["version"])).out).toContain(
      `\nPostgreSQL    ${BUILT_POSTGRES} inside, built from its source\n`,
    );
  });

  test("renders pages without the positions in the source that help in development", () => {
    const bytes = readFileSync(builtExecutable);
    expect(bytes.includes("jsxDEV(")).toBe(true);
    expect(bytes.includes(",void 0,!1,void 0,this)")).toBe(false);
  });

  test("serves a demo from an empty folder, whose curl lines answer as they stand", async () => {
    // Models have an address only at a port that is known before the start.
    service = await serve(["--demo", "--port", String(await findFreePort())]);
    const out = await until(() => /To log in .*\n {2}.*\n\n$/.test(service.out()) && service.out());
    for (const [key] of out.matchAll(KEY)) keys.add(key);
    expect(keys.size).toBe(8);
    const lines = [...out.matchAll(/^ {2}(curl .*)$/gm)].map(([, line = ""]) => line);
    const answers: unknown[] = [];
    for (const line of lines) answers.push(JSON.parse((await place.shell(line)).out));
    expect(answers).toMatchObject([
      { valid: true, email: "research@demo.example", quota: { used: 0, remaining: 50_000 } },
      { valid: true, license_type: "research" },
      { total: 4 },
      { success: true, repo_token: "demo-repository-token" },
      { logged: true, quota: { used: 1, remaining: 49_999 } },
      { revoked: true },
      { status: "healthy", database: "connected" },
    ]);
  });

  test("issues a key while the service runs, and the key validates at once", async () => {
    const { status, out, err } = await place.run([
      ...["keys", "issue", "--email", "ada@example.org", "--tier", "research", "--json"],
      ...["--data-dir", dataDir],
    ]);
    expect({ status, err }).toEqual({ status: 0, err: "" });
    issued = JSON.parse(out);
    keys.add(issued.api_key);
    const body = JSON.stringify({ api_key: issued.api_key });
    const answer = await place.shell(`curl -s ${service.url}/v1/auth/validate -d '${body}'`);
    expect(JSON.parse(answer.out)).toMatchObject({ valid: true, email: "ada@example.org" });
    const audit = await place.run(["audit", "--key", issued.id, "--json", "--data-dir", dataDir]);
    expect(JSON.parse(audit.out)).toMatchObject([{ actor: expect.stringMatching(/^command:./) }]);
  });

  test("refuses a second service on the same folder, and leaves the first alone", async () => {
    const { status, out, err } = await place.run(["serve", "--port", "0", "--data-dir", dataDir]);
    expect({ status, out }).toEqual({ status: 1, out: "" });
    expect(err).toBe(
      `claviger: Cannot serve from ${dataDir}: a service runs there already (process ${service.pid}); stop ` +
        "it or choose another folder\n",
    );
    expect((await ask("/v1/auth/validate", { api_key: issued.api_key })).status).toBe(200);
  });

  test("shows no key in its log or in any process's arguments", async () => {
    await fetch(`${service.url}/v1/models/list?api_key=${issued.api_key}`);
    await ask("/v1/auth/validate", { api_key: `${issued.api_key}0` });
    await fetch(`${service.url}/v1/${issued.api_key}`);
    // This request's line is the last one: the earlier lines are written with it.
    await until(() => service.err().includes("endpoint=other"));
    expect(service.err()).toContain("/v1/models/list?api_key=[hidden]");
    const seen = service.err() + listArguments();
    expect([...keys].filter((key) => seen.includes(key))).toEqual([]);
  });

  test("ends with 0 on SIGTERM and starts again with its data", async () => {
    expect(await service.stop("SIGTERM")).toBe(0);
    expect(service.err()).toMatch(/Stopping signal=SIGTERM\n.*Stopped\n$/);
    expect(existsSync(join(dataDir, "postgres/postmaster.pid"))).toBe(false);

    const { status, out } = await place.run(["keys", "list", "--json", "--data-dir", dataDir]);
    expect(status).toBe(0);
    expect(JSON.parse(out)).toHaveLength(35);

    service = await serve();
    expect((await ask("/v1/auth/validate", { api_key: issued.api_key })).status).toBe(200);
  });

  test("keeps every acknowledged event over its own kill -9", async () => {
    let acknowledged = 0;
    let sent = 0;
    const client = async () => {
      for (;;) {
        sent++;
        const event = { api_key: issued.api_key, event_type: "inference" };
        const answer = await ask("/v1/analytics/log", event).catch(() => undefined);
        if (answer === undefined) return;
        if (answer.status === 202) acknowledged++;
      }
    };
    const clients = Array.from({ length: 16 }, client);
    // Give the load some time; its amount does not matter.
    await Bun.sleep(500);
    await service.stop("SIGKILL");
    await Promise.all(clients);

    service = await serve();
    const { body } = await ask("/v1/auth/refresh", { api_key: issued.api_key });
    const { used } = body.quota as { used: number };
    expect(acknowledged).toBeGreaterThan(16);
    expect(used).toBeGreaterThanOrEqual(acknowledged);
    expect(used).toBeLessThanOrEqual(sent);
  });

  test("is healthy again by itself after a kill -9 of its PostgreSQL", async () => {
    const { used } = (await ask("/v1/auth/refresh", { api_key: issued.api_key })).body.quota as {
      used: number;
    };
    const killed = postmasterOf(dataDir);
    process.kill(killed, "SIGKILL");
    await until(() => service.err().includes("PostgreSQL is running again"));
    await service.untilHealthy();
    expect(postmasterOf(dataDir)).not.toBe(killed);
    const answer = await ask("/v1/auth/refresh", { api_key: issued.api_key });
    expect(answer.body.quota).toMatchObject({ used });
  });

  test("ends with 0 on SIGINT, and leaves no process behind", async () => {
    const postmaster = postmasterOf(dataDir);
    expect(await service.stop("SIGINT")).toBe(0);
    expect(existsSync(`/proc/${postmaster}`)).toBe(false);
  });

  test("works in a folder with a path longer than a socket's may be", async () => {
    const long = longPath(place.folder);
    const other = await place.serve(long);
    const { status } = await place.run(["keys", "list", "--data-dir", long]);
    expect(status).toBe(0);
    expect(await other.stop()).toBe(0);
  });
});

/** Returns the arguments of every process on this machine. */
function listArguments(): string {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8");
      } catch {
        // The process has just ended.
        return "";
      }
    })
    .join("\n");
}
