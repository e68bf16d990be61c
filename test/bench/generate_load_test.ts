import { afterEach, describe, expect, test } from "bun:test";
import { benchKey } from "./bench_keys.ts";
import { generateLoad } from "./generate_load.ts";
import type { LoadJob } from "./load_job.ts";

interface Seen {
  readonly apiKey: string;
  readonly claim: string | null;
}

const running: Bun.Server<undefined>[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop(true);
});

/** Starts a server that keeps its requests; `answer` gets the number of earlier requests. */
function serve(answer: (before: number) => Response | Promise<Response>) {
  const seen: Seen[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    development: false,
    async fetch(request) {
      const body = (await request.json()) as { api_key: string };
      seen.push({ apiKey: body.api_key, claim: request.headers.get("idempotency-key") });
      return await answer(seen.length - 1);
    },
  });
  running.push(server);
  return { seen, host: "127.0.0.1", port: server.port ?? 0 };
}

const job = ({ host, port }: { host: string; port: number }, more: Partial<LoadJob>): LoadJob => ({
  host,
  port,
  request: "validate",
  keys: { first: 0, step: 1, count: 10 },
  order: { kind: "in turn" },
  connections: 4,
  warmUpMs: 0,
  span: { kind: "count", requests: 100 },
  ...more,
});

describe("generateLoad()", () => {
  test("sends exactly the requests it was asked for, the keys in turn", async () => {
    const server = serve(() => Response.json({ valid: true }));
    const result = await generateLoad(job(server, { span: { kind: "count", requests: 105 } }));
    expect(result).toMatchObject({ requests: 105, answered: 105 });
    expect(server.seen.length).toBe(105);
    const counts = Array.from(
      { length: 10 },
      (_, number) => server.seen.filter(({ apiKey }) => apiKey === benchKey(number)).length,
    );
    expect(counts).toEqual([11, 11, 11, 11, 11, 10, 10, 10, 10, 10]);
  });

  test("counts the answers during the measurement, and the answers altogether", async () => {
    const server = serve(() => Response.json({ valid: true }));
    const result = await generateLoad(job(server, { warmUpMs: 50, span: { kind: "time", ms: 100 } }));
    expect(result.answered).toBe(server.seen.length);
    expect(result.requests).toBeGreaterThan(0);
    expect(result.requests).toBeLessThan(result.answered);
    expect(result.seconds).toBeGreaterThanOrEqual(0.099);
    expect(result.perSecond).toBeCloseTo(result.requests / result.seconds);
  });

  test("fails for one answer that is not the expected success, and shows it", async () => {
    const server = serve((before) =>
      before === 57 ? Response.json({ code: "SERVICE_UNAVAILABLE" }, { status: 503 }) : Response.json({}),
    );
    await expect(generateLoad(job(server, {}))).rejects.toThrow(/503.*SERVICE_UNAVAILABLE/);
  });

  test("accepts 202 as an event's success, and refuses 200", async () => {
    const accepted = serve(() => Response.json({ logged: true }, { status: 202 }));
    expect((await generateLoad(job(accepted, { request: "event" }))).answered).toBe(100);
    const other = serve(() => Response.json({ logged: true }));
    await expect(generateLoad(job(other, { request: "event" }))).rejects.toThrow("200");
  });

  test("gives every event its own claim, in later jobs too", async () => {
    const server = serve(() => Response.json({ logged: true }, { status: 202 }));
    for (let turn = 0; turn < 2; turn++) await generateLoad(job(server, { request: "claimed_event" }));
    expect(new Set(server.seen.map(({ claim }) => claim)).size).toBe(200);
    expect(server.seen[0]?.claim).toMatch(/^\d{16}$/);
  });

  test("fails when a connection is lost before its answer", async () => {
    const server = serve((before) => {
      if (before === 20) void running[0]?.stop(true);
      return Response.json({});
    });
    await expect(generateLoad(job(server, {}))).rejects.toThrow("closed before its answer");
  });

  test("reads answers that arrive in pieces", async () => {
    const listener = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        async data(socket) {
          for (const piece of ["HTTP/1.1 200 O", "K\r\ncontent-length: 4\r\n", "\r\nab", "cd"]) {
            socket.write(piece);
            socket.flush();
            await Bun.sleep(2);
          }
        },
      },
    });
    try {
      const place = { host: "127.0.0.1", port: listener.port };
      const result = await generateLoad(job(place, { connections: 2, span: { kind: "count", requests: 6 } }));
      expect(result.answered).toBe(6);
    } finally {
      listener.stop(true);
    }
  });

  /** Holds one answer back for 400 ms on the only connection, so 20 of the 25 requests become due meanwhile. */
  async function runBehindHeldAnswer(kind: "schedule" | "bursts") {
    // It comes 80 ms after the first request: the warm-up, which has no length here, is over then on a busy machine too.
    let firstMs: number | undefined;
    let isHeld = false;
    const server = serve(async () => {
      firstMs ??= performance.now();
      if (!isHeld && performance.now() - firstMs > 80) {
        isHeld = true;
        await Bun.sleep(400);
      }
      return Response.json({});
    });
    const result = await generateLoad(
      job(server, { connections: 1, span: { kind, ms: 500, perSecond: 50 } }),
    );
    // The last request of the warm-up is not part of the schedule.
    expect(result.answered).toBe(server.seen.length);
    expect(result.requests).toBe(25);
    expect(result.p99Ms).toBeGreaterThan(390);
    return result;
  }

  test("keeps to its schedule, and measures latency from the time at which a request was due", async () => {
    // Most of the requests waited. A load that measures from the sending would see one slow answer in 25.
    expect((await runBehindHeldAnswer("schedule")).p50Ms).toBeGreaterThan(100);
  });

  test("sends bursts on the same schedule, and measures latency from the sending", async () => {
    expect((await runBehindHeldAnswer("bursts")).p50Ms).toBeLessThan(100);
  });
});
