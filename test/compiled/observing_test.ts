/** Tests how operators observe the executable: health, doctor, config check, metrics and the access log. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { parseExposition } from "../support/exposition.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { type Installed, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

interface Finding {
  readonly name: string;
  readonly state: "ok" | "warn" | "fail";
  readonly message: string;
  readonly remedy?: string;
}

describe.skipIf(!isBuilt)("the executable, as operators observe it", () => {
  let installed: Installed;
  let port: number;

  beforeAll(async () => {
    installed = install();
    port = await findFreePort();
  });
  afterAll(() => installed.remove());

  const settings = () => ({ CLAVIGER_PORT: String(port), CLAVIGER_LOG_FORMAT: "json" });

  test("waits in health for a service that is still starting, and reports when there is none", async () => {
    const url = `http://127.0.0.1:${port}`;
    const { status, out } = await installed.place.run(["health", "--url", url, "--json"]);
    expect(status).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ healthy: false, error: expect.stringMatching(/\S/) });

    const waiting = installed.place.run(["health", "--url", url, "--wait", "30s"]);
    await installed.start({
      args: ["--port", String(port), "--metrics-listen", "127.0.0.1:0"],
      env: { ...settings(), CLAVIGER_LOG_REQUESTS: "all" },
    });
    expect((await waiting).status).toBe(0);
    const found = await installed.place.run(["health", "--url", url, "--json"]);
    expect(JSON.parse(found.out)).toMatchObject({ healthy: true, http_status: 200, database: "connected" });
  });

  test("reports by doctor no fault of a good service, and each fault with its remedy", async () => {
    const { ok, findings }: { ok: boolean; findings: Finding[] } = await installed.json(
      ["doctor"],
      settings(),
    );
    expect(ok).toBe(true);
    const states = Object.fromEntries(findings.map(({ name, state }) => [name, state]));
    const fine = ["configuration", "data folder", "disk", "clock", "service", "database", "durability"];
    for (const name of [...fine, "schema", "secret", "model files"]) {
      expect({ name, state: states[name] }).toEqual({ name, state: "ok" });
    }

    chmodSync(join(installed.dataDir, "secret"), 0o644);
    const { status, out } = await installed.run(["doctor", "--json"], settings());
    const wrong = (JSON.parse(out).findings as Finding[]).filter(({ state }) => state === "fail");
    expect({ status, ok: JSON.parse(out).ok, count: wrong.length }).toEqual({
      status: 1,
      ok: false,
      count: 1,
    });
    expect(wrong[0]?.remedy).toContain("chmod");
    chmodSync(join(installed.dataDir, "secret"), 0o600);
    expect((await installed.run(["doctor"], settings())).status).toBe(0);
  });

  test("shows by config check each value with its source, and refuses impossible values", async () => {
    const shown = await installed.json(["config", "check"], {
      ...settings(),
      CLAVIGER_SECRET: TEST_SECRET,
    });
    const of = (name: string) => shown.settings.find((one: { name: string }) => one.name === name);
    expect(of("CLAVIGER_PORT")).toMatchObject({ value: String(port), source: "environment" });
    expect(of("CLAVIGER_BRAND")).toMatchObject({ value: "svc", source: "default" });
    expect(JSON.stringify(shown)).not.toContain(TEST_SECRET);
    const { status, err } = await installed.run(["config", "check"], { CLAVIGER_PORT: "http" });
    expect([status, err]).toEqual([1, expect.stringContaining("CLAVIGER_PORT must be a whole number")]);
  });

  test("counts clients' requests in metrics on an address of their own", async () => {
    const url = /metrics are at (\S+?\/metrics)/.exec(installed.service.out())?.[1] ?? "";
    const count = async (name: string, sample: string) => {
      const families = parseExposition(await (await fetch(url)).text());
      return families.get(name)?.samples.get(name + sample) ?? 0;
    };
    const validated = () =>
      count("claviger_http_requests_total", '{code="OK",endpoint="validate",status="200"}');
    const committed = () => count("claviger_events_committed_total", "{}");
    const before = { validated: await validated(), committed: await committed() };
    const key = await installed.issue();
    for (let i = 0; i < 3; i++) expect((await installed.validate(key)).status).toBe(200);
    await installed.post("/v1/analytics/log", { api_key: key.api_key, event_type: "error" });
    expect([await validated(), await committed()]).toEqual([before.validated + 3, before.committed + 1]);
    expect((await installed.get("/metrics")).status).toBe(404);
  });

  test("logs a line of JSON for each request, with the key's id and never the key", async () => {
    const key = await installed.issue();
    const from = installed.service.err().length;
    const { headers } = await installed.validate(key);
    await installed.get(`/v1/models/list?api_key=${key.api_key}`);
    await installed.post("/v1/auth/validate", { api_key: "svc_live_1" });
    const lines = await until(() => {
      const text = installed.service.err().slice(from);
      const whole = text.slice(0, text.lastIndexOf("\n")).split("\n").filter(Boolean);
      return whole.length >= 3 && whole.map((line) => JSON.parse(line));
    });
    expect(lines).toMatchObject([
      {
        level: "info",
        request: headers.get("x-request-id"),
        endpoint: "validate",
        status: 200,
        key: key.id,
        address: "127.0.0.1",
      },
      { endpoint: "models", status: 200, key: key.id, path: "/v1/models/list?api_key=[hidden]" },
      { endpoint: "validate", status: 400, code: "INVALID_FORMAT" },
    ]);
    for (const { ms } of lines) expect(ms).toBeWithin(0, 5_000);
    expect(installed.service.err()).not.toContain(key.api_key);
  });
});
