/** `GET /status`: a short form of `doctor`, examined at most once a minute. */
import { describe, expect, test } from "bun:test";
import { isRefusal } from "../../src/base/refusal.ts";
import { readConfig } from "../../src/installation/config/config.ts";
import { examineBriefly } from "../../src/installation/doctor/mod.ts";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { createTestClock } from "../support/clock.ts";
import { uuidOf } from "../support/keys.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { useTestDatabase } from "../support/use.ts";

const on = useTestDatabase();

describe("GET /status", () => {
  test("shows the findings of the disk and the database server, without a request to other hosts", async () => {
    const env = {
      CLAVIGER_SECRET: TEST_SECRET,
      DATABASE_URL: "postgres://u@db.example.org/c",
      // The default folder can be that of an installation on this host.
      CLAVIGER_DATA_DIR: "/nowhere",
    };
    const config = readConfig({ env, envFile: "/dev/null", workingFolder: "/", isRoot: false });
    if (isRefusal(config)) throw new Error(config.sentence);
    const clock = createTestClock();
    const examined = await startAdmin({
      on,
      admin: {
        examine: (database) =>
          examineBriefly({ config, clock, database, address: on.address, place: "a test" }),
      },
    });
    try {
      const { body } = await examined.call("GET", "/status", { token: await examined.token() });
      expect(body.findings.map(({ name }: { name: string }) => name)).toEqual([
        ...["disk", "database", "connection", "durability", "writes", "database clock", "schema"],
        ...["model files", "public address", "rate limits", "event texts", "key message", "backup"],
      ]);
      expect(body.findings.slice(-7)).toEqual([
        { name: "schema", state: "ok", message: expect.stringContaining("as this program needs it") },
        { name: "model files", state: "ok", message: "none are hosted here" },
        {
          name: "public address",
          state: "ok",
          message: "none: no model files are hosted here, and messages for customers lack it",
        },
        { name: "rate limits", state: "ok", message: "no second process serves" },
        { name: "event texts", state: "ok", message: "0 MB stored today (UTC), none left out" },
        { name: "key message", state: "ok", message: "the usual one" },
        {
          name: "backup",
          state: "ok",
          message: expect.stringMatching(/^none since .*; the first is due by/),
        },
      ]);
    } finally {
      await examined.close();
    }
  });

  test("is at most 60 seconds old, is examined once for requests at the same time, and says if a check fails", async () => {
    let examinations = 0;
    const counting = await startAdmin({
      on,
      clock: createTestClock(undefined, { stands: true }),
      admin: {
        examine: async () => {
          if (++examinations === 3) throw new Error("It cannot be examined");
          const state = examinations === 1 ? "ok" : "fail";
          return [{ name: "disk", state, message: "1 MB free", remedy: "free some space" }];
        },
      },
    });
    try {
      const token = await counting.token();
      const status = async () => (await counting.call("GET", "/status", { token })).body;
      const [first, ...others] = await Promise.all([status(), status(), status()]);
      expect(first).toEqual({
        ok: true,
        version: expect.stringMatching(/^\d+\.\d+\.\d+/),
        checked_at: expect.stringMatching(/Z$/),
        findings: [{ name: "disk", state: "ok", message: "1 MB free", remedy: "free some space" }],
        ...{ hours: expect.any(Array), unusual_hours: expect.any(Array), processes: expect.any(Array) },
      });
      expect(others).toEqual([first, first]);
      counting.clock.advance(59_000);
      expect(await status()).toEqual(first);
      counting.clock.advance(1_000);
      expect((await status()).ok).toBe(false);
      counting.clock.advance(60_000);
      expect((await status()).code).toBe("SERVER_ERROR");
      expect((await status()).ok).toBe(false);
      expect(examinations).toBe(4);
    } finally {
      await counting.close();
    }
  });

  test("has the facts of the page Health: requests by endpoint and hour, unusual hours, and processes", async () => {
    const admin = await startAdmin({ on, clock: createTestClock("2026-11-22T09:30:00Z") });
    const add = (hour: string, code: string, count: number) =>
      addActivity(on.database, [{ hourMs: Date.parse(hour), endpoint: "validate", code, reason: "", count }]);
    await add("2026-11-21T08:00:00Z", "OK", 40);
    await add("2026-11-22T08:00:00Z", "OK", 50);
    await add("2026-11-22T08:00:00Z", "SERVER_ERROR", 30);
    await add("2026-11-22T09:00:00Z", "RATE_LIMIT_EXCEEDED", 100);
    const [free, other] = [await admin.issue({ tier: "free" }), await admin.issue({ tier: "commercial" })];
    await on.database.query(
      (sql) => sql`
        insert into too_many_requests (key_id, began_at, requests, refused)
        values (${uuidOf(free)}::uuid, '2026-11-22T09:50:00Z', 80, 60),
               (${uuidOf(other)}::uuid, '2026-11-22T09:00:00Z', 40, 30)`,
    );
    await on.database.query(
      (sql) => sql`
        insert into processes (id, version, host, address, started_at, p50_ms, p95_ms)
        values (gen_random_uuid(), '0.4.0', 'node-a', 'http://a:1', '2026-11-20T00:00:00Z', 0.6, 12)`,
    );
    const { body } = await admin.call("GET", "/status", { token: await admin.token() });
    const at = "2026-11-22T08:00:00Z";
    expect(body.hours).toEqual([
      { at, endpoint: "validate", http_requests: 80, refused: 0, failed: 30 },
      { at: "2026-11-22T09:00:00Z", endpoint: "validate", http_requests: 100, refused: 100, failed: 0 },
    ]);
    expect(body.unusual_hours).toEqual([
      {
        ...{ at: "2026-11-22T09:00:00Z", code: "RATE_LIMIT_EXCEEDED", http_requests: 100, kind: "high" },
        ...{ lowest: 0, highest: 0 },
        most_refused: [
          { id: free.id, refused: 60 },
          { id: other.id, refused: 30 },
        ],
      },
      { at, code: "SERVER_ERROR", http_requests: 30, kind: "high", lowest: 0, highest: 0, most_refused: [] },
    ]);
    expect(body.processes).toEqual([
      {
        ...{ host: "node-a", version: "0.4.0", started_at: "2026-11-20T00:00:00Z" },
        ...{ is_lost: false, p50_ms: 0.6, p95_ms: 12 },
      },
    ]);
    expect(JSON.stringify(body)).not.toContain("http://a:1");
    await admin.close();
  });
});
