/** The room for the bodies of batches: bounded for all, and for each client address. */
import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { createConnection } from "node:net";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import { createBatchRoom } from "../../src/clients/batch_room.ts";
import { expectRefusal } from "../support/answers.ts";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";

const MEGABYTE = 1024 * 1024;

describe("createBatchRoom()", () => {
  const withRoom = { hasRoom: () => true };

  test("gives one address a quarter of the room, and takes it back with each answer", () => {
    const room = createBatchRoom(withRoom);
    const taken = Array.from({ length: 8 }, () => room.take("a", MEGABYTE));
    expect(taken).not.toContain(undefined);
    expect(room.take("a", 1)).toBeUndefined();
    expect(room.take("b", MEGABYTE)).toBeDefined();
    taken[0]?.();
    expect(room.take("a", MEGABYTE)).toBeDefined();
    expect(room.take("a", 1)).toBeUndefined();
  });

  test("gives all addresses 32 MiB together", () => {
    const room = createBatchRoom(withRoom);
    const taken = Array.from({ length: 33 }, (_, index) => room.take(`address ${index}`, MEGABYTE));
    expect(taken.indexOf(undefined)).toBe(32);
    taken[5]?.();
    expect(room.take("another", MEGABYTE)).toBeDefined();
  });

  test("gives none while too many events wait for their commit", () => {
    expect(createBatchRoom({ hasRoom: () => false }).take("a", 1)).toBeUndefined();
  });
});

describe("POST /v1/analytics/batch", () => {
  const parsed = parseTrustedProxies("127.0.0.1");
  const service = useTestService({ config: { trustedProxies: parsed.ok ? parsed.proxies : [] } });

  /** Sends the head of a batch of a megabyte, and no body. */
  async function beginBatch(): Promise<{ hangUp(): void }> {
    const { hostname, port } = new URL(service.url);
    const socket = createConnection(Number(port), hostname);
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(`POST /v1/analytics/batch HTTP/1.1\r\nHost: h\r\nContent-Length: ${MEGABYTE}\r\n\r\n{`);
    return { hangUp: () => void socket.destroy() };
  }

  test("is answered with 503 before its body is read while its address has taken its room, and others are served", async () => {
    const { apiKey } = await service.issue();
    const send = (headers = {}) => call(service, ENDPOINTS.analyticsBatch, apiKey, { headers });
    const begun = await Promise.all(Array.from({ length: 8 }, beginBatch));
    await until(async () => (await send()).status === 503);
    const refused = await send();
    expectRefusal(refused, 503, "SERVICE_UNAVAILABLE");
    expect(refused.headers.get("Retry-After")).toBe("1");
    expect(refused.body.error).toContain("no room for another batch of events now");
    expect(await send({ "X-Forwarded-For": "192.0.2.7" })).toMatchObject({ status: 200 });
    expect(await call(service, ENDPOINTS.analyticsLog, apiKey)).toMatchObject({ status: 202 });
    for (const { hangUp } of begun) hangUp();
    await until(async () => (await send()).status === 200);
  });
});
