/**
 * Requests whose end two parsers could find at different places. The runtime refuses them before our code, with a
 * status and no JSON. The promise is that the connection ends there, and that a request hidden in the body is never
 * executed: the hidden request would revoke a key, and the key must still work afterwards.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { sendRaw } from "../support/raw_http.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();
let victim: string;

beforeAll(async () => {
  victim = (await service.issue()).apiKey;
});

const POST = "POST /v1/auth/refresh HTTP/1.1\r\nHost: h\r\n";

/** Returns a whole request that revokes the key. */
function hidden(): string {
  const body = JSON.stringify({ api_key: victim });
  return `POST /v1/auth/revoke HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** Sends bytes and waits until the service closes the connection; returns all answers. */
async function answersUntilClosed(bytes: string): Promise<{ status: number; text: string }[]> {
  const answers = await sendRaw(service.url, Buffer.from(bytes, "latin1"), { answers: 100 });
  return answers.map(({ status, text }) => ({ status, text }));
}

async function expectNotRevoked(): Promise<void> {
  const { status } = await service.post("/v1/auth/refresh", { api_key: victim });
  expect(status).toBe(200);
}

const length = (n: number) => `Content-Length: ${n}\r\n`;
const CHUNKED = "Transfer-Encoding: chunked\r\n";

describe("The runtime", () => {
  for (const [what, bytes, status] of [
    ["two lengths, the first shorter", () => `${POST}${length(2)}${length(200)}\r\n{}${hidden()}`, 400],
    ["two lengths, the second shorter", () => `${POST}${length(200)}${length(2)}\r\n{}${hidden()}`, 400],
    ["a list of lengths", () => `${POST}Content-Length: 2, 200\r\n\r\n{}${hidden()}`, 400],
    ["a length and chunks", () => `${POST}${length(5)}${CHUNKED}\r\n0\r\n\r\n${hidden()}`, 400],
    ["chunks and a length", () => `${POST}${CHUNKED}${length(5)}\r\n0\r\n\r\n${hidden()}`, 400],
    [
      "chunks and a second encoding",
      () => `${POST}${CHUNKED}Transfer-Encoding: x\r\n\r\n0\r\n\r\n${hidden()}`,
      400,
    ],
    ["an unknown encoding", () => `${POST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${hidden()}`, 400],
    [
      "chunks that are not the last encoding",
      () => `${POST}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n${hidden()}`,
      400,
    ],
    ["a blank before the colon", () => `${POST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${hidden()}`, 400],
    ["a folded header", () => `${POST}X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden()}`, 400],
    [
      "a control character before the encoding",
      () => `${POST}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n${hidden()}`,
      400,
    ],
    ["chunks on HTTP/1.0", () => `${POST.replace("1.1", "1.0")}${CHUNKED}\r\n0\r\n\r\n${hidden()}`, 400],
    ["a length with a sign", () => `${POST}Content-Length: +2\r\n\r\n{}${hidden()}`, 400],
    ["a hexadecimal length", () => `${POST}Content-Length: 0x2\r\n\r\n{}${hidden()}`, 400],
    ["an empty length", () => `${POST}Content-Length: \r\n\r\n${hidden()}`, 400],
    [
      "a length beyond the largest 64-bit number",
      () => `${POST}Content-Length: 18446744073709551618\r\n\r\n{}${hidden()}`,
      400,
    ],
    ["a chunk with an invalid size", () => `${POST}${CHUNKED}\r\nzz\r\n{}\r\n0\r\n\r\n${hidden()}`, 400],
    ["a chunk with a negative size", () => `${POST}${CHUNKED}\r\n-2\r\n{}\r\n0\r\n\r\n${hidden()}`, 400],
    [
      "a chunk size beyond the largest 64-bit number",
      () => `${POST}${CHUNKED}\r\nfffffffffffffffff2\r\n{}\r\n0\r\n\r\n${hidden()}`,
      400,
    ],
    [
      "a chunk that is longer than its size",
      () => `${POST}${CHUNKED}\r\n1\r\n{}\r\n0\r\n\r\n${hidden()}`,
      400,
    ],
    ["a header of 20 KB", () => `${POST}X: ${"a".repeat(20_000)}\r\n\r\n${hidden()}`, 431],
    ["20 KB of headers", () => `${POST}${`X: ${"a".repeat(200)}\r\n`.repeat(100)}\r\n${hidden()}`, 431],
    ["a path of 20 KB", () => `GET /${"a".repeat(20_000)} HTTP/1.1\r\nHost: h\r\n\r\n${hidden()}`, 431],
    ["a carriage return in a header's value", () => `${POST}X: a\rb\r\n\r\n${hidden()}`, 400],
    ["a NUL in a header's value", () => `${POST}X: a\x00b\r\n\r\n${hidden()}`, 400],
    // After a blank in the path, the runtime reads the rest as an unknown HTTP version.
    ["a blank in the path", () => `GET /api/health x HTTP/1.1\r\nHost: h\r\n\r\n${hidden()}`, 505],
    ["a NUL in the path", () => `GET /api/\x00health HTTP/1.1\r\nHost: h\r\n\r\n${hidden()}`, 505],
    ["another HTTP version", () => `GET /api/health HTTP/2.0\r\nHost: h\r\n\r\n${hidden()}`, 505],
    ["the preface of HTTP/2", () => `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden()}`, 400],
  ] as const) {
    test(`refuses ${what} and closes the connection`, async () => {
      expect(await answersUntilClosed(bytes())).toEqual([{ status, text: "" }]);
      await expectNotRevoked();
    });
  }
});

describe("A hidden request", () => {
  const close = "Connection: close\r\n";
  for (const [what, bytes, status] of [
    [
      "the body of a GET",
      () => `GET /api/health HTTP/1.1\r\nHost: h\r\n${close}${length(hidden().length)}\r\n${hidden()}`,
      200,
    ],
    [
      "a body that the service does not read",
      () => `POST /nothing HTTP/1.1\r\nHost: h\r\n${close}${length(hidden().length)}\r\n${hidden()}`,
      404,
    ],
    ["a body that is not JSON", () => `${POST}${close}${length(hidden().length)}\r\n${hidden()}`, 400],
    [
      "a body with the same length twice",
      () => `${POST}${close}${length(hidden().length)}${length(hidden().length)}\r\n${hidden()}`,
      400,
    ],
    [
      "a chunk",
      () => `${POST}${close}${CHUNKED}\r\n${hidden().length.toString(16)}\r\n${hidden()}\r\n0\r\n\r\n`,
      400,
    ],
    ["the extension of a chunk", () => `${POST}${close}${CHUNKED}\r\n2;a=b\r\n[]\r\n0\r\n\r\n`, 400],
    [
      "a body that is too large",
      () => `${POST}${close}${length(hidden().length + 70_000)}\r\n${"x".repeat(70_000)}${hidden()}`,
      413,
    ],
  ] as const) {
    test(`in ${what} is not executed`, async () => {
      const answers = await answersUntilClosed(bytes());
      expect(answers.map((answer) => answer.status)).toEqual([status]);
      expect(JSON.parse(answers[0]?.text ?? "")).toBeObject();
      await expectNotRevoked();
    });
  }

  test("after the last chunk is not executed, with or without a trailer", async () => {
    for (const trailer of [`X-API-Key: ${victim}\r\n\r\n`, "X: y\r\n", "", "XX"]) {
      const answers = await answersUntilClosed(`${POST}${CHUNKED}\r\n2\r\n[]\r\n0\r\n${trailer}${hidden()}`);
      expect(answers[0]?.status).toBe(400);
      // The runtime accepts no trailers: it refuses them after the request is answered.
      expect(answers.slice(1)).toEqual([{ status: 400, text: "" }]);
      await expectNotRevoked();
    }
  });

  test("after CONNECT, which opens no tunnel, is not executed", async () => {
    for (const target of ["/v1/auth/validate", "h:443", "http://h/v1/auth/validate"]) {
      const [answer, ...more] = await answersUntilClosed(
        `CONNECT ${target} HTTP/1.1\r\nHost: h\r\n\r\n${hidden()}`,
      );
      expect([404, 405]).toContain(answer?.status ?? 0);
      expect(more).toEqual([]);
      await expectNotRevoked();
    }
  });

  test("would revoke its key if it were executed: the same bytes after a whole request do", async () => {
    const { apiKey } = await service.issue();
    const bytes = hidden().replace(victim, apiKey);
    const answers = await sendRaw(service.url, `GET /api/health HTTP/1.1\r\nHost: h\r\n\r\n${bytes}`, {
      answers: 2,
    });
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect((await service.post("/v1/auth/refresh", { api_key: apiKey })).status).toBe(401);
  });
});
