/** `GET /health/latency`: the latency of each endpoint by five minutes, and what happened meanwhile. */
import { beforeAll, expect, test } from "bun:test";
import { newUuid } from "../../src/base/ids.ts";
import { addLatency } from "../../src/usage/latency/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { useAdmin } from "../support/use.ts";
import { bucketsOf } from "../usage/latency/latency_kit.ts";

const admin = useAdmin({ clock: createTestClock("2026-11-22T12:07:00Z", { stands: true }) });
let token: string;
beforeAll(async () => {
  token = await admin.token({ scopes: ["status:read"] });
});

const call = async (query = "") => await admin.call("GET", `/health/latency${query}`, { token });

test("has nothing while nothing was counted, and shows the last 24 hours", async () => {
  const { body } = await call("?to=2026-01-01T12:00:00Z");
  expect(body).toEqual({
    from: "2025-12-31T12:00:00Z",
    to: "2026-01-01T12:00:00Z",
    ...{ endpoints: [], marks: [] },
  });
});

test("has each endpoint with its five minutes, over all processes", async () => {
  for (const [at, endpoint, ms] of [
    ["2026-11-22T12:05:00Z", "validate", 0.8],
    ["2026-11-22T12:05:00Z", "validate", 0.8],
    ["2026-11-22T12:05:00Z", "analytics", 9_000],
    ["2026-11-22T10:00:00Z", "validate", 0.8],
  ] as const) {
    const count = { endpoint, refused: 0, failed: endpoint === "analytics" ? 1 : 0, buckets: bucketsOf(ms) };
    await addLatency(admin.database, [{ atMs: Date.parse(at), count }], { processUuid: newUuid() });
  }
  const { body } = await call();
  const none = { http_requests: 0, refused: 0, failed: 0, p50_ms: null, p95_ms: null, p99_ms: null };
  const failed = { http_requests: 1, refused: 0, failed: 1, p50_ms: 5_000, p95_ms: 5_000, p99_ms: 5_000 };
  const good = (requests: number) => ({
    ...{ http_requests: requests, refused: 0, failed: 0 },
    ...{ p50_ms: 0.75, p95_ms: expect.closeTo(0.975), p99_ms: expect.closeTo(0.995) },
  });
  expect(body).toMatchObject({ from: "2026-11-21T12:10:00Z", to: "2026-11-22T12:07:00Z" });
  expect(body.endpoints).toEqual([
    {
      endpoint: "analytics",
      slower_factor: 1,
      ...{ last_hour: failed, day_before: none },
      steps: [{ at: "2026-11-22T12:05:00Z", ...failed }],
    },
    {
      endpoint: "validate",
      slower_factor: 1,
      ...{ last_hour: good(2), day_before: good(1) },
      steps: [
        { at: "2026-11-22T10:00:00Z", ...good(1) },
        { at: "2026-11-22T12:05:00Z", ...good(2) },
      ],
    },
  ]);
});

test("has the marks of the span: deploys, starts, failovers and backups", async () => {
  await admin.database.query(
    (sql) => sql`
      insert into starts (kind, id, version, at)
      values ('process', 'a', '0.4.0', '2026-11-19T08:00:00Z'), ('process', 'b', '0.4.0', '2026-11-22T08:00:00Z'),
             ('process', 'c', '0.5.0', '2026-11-22T11:00:30Z'), ('process', 'd', '0.5.0', '2026-11-22T13:00:00Z'),
             ('database', 'e', '7 01', '2026-11-22T01:00:00Z'), ('database', 'f', '7 01', '2026-11-22T02:00:00Z'),
             ('database', 'g', '7 02', '2026-11-22T11:40:00Z')`,
  );
  // The last backup can have been taken by a program that noted only that one.
  await admin.database.query(
    (sql) => sql`insert into last_backup (taken_at) values ('2026-11-22T09:15:00Z')`,
  );
  await admin.database.query(
    (sql) => sql`
      insert into taken_backups (at)
      values ('2026-11-20T03:15:00Z'), ('2026-11-22T03:15:00Z'), ('2026-11-22T12:07:00Z')`,
  );
  const { body } = await call();
  expect(body.marks).toEqual([
    // The server of 01:00 may have run for long before it was noticed first.
    { at: "2026-11-22T02:00:00Z", kind: "database_start", says: "PostgreSQL was started again" },
    { at: "2026-11-22T03:15:00Z", kind: "backup", says: "a backup was taken" },
    { at: "2026-11-22T08:00:00Z", kind: "process_start", says: "a process of version 0.4.0 was started" },
    { at: "2026-11-22T09:15:00Z", kind: "backup", says: "a backup was taken" },
    { at: "2026-11-22T11:00:30Z", kind: "deploy", says: "version 0.5.0 was started in place of 0.4.0" },
    { at: "2026-11-22T11:40:00Z", kind: "failover", says: "another database server answered than before" },
  ]);
  expect((await call("?to=2026-11-22T02:30:00Z")).body.marks).toHaveLength(1);
});

test("refuses a token without the scope", async () => {
  const other = await admin.token({ scopes: ["keys:read"] });
  expect(await admin.call("GET", "/health/latency", { token: other })).toMatchObject({ status: 403 });
});
