/**
 * Hundreds of clients that send their requests byte by byte: they get their answers, and meanwhile others get
 * theirs as fast as without them.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { startTestService, type TestService } from "../support/service.ts";

const SENDERS = 300;
const BYTE_EVERY_MS = 25;
const PARTS = 25;
const OTHERS = 8;
const REQUESTS = 150;
/** Many times what the slowest of the others takes on a busy machine, and far below what waiting for one costs. */
const HARMED_MS = 1_000;

let service: TestService;
let apiKey: string;

beforeAll(async () => {
  service = await startTestService({ config: { logRequests: "off" } });
  ({ apiKey } = await service.issue());
});
afterAll(() => service.close());

/** A few clients that validate as fast as they are answered; gives what each request took, sorted. */
async function measureOthers(): Promise<number[]> {
  const took: number[] = [];
  const client = async () => {
    for (let request = 0; request < REQUESTS; request++) {
      const beganMs = performance.now();
      const { status } = await service.post("/v1/auth/validate", { api_key: apiKey });
      took.push(performance.now() - beganMs);
      expect(status).toBe(200);
    }
  };
  await Promise.all(Array.from({ length: OTHERS }, client));
  return took.toSorted((a, b) => a - b);
}

const p99 = (sorted: readonly number[]) => sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;

/** Connections of which each sends one more byte of its request every few milliseconds. */
async function startSlowSenders(toRequest: (index: number) => string) {
  const { hostname, port } = new URL(service.url);
  const received: string[] = Array.from({ length: SENDERS }, () => "");
  const ended: boolean[] = Array.from({ length: SENDERS }, () => false);
  const sockets = await Promise.all(
    received.map(
      (_, index) =>
        new Promise<Socket>((resolve, reject) => {
          const socket = connect(Number(port), hostname, () => resolve(socket));
          socket.setNoDelay(true);
          socket.on("data", (chunk) => {
            received[index] += chunk.toString("latin1");
          });
          socket.on("close", () => {
            ended[index] = true;
          });
          socket.on("error", reject);
        }),
    ),
  );
  let turns = 0;
  let bytesSent = 0;
  // A part of them at a time: they share this process, and all at once would be a pause of our own making.
  const timer = setInterval(() => {
    const at = Math.floor(turns / PARTS);
    for (let index = turns % PARTS; index < SENDERS; index += PARTS) {
      const byte = toRequest(index)[at];
      if (byte === undefined || ended[index]) continue;
      sockets[index]?.write(byte, "latin1");
      bytesSent++;
    }
    turns++;
  }, BYTE_EVERY_MS / PARTS);
  return {
    received,
    get bytesSent() {
      return bytesSent;
    },
    stop() {
      clearInterval(timer);
      for (const socket of sockets) socket.destroy();
    },
  };
}

test(`The p99 of others is unharmed by ${SENDERS} clients that send byte by byte, and these get their answers`, async () => {
  const body = JSON.stringify({ api_key: apiKey });
  const whole = `POST /v1/auth/refresh HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const chunked = `POST /v1/auth/refresh HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  await measureOthers();
  const without = p99(await measureOthers());
  const senders = await startSlowSenders((index) => (index % 2 === 0 ? whole : chunked));
  try {
    const beside = p99(await measureOthers());
    expect(senders.bytesSent).toBeGreaterThan(SENDERS);
    console.log(`p99 of others: ${without.toFixed(1)} ms without, ${beside.toFixed(1)} ms beside ${SENDERS}`);
    expect(beside).toBeLessThan(HARMED_MS);
    // Then: they too are answered, when they have said what they want.
    const deadlineMs = performance.now() + 30_000;
    while (senders.received.some((text) => text === "") && performance.now() < deadlineMs)
      await Bun.sleep(20);
    expect(senders.received.filter((text) => !text.startsWith("HTTP/1.1 200 OK"))).toEqual([]);
  } finally {
    senders.stop();
  }
}, 60_000);

test(`${SENDERS} connections that stop within a request keep nobody from being answered, and hanging up is no failure`, async () => {
  const head = "POST /v1/auth/refresh HTTP/1.1\r\nHost: h\r\nContent-Length: 500\r\n\r\n{";
  const senders = await startSlowSenders((index) => head.slice(0, 20 + (index % 60)));
  const before = service.logLines.length;
  try {
    await Bun.sleep(10 * BYTE_EVERY_MS);
    expect(p99(await measureOthers())).toBeLessThan(HARMED_MS);
  } finally {
    senders.stop();
  }
  expect((await service.get("/api/health")).status).toBe(200);
  const lines = service.logLines.slice(before).map((line) => JSON.parse(line));
  expect(lines.filter(({ level }) => level !== "info")).toEqual([]);
}, 60_000);
