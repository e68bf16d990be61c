import { expect, test } from "bun:test";
import { createTestClock } from "../support/clock.ts";
import { whileDatabaseFails } from "../support/failing_database.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService({ clock: createTestClock("2026-11-20T10:00:00Z") });

const health = (method = "GET") => service.send("/api/health", { method });

test("GET /api/health says healthy and connected, without a key", async () => {
  const { status, body } = await health();
  expect(status).toBe(200);
  expect(body).toEqual({
    status: "healthy",
    timestamp: expect.stringMatching(/^2026-11-20T10:0\d:\d\dZ$/),
    version: "v1",
    database: "connected",
  });
});

test("HEAD /api/health has the headers of GET and no body", async () => {
  const [get, head] = [await health(), await health("HEAD")];
  expect(head.status).toBe(200);
  expect(head.body).toBeUndefined();
  for (const name of ["content-type", "content-length", "cache-control"]) {
    expect(head.headers.get(name)).toBe(get.headers.get(name));
  }
});

test("GET /api/health says disconnected while the database is away, then healthy again", async () => {
  await whileDatabaseFails(service, async () => {
    const { status, body } = await health();
    expect(status).toBe(503);
    expect(body).toEqual({
      status: "unhealthy",
      timestamp: expect.stringMatching(/Z$/),
      version: "v1",
      database: "disconnected",
      error: expect.stringMatching(/\S/),
    });
    expect((await health("HEAD")).status).toBe(503);
  });
  expect((await health()).body).toMatchObject({ status: "healthy", database: "connected" });
});

test("GET /api/health has no limit and no limit headers", async () => {
  const answers = await Promise.all(Array.from({ length: 1_100 }, () => health()));
  // On a busy machine the pulse can be late, and the answer 503.
  expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
  expect([...(answers[0]?.headers.keys() ?? [])].filter((name) => name.startsWith("x-ratelimit"))).toEqual(
    [],
  );
});
