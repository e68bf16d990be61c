/** The limits on downloads at the same time: for each key, and for all keys together. */
import { beforeAll, expect, test } from "bun:test";
import { truncateSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { addHostedModel, startHostingService } from "../support/hosted.ts";
import { until } from "../support/until.ts";
import { useHostingService } from "../support/use.ts";

/** More than the sockets' buffers hold: the download lasts for as long as the client does not read. */
const SIZE = 100_000_000;
const PATH = "/v1/models/download/large/1.0.0";

const service = useHostingService({ config: { downloadsPerKey: 3, downloadsAtOnce: 5 } });
let stalled: Socket[] = [];

beforeAll(async () => {
  const path = join(service.dataDir, "large");
  writeFileSync(path, "");
  truncateSync(path, SIZE);
  await addHostedModel(service, { name: "large" }, { path });
});

/** Begins a download and reads only its first bytes. */
async function stall(key: IssuedKey, at = service): Promise<void> {
  const { hostname, port } = new URL(at.url);
  const socket = connect(Number(port), hostname);
  socket.write(`GET ${PATH} HTTP/1.1\r\nHost: h\r\nX-API-Key: ${key.apiKey}\r\n\r\n`);
  const first = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
  socket.pause();
  stalled.push(socket);
  expect(first.toString("latin1")).toStartWith("HTTP/1.1 200 ");
}

function endAllDownloads(): void {
  for (const socket of stalled) socket.destroy();
  stalled = [];
}

/** Downloads a few bytes of the file. */
function load(key: IssuedKey) {
  return fetch(service.url + PATH, { headers: { "X-API-Key": key.apiKey, Range: "bytes=0-9" } });
}

/** Expects that the key can download again within 2 s: the service soon notices a closed connection. */
async function expectRoom(key: IssuedKey): Promise<void> {
  const look = async () => {
    await service.advance(1_000);
    const answer = await load(key);
    await answer.arrayBuffer();
    return answer.status === 206;
  };
  await until(look, { what: "the key can download again", limitMs: 2_000 });
}

const refusalOf = (key: IssuedKey, at = service) => at.get(PATH, { "X-API-Key": key.apiKey });

test("GET /v1/models/download goes on to send what a key asked for before it was revoked, and refuses its next range", async () => {
  const key = await service.issue();
  const answer = await fetch(service.url + PATH, { headers: { "X-API-Key": key.apiKey } });
  expect(answer.status).toBe(200);
  const { status } = await service.post("/v1/auth/revoke", { api_key: key.apiKey });
  expect(status).toBe(200);
  expectRefusal(await refusalOf(key), 401, "INVALID_KEY");
  let received = 0;
  for await (const chunk of answer.body ?? []) received += chunk.length;
  expect(received).toBe(SIZE);
});

test("GET /v1/models/download limits a key's downloads at once, and admits another when one has ended", async () => {
  const [key, other] = [await service.issue(), await service.issue()];
  for (let count = 0; count < 3; count++) await stall(key);
  const refused = await refusalOf(key);
  expectRefusal(refused, 429, "RATE_LIMIT_EXCEEDED");
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(refused.body.error).toBe(
    "This key has 3 downloads in progress: continue when one of them has ended",
  );
  expect((await load(other)).status).toBe(206);
  // HEAD and a 304 do not count as downloads.
  const head = await fetch(service.url + PATH, { method: "HEAD", headers: { "X-API-Key": key.apiKey } });
  expect(head.status).toBe(200);
  const etag = head.headers.get("etag") ?? "";
  const known = { "X-API-Key": key.apiKey, "If-None-Match": etag };
  expect((await fetch(service.url + PATH, { headers: known })).status).toBe(304);
  stalled.pop()?.destroy();
  await expectRoom(key);
  // Any number of downloads is allowed one after another.
  for (let count = 0; count < 20; count++) {
    await service.advance(1_000);
    const answer = await load(key);
    await answer.arrayBuffer();
    expect(answer.status).toBe(206);
  }
  endAllDownloads();
});

test("GET /v1/models/download limits the downloads of all keys at once", async () => {
  await service.advance(1_000);
  const keys = [await service.issue(), await service.issue(), await service.issue()];
  for (const index of [0, 0, 1, 1, 2]) await stall(keys[index]!);
  const refused = await refusalOf(keys[2]!);
  expectRefusal(refused, 503, "SERVICE_UNAVAILABLE");
  expect(refused.headers.get("retry-after")).toBe("1");
  endAllDownloads();
  await expectRoom(keys[2]!);
});

test("GET /v1/models/download limits a key to 16 at once while three quarters of all are in use", async () => {
  const crowded = await startHostingService({ config: { downloadsPerKey: 128, downloadsAtOnce: 48 } });
  try {
    await addHostedModel(crowded, { name: "large" }, { path: join(service.dataDir, "large") });
    const [greedy, other] = [await crowded.issue(), await crowded.issue()];
    for (let count = 0; count < 36; count++) await stall(greedy, crowded);
    const refused = await refusalOf(greedy, crowded);
    expectRefusal(refused, 429, "RATE_LIMIT_EXCEEDED");
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(refused.body.error).toStartWith(
      "The service is nearly full, and this key has 16 or more downloads",
    );
    for (let count = 0; count < 12; count++) await stall(other, crowded);
    expectRefusal(await refusalOf(other, crowded), 503, "SERVICE_UNAVAILABLE");
  } finally {
    endAllDownloads();
    await crowded.close();
  }
});
