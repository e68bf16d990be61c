/** While the service stops, its answers tell clients not to use their connections again. */
import { expect, test } from "bun:test";
import { connect } from "node:net";
import { useTestService } from "../support/use.ts";

const service = useTestService();

test("Answers after the stop began close their connections, also the answer to an earlier request", async () => {
  const { apiKey } = await service.issue();
  expect((await service.get("/api/health")).headers.get("connection")).not.toBe("close");
  const body = JSON.stringify({ api_key: apiKey });
  const client = await beginRequest(service.url, { body, sent: 10 });
  // This later request has its answer, so the service has received the begun request.
  await service.get("/api/health");

  // On Node the test stops the service by a signal, and the grace is the setting's default, also 1 s.
  const stopped = service.service.stop(5_000, { graceMs: 1_000 });
  let health = await service.get("/api/health");
  while (health.status === 200) health = await service.get("/api/health");
  client.finish();
  const head = await client.head;

  expect(health.headers.get("connection")).toBe("close");
  expect(health.headers.get("keep-alive")).toBeNull();
  expect(head).toStartWith("HTTP/1.1 200 ");
  expect(head).toMatch(/^connection: close\r$/im);
  expect(head).not.toMatch(/^keep-alive:/im);
  await stopped;
});

interface BegunRequest {
  /** Sends the rest of the body. */
  finish(): void;
  /** The answer's head. */
  readonly head: Promise<string>;
}

/** Sends a validate request without the end of its body. */
async function beginRequest(
  url: string,
  { body, sent }: { readonly body: string; readonly sent: number },
): Promise<BegunRequest> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const head = new Promise<string>((resolve, reject) => {
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      const end = received.indexOf("\r\n\r\n");
      if (end !== -1) resolve(received.slice(0, end + 2));
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`The connection was closed: ${JSON.stringify(received)}`)));
  });
  const start = `POST /v1/auth/validate HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n`;
  await new Promise<void>((resolve) => socket.write(start + body.slice(0, sent), () => resolve()));
  return { finish: () => void socket.write(body.slice(sent)), head };
}
