/** The metrics for an operator's Prometheus, on a port of their own. */
import { describe, expect, test } from "bun:test";
import { renderExposition } from "../../src/clients/metrics/exposition.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase } from "../support/database.ts";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { parseExposition } from "../support/exposition.ts";
import { whileDatabaseFails } from "../support/failing_database.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { issue } from "../support/issue.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { ON_NODE, startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";

const METRICS = { metricsListen: { host: "127.0.0.1", port: 0 } };

describe("GET /metrics", () => {
  const service = useTestService({ limits: "default", config: METRICS });
  const urlOf = (of: TestService) => `http://127.0.0.1:${of.service.metrics?.port}`;

  async function scrape(of: TestService = service): Promise<Map<string, number>> {
    const response = await fetch(`${urlOf(of)}/metrics`);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    return new Map(
      [...parseExposition(await response.text()).values()].flatMap(({ samples }) => [...samples]),
    );
  }

  /** Returns the growth, while `body` runs, of each sample that changed and whose name matches `names`. */
  async function growthBy(body: () => Promise<void>, names: RegExp): Promise<Record<string, number>> {
    const before = await scrape();
    await body();
    const after = await scrape();
    const grown = [...after].filter(([key, value]) => names.test(key) && value !== before.get(key));
    return Object.fromEntries(grown.map(([key, value]) => [key, value - (before.get(key) ?? 0)]));
  }

  test("has the time from which the next backup is awaited", async () => {
    const { database } = service;
    const awaited = async () => (await scrape()).get("claviger_last_backup_timestamp_seconds{}");
    await until(async () => (await scrape()).get("claviger_database_up{}") === 1);
    const [made] = await database.query<{ at: Date }>(
      (sql) => sql`select min(applied_at) as at from schema_migrations`,
    );
    expect(await awaited()).toBe((made?.at.getTime() ?? 0) / 1_000);
    await database.query((sql) => sql`insert into last_backup (taken_at) values ('2026-11-23T03:15:00Z')`);
    expect(await awaited()).toBe(Date.parse("2026-11-23T03:15:00Z") / 1_000);
    const due = (await scrape()).get("claviger_backup_due_timestamp_seconds{}");
    expect(due).toBe(Date.parse("2026-11-24T15:15:00Z") / 1_000);
  });

  const HOSTS = [
    ["127.0.0.1:9464", 200],
    ["localhost:9000", 200],
    ["[::1]:9464", 200],
    ["evil.example", 421],
    ["localhost.evil.example:9464", 421],
    ["127.0.0.1, evil.example", 421],
  ] as const;
  const statusOf = async (host: string, port: number | undefined) =>
    (await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { host } })).status;

  test.each(HOSTS)("answers the Host %s on loopback with %s", async (host, status) => {
    expect(await statusOf(host, service.service.metrics?.port)).toBe(status);
  });

  test.skipIf(ON_NODE)(
    "takes every Host at another address, because Prometheus may use any name",
    async () => {
      const config = { metricsListen: { host: "0.0.0.0", port: 0 } };
      await using beyond = await startTestService({ on: service.testDatabase, config });
      for (const [host] of HOSTS)
        expect([host, await statusOf(host, beyond.service.metrics?.port)]).toEqual([host, 200]);
    },
  );

  test.skipIf(ON_NODE)(
    "tells what waits for the database in place of the windows that are there",
    async () => {
      const config = { ...METRICS, rateLimits: "shared" } as const;
      await using shared = await startTestService({ on: service.testDatabase, limits: "default", config });
      const samples = await scrape(shared);
      const ofKeys = [...samples].filter(([name]) => /rate_limit.*by="key",endpoint="validate"/.test(name));
      expect(ofKeys.map(([name, value]) => `${name.split("{")[0]} ${value}`)).toEqual([
        "claviger_rate_limit_refusals_total 0",
        "claviger_rate_limit_waiting 0",
      ]);
      expect(samples.get('claviger_rate_limit_windows{by="address",endpoint="validate"}')).toBe(0);
    },
  );

  test.skipIf(ON_NODE)("tells that only as many keys stay in memory as the setting allows", async () => {
    await using small = await startTestService({ config: { ...METRICS, cacheKeys: 2 } });
    const keys = [await small.issue(), await small.issue(), await small.issue()];
    // A late pulse empties the cache, as it does on a busy machine.
    const known = await until(async () => {
      for (const { apiKey } of keys) await small.post("/v1/auth/validate", { api_key: apiKey });
      const entries = (await scrape(small)).get('claviger_key_cache_entries{kind="known"}') ?? 0;
      return entries > 1 && entries;
    });
    expect(known).toBe(2);
  });

  test("is valid, and complete before the first request", async () => {
    await using fresh = await startTestService({ limits: "default", config: METRICS });
    // On a busy machine the database may be a moment late.
    await until(async () => (await scrape(fresh)).get("claviger_database_up{}") === 1);
    const samples = await scrape(fresh);
    for (const key of [
      'claviger_http_requests_total{code="OK",endpoint="validate",status="200"}',
      'claviger_http_requests_total{code="SERVER_ERROR",endpoint="analytics",status="500"}',
      'claviger_http_request_duration_seconds_count{endpoint="models"}',
      'claviger_key_cache_requests_total{result="hit"}',
      'claviger_rate_limit_refusals_total{by="key",endpoint="downloads"}',
      "claviger_event_queue_length{}",
      "claviger_event_batch_size_count{}",
      'claviger_quota_exhausted_total{endpoint="analytics"}',
      "claviger_database_outages_total{}",
      "claviger_database_pools_replaced_total{}",
      "claviger_event_retention_months{}",
      'claviger_upkeep_failures_total{task="retention"}',
      'claviger_upkeep_failures_total{task="usage_changes"}',
      'claviger_upkeep_failures_total{task="operators"}',
      'claviger_upkeep_failures_total{task="activity"}',
    ]) {
      expect([key, samples.get(key)]).toEqual([key, 0]);
    }
    expect([...samples.keys()].filter((key) => key.startsWith("claviger_build_info"))).toEqual([
      expect.stringMatching(
        new RegExp(`runtime="${ON_NODE ? "node" : "bun"}",runtime_version="[\\d.]+",version="[\\d.]+"`),
      ),
    ]);
    expect(samples.get("process_resident_memory_bytes{}")).toBeGreaterThan(1e7);
    const startedAt = samples.get("process_start_time_seconds{}") ?? 0;
    // On Node the serving process began after this one.
    const now = Date.now() / 1_000;
    const earliest = ON_NODE ? now - 10 : now - process.uptime() - 2;
    expect(startedAt).toBeGreaterThan(earliest);
    expect(startedAt).toBeLessThan(ON_NODE ? now : earliest + 4);
  });

  test("counts requests by endpoint and code, with their durations", async () => {
    const { apiKey } = await service.issue();
    const grown = await growthBy(async () => {
      for (let i = 0; i < 3; i++) await call(service, ENDPOINTS.validate, apiKey);
      await call(service, ENDPOINTS.validate, UNKNOWN_KEY);
      await service.send("/v1/models/list", { method: "OPTIONS" });
      await service.get("/api/health");
    }, /^claviger_http_.*(total|count)/);
    expect(grown).toEqual({
      'claviger_http_requests_total{code="OK",endpoint="validate",status="200"}': 3,
      'claviger_http_requests_total{code="INVALID_KEY",endpoint="validate",reason="unknown",status="401"}': 1,
      'claviger_http_requests_total{code="METHOD_NOT_ALLOWED",endpoint="models",status="405"}': 1,
      'claviger_http_requests_total{code="OK",endpoint="health",status="200"}': 1,
      'claviger_http_request_duration_seconds_count{endpoint="validate"}': 4,
      'claviger_http_request_duration_seconds_count{endpoint="models"}': 1,
      'claviger_http_request_duration_seconds_count{endpoint="health"}': 1,
    });
  });

  test("counts a refusal under the code of its answer", async () => {
    const { apiKey } = await service.issue();
    const send = (duration: number) =>
      call(service, ENDPOINTS.analyticsLog, apiKey, {
        fields: { event_type: "model_load", duration_ms: duration },
        headers: { "Idempotency-Key": "one" },
      });
    const grown = await growthBy(async () => {
      await send(1);
      expect(await send(2)).toMatchObject({ status: 422, body: { code: "INVALID_REQUEST" } });
    }, /^claviger_http_requests_total/);
    expect(grown).toEqual({
      'claviger_http_requests_total{code="OK",endpoint="analytics",status="202"}': 1,
      'claviger_http_requests_total{code="INVALID_REQUEST",endpoint="analytics",status="422"}': 1,
    });
  });

  test("counts unknown paths under one name, however many are made up", async () => {
    // Samples that come from the database are missing while it answers late.
    const names = async () =>
      [...(await scrape()).keys()].filter((name) => name.startsWith("claviger_http_"));
    await service.get("/made/up");
    const before = await names();
    const grown = await growthBy(async () => {
      for (let i = 0; i < 20; i++) await service.get(`/made/up/${i}?x=${i}`);
    }, /^claviger_http_requests_total/);
    expect(grown).toEqual({
      'claviger_http_requests_total{code="NOT_FOUND",endpoint="other",status="404"}': 20,
    });
    expect(await names()).toEqual(before);
  });

  test("counts the cache's hits and misses, and the refusals of the limits", async () => {
    const { apiKey } = await service.issue();
    // A pulse drops a key that was just issued from the cache. Let that pulse come first.
    await service.service.directory.beat();
    const grown = await growthBy(async () => {
      for (let i = 0; i < 12; i++) await call(service, ENDPOINTS.refresh, apiKey);
      for (let i = 0; i < 12; i++) await call(service, ENDPOINTS.refresh, UNKNOWN_KEY);
    }, /^claviger_(key_cache_requests|rate_limit_refusals)/);
    expect(grown).toEqual({
      'claviger_key_cache_requests_total{result="hit"}': 11,
      'claviger_key_cache_requests_total{result="miss"}': 13,
      'claviger_rate_limit_refusals_total{by="key",endpoint="refresh"}': 2,
      'claviger_rate_limit_refusals_total{by="address",endpoint="refresh"}': 2,
    });
  });

  test("counts events, their batches, and refusals of used-up quotas", async () => {
    const { apiKey } = await service.issue({ monthlyLimit: 3 });
    const event = { event_type: "inference" };
    const grown = await growthBy(async () => {
      for (let i = 0; i < 5; i++) await call(service, ENDPOINTS.analyticsLog, apiKey, { fields: event });
      await call(service, ENDPOINTS.validate, apiKey);
      const late = (key: string) => ({
        ...event,
        idempotency_key: key,
        occurred_at: new Date().toISOString(),
      });
      await call(service, ENDPOINTS.analyticsBatch, apiKey, { fields: { events: [late("a"), late("b")] } });
    }, /^claviger_(events|event_batch_size_(count|sum)|quota)/);
    expect(grown).toEqual({
      "claviger_events_committed_total{}": 3,
      // Of the batch no event is committed, and its statement counts.
      "claviger_event_batch_size_count{}": 4,
      "claviger_event_batch_size_sum{}": 5,
      'claviger_quota_exhausted_total{endpoint="analytics"}': 2,
      'claviger_quota_exhausted_total{endpoint="analytics_batch"}': 2,
      'claviger_quota_exhausted_total{endpoint="validate"}': 1,
    });
  });

  test("shows an outage while it lasts, and counts it", async () => {
    const outages = async () => (await scrape()).get("claviger_database_outages_total{}") ?? 0;
    const before = await outages();
    await whileDatabaseFails(service, async () => {
      let failures = 0;
      let up = 1;
      const failing = setInterval(async () => {
        const samples = await scrape();
        failures = samples.get("claviger_database_pulse_failures_total{}") ?? 0;
        up = samples.get("claviger_database_up{}") ?? 1;
      }, 20);
      await until(() => failures > 1 && up === 0);
      clearInterval(failing);
    });
    expect(await outages()).toBe(before + 1);
    expect((await scrape()).get("claviger_database_up{}")).toBe(1);
  });

  test.skipIf(ON_NODE)("counts a failed task of upkeep, and the log has the database's message", async () => {
    const on = await createTestDatabase();
    await inTransaction(on.address, async (sql) => {
      await sql`lock table events in access share mode`;
      await using other = await startTestService({ on, config: METRICS });
      const response = await fetch(`${urlOf(other)}/metrics`);
      expect(await response.text()).toContain('claviger_upkeep_failures_total{task="partitions"} 1\n');
      expect(other.logLines.filter((line) => line.includes("month's partition"))).toEqual([
        expect.stringContaining('"task":"partitions","reason":"canceling statement due to lock timeout'),
      ]);
    });
    await on.close();
  });

  test("contains no key, no address and no name of a person", async () => {
    const key = await service.issue({ email: "grace@example.org", name: "Grace" });
    await call(service, ENDPOINTS.validate, key.apiKey);
    await service.get(`/v1/models/list?api_key=${key.apiKey}`);
    const text = await (await fetch(`${urlOf(service)}/metrics`)).text();
    expect(text).not.toMatch(/svc_|grace|example\.org|127\.0\.0\.1|key_[0-9a-f]{32}/i);
  });

  test("is the only path on the metrics port, and is not on the service's port", async () => {
    expect((await fetch(`${urlOf(service)}/`)).status).toBe(404);
    expect((await fetch(`${urlOf(service)}/v1/auth/validate`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${urlOf(service)}/metrics`, { method: "POST" })).headers.get("allow")).toBe(
      "GET, HEAD",
    );
    expect(await service.get("/metrics")).toMatchObject({ status: 404 });
  });

  test("is off by default, and the start fails with a remedy if the port is in use", async () => {
    const taken = Number(new URL(urlOf(service)).port);
    await using quiet = await startTestService();
    expect(quiet.service.metrics).toBeUndefined();
    const config = { metricsListen: { host: "127.0.0.1", port: taken } };
    expect(startTestService({ config })).rejects.toThrow(
      /: the port is in use by .+ \(process \d+\); choose another with --metrics-listen\s*$/,
    );
  });
});

/** On a busy machine the figures of all customers take long. */
const BUSY = { limitMs: 60_000 };

// On Node the service has a clock of its own, and figures are due only every ten seconds.
test.skipIf(ON_NODE)(
  "GET /metrics has the figures over all customers computed, without a listener for operators",
  async () => {
    const clock = createTestClock();
    await using service = await startTestService({ clock, config: METRICS });
    const page = `http://127.0.0.1:${service.service.metrics?.port}/metrics`;
    const RESEARCH = 'claviger_keys{state="active",tier="research"}';
    /** Reads the metrics until all figures are of the current time. Figures are due again after ten seconds. */
    const readCurrent = async () => {
      clock.advance(11_000);
      const nowMs = clock.nowMs();
      return await until(async () => {
        clock.advance(11_000);
        const families = parseExposition(await (await fetch(page)).text());
        const { samples } = families.get("claviger_figures_as_of_seconds") ?? {};
        const asOf = samples?.get("claviger_figures_as_of_seconds{}") ?? 0;
        expect(asOf).toBeLessThanOrEqual(clock.nowMs() / 1_000);
        return asOf >= nowMs / 1_000 && families;
      }, BUSY);
    };
    for (const keys of [1, 2]) {
      await issue(service.database, { tier: "research" });
      const families = await readCurrent();
      expect(families.get("claviger_keys")?.samples.get(RESEARCH)).toBe(keys);
      expect(families.get("claviger_unused_keys")?.samples.get('claviger_unused_keys{days="30"}')).toBe(0);
    }
  },
  2 * BUSY.limitMs,
);

describe("renderExposition()", () => {
  test("escapes reserved characters, and leaves out metrics without samples", () => {
    const text = renderExposition({
      a: ["back\\slash\nline", [{ labels: { l: 'q"\\\n' }, value: 1.5 }]],
      none: ["", []],
      no_value: ["", undefined],
      h: ["one", { bounds: [0.5, 2], counts: [1, 0, 2], sum: 9 }],
    });
    expect(text).toBe(
      [
        "# HELP a back\\\\slash\\nline",
        "# TYPE a gauge",
        'a{l="q\\"\\\\\\n"} 1.5',
        "# HELP h one",
        "# TYPE h histogram",
        'h_bucket{le="0.5"} 1',
        'h_bucket{le="2"} 1',
        'h_bucket{le="+Inf"} 3',
        "h_sum 9",
        "h_count 3\n",
      ].join("\n"),
    );
    expect(parseExposition(text).get("h")?.samples.get("h_count{}")).toBe(3);
  });
});
