/**
 * Requests whose end two parsers could find at different places. The runtime refuses them before our code, with a
 * status and no JSON. The promise is that the connection ends there, and that a request hidden in the body is never
 * executed: the hidden request would revoke a key, and the key must still work afterwards.
 */
import { describe, expect, test } from "bun:test";
import { sendRaw } from "../support/raw_http.ts";
import { useAdmin, useTestService } from "../support/use.ts";

const service = useTestService();
const admin = useAdmin();

/** The parts of a listener's requests, each with its headers but without the blank line after them. */
interface Parts {
  /** A POST, without the headers that describe its body. */
  readonly post: string;
  /** A GET that is answered at once: the runtime answers a second request only after such a one. */
  readonly get: string;
  readonly path: string;
  /** A whole request that revokes the key. */
  readonly hidden: string;
}

/** A key, and the requests that could revoke it. */
interface Victim extends Parts {
  isRevoked(): Promise<boolean>;
}

interface Listener {
  readonly of: string;
  readonly url: () => string;
  makeVictim(): Promise<Victim>;
}

const CLIENTS: Listener = {
  of: "clients",
  url: () => service.url,
  async makeVictim() {
    const { apiKey } = await service.issue();
    const body = JSON.stringify({ api_key: apiKey });
    const path = "/v1/auth/refresh";
    return {
      post: `POST ${path} HTTP/1.1\r\nHost: h\r\n`,
      get: "GET /api/health HTTP/1.1\r\nHost: h\r\n",
      path,
      hidden: `POST /v1/auth/revoke HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      isRevoked: async () => (await service.post(path, { api_key: apiKey })).status === 401,
    };
  },
};

const OPERATORS: Listener = {
  of: "operators",
  url: () => admin.url,
  async makeVictim() {
    const { id } = await admin.issue();
    const headers = `Host: ${new URL(admin.url).host}\r\nAuthorization: Bearer ${await admin.token()}\r\n`;
    const path = "/admin/v1/keys/find";
    return {
      post: `POST ${path} HTTP/1.1\r\n${headers}`,
      get: `GET /admin/health HTTP/1.1\r\n${headers}`,
      path,
      hidden: `POST /admin/v1/keys/${id}/revoke HTTP/1.1\r\n${headers}Content-Length: 2\r\n\r\n{}`,
      isRevoked: async () => (await admin.call("GET", `/keys/${id}`)).body.state === "revoked",
    };
  },
};

const LISTENERS = [CLIENTS, OPERATORS];

/** Sends bytes and waits until the service closes the connection; returns all answers. */
async function answersUntilClosed(url: string, bytes: string): Promise<{ status: number; text: string }[]> {
  const answers = await sendRaw(url, Buffer.from(bytes, "latin1"), { answers: 100 });
  return answers.map(({ status, text }) => ({ status, text }));
}

const length = (n: number) => `Content-Length: ${n}\r\n`;
const CHUNKED = "Transfer-Encoding: chunked\r\n";
const CLOSE = "Connection: close\r\n";

const BIG = "18446744073709551618";

/** Headers and a body, with which a POST is refused by the runtime; another request follows. */
const UNCLEAR: Readonly<Record<string, string>> = {
  "two lengths, the first shorter": `${length(2)}${length(200)}\r\n{}`,
  "two lengths, the second shorter": `${length(200)}${length(2)}\r\n{}`,
  "a list of lengths": "Content-Length: 2, 200\r\n\r\n{}",
  "a length and chunks": `${length(5)}${CHUNKED}\r\n0\r\n\r\n`,
  "chunks and a length": `${CHUNKED}${length(5)}\r\n0\r\n\r\n`,
  "chunks and a second encoding": `${CHUNKED}Transfer-Encoding: x\r\n\r\n0\r\n\r\n`,
  "an unknown encoding": "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
  "chunks that are not the last encoding": "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
  "a blank before the colon": "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
  "a folded header": "X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  "a control character before the encoding": "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
  "a negative length": "Content-Length: -5\r\n\r\n",
  "a length with a sign": "Content-Length: +2\r\n\r\n{}",
  "a hexadecimal length": "Content-Length: 0x2\r\n\r\n{}",
  "an empty length": "Content-Length: \r\n\r\n",
  "a length beyond the largest 64-bit number": `Content-Length: ${BIG}\r\n\r\n{}`,
  "a chunk with an invalid size": `${CHUNKED}\r\nzz\r\n{}\r\n0\r\n\r\n`,
  "a chunk with a negative size": `${CHUNKED}\r\n-2\r\n{}\r\n0\r\n\r\n`,
  "a chunk size beyond the largest 64-bit number": `${CHUNKED}\r\nfffffffffffffffff2\r\n{}\r\n0\r\n\r\n`,
  "a chunk that is longer than its size": `${CHUNKED}\r\n1\r\n{}\r\n0\r\n\r\n`,
  "a carriage return in a header's value": "X: a\rb\r\n\r\n",
  "a NUL in a header's value": "X: a\x00b\r\n\r\n",
};

type Row = readonly [what: string, toBytes: (parts: Parts) => string, status: number];

/** Requests that the runtime refuses, before another request. */
const REFUSED: readonly Row[] = [
  ...Object.entries(UNCLEAR).map(([what, rest]): Row => [what, ({ post }) => post + rest, 400]),
  ["chunks on HTTP/1.0", ({ post }) => `${post.replace("1.1", "1.0")}${CHUNKED}\r\n0\r\n\r\n`, 400],
  ["no Host", () => "GET /api/health HTTP/1.1\r\n\r\n", 400],
  ["bytes that are not HTTP", () => "\x16\x03\x01\x02\x00\r\n\r\n", 400],
  ["the preface of HTTP/2", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
  ["a header of 20 KB", ({ post }) => `${post}X: ${"a".repeat(20_000)}\r\n\r\n`, 431],
  ["20 KB of headers", ({ post }) => `${post}${`X: ${"a".repeat(200)}\r\n`.repeat(100)}\r\n`, 431],
  ["a path of 20 KB", ({ get }) => `${get.replace(" HTTP", `${"a".repeat(20_000)} HTTP`)}\r\n`, 431],
  // After a blank in the path, the runtime reads the rest as an unknown HTTP version.
  ["a blank in the path", ({ get }) => `${get.replace(" HTTP", " x HTTP")}\r\n`, 505],
  ["a NUL in the path", ({ get }) => `${get.replace(" HTTP", "\x00 HTTP")}\r\n`, 505],
  ["another HTTP version", ({ get }) => `${get.replace("HTTP/1.1", "HTTP/2.0")}\r\n`, 505],
];

/** Returns the headers of a body, and the body. */
const withBody = (body: string) => `${CLOSE}${length(body.length)}\r\n${body}`;

/** Requests with another one in a place where it is no request. */
const HIDING: readonly Row[] = [
  ["the body of a GET", ({ get, hidden }) => get + withBody(hidden), 200],
  [
    "a body that the service does not read",
    ({ post, path, hidden }) => post.replace(path, `${path}/nothing`) + withBody(hidden),
    404,
  ],
  ["a body that is not JSON", ({ post, hidden }) => post + withBody(hidden), 400],
  [
    "a body with the same length twice",
    ({ post, hidden }) => post + length(hidden.length) + withBody(hidden),
    400,
  ],
  [
    "a chunk",
    ({ post, hidden }) =>
      `${post}${CLOSE}${CHUNKED}\r\n${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`,
    400,
  ],
  ["the extension of a chunk", ({ post }) => `${post}${CLOSE}${CHUNKED}\r\n2;a=b\r\n[]\r\n0\r\n\r\n`, 400],
  ["a body that is too large", ({ post, hidden }) => post + withBody("x".repeat(70_000) + hidden), 413],
];

describe.each(LISTENERS)("The listener of $of", ({ url, makeVictim }) => {
  test.each(REFUSED)(
    "refuses %s, closes the connection, and executes no request after it",
    async (_, toBytes, status) => {
      const victim = await makeVictim();
      const bytes = toBytes(victim) + victim.hidden;
      expect(await answersUntilClosed(url(), bytes)).toEqual([{ status, text: "" }]);
      expect(await victim.isRevoked()).toBe(false);
    },
  );

  test.each(HIDING)("executes no request that is hidden in %s", async (_, toBytes, status) => {
    const victim = await makeVictim();
    const answers = await answersUntilClosed(url(), toBytes(victim));
    expect(answers.map((answer) => answer.status)).toEqual([status]);
    // Our code answered, and not the runtime.
    if (status >= 400) expect(JSON.parse(answers[0]?.text ?? "")).toBeObject();
    expect(await victim.isRevoked()).toBe(false);
  });

  test("executes no request after the last chunk, with or without a trailer", async () => {
    for (const trailer of ["X-API-Key: a\r\n\r\n", "X: y\r\n", "", "XX"]) {
      const victim = await makeVictim();
      const { post, hidden } = victim;
      const bytes = `${post}${CHUNKED}\r\n2\r\n[]\r\n0\r\n${trailer}${hidden}`;
      const answers = await answersUntilClosed(url(), bytes);
      expect(answers[0]?.status).toBe(400);
      // The runtime accepts no trailers: it refuses them after the request is answered, or closes the connection.
      for (const answer of answers.slice(1)) expect(answer).toEqual({ status: 400, text: "" });
      expect(await victim.isRevoked()).toBe(false);
    }
  });

  test("would revoke the key if it executed the hidden request: after a whole request it does", async () => {
    const victim = await makeVictim();
    const { get, hidden } = victim;
    const answers = await sendRaw(url(), `${get}\r\n${hidden}`, { answers: 2 });
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(await victim.isRevoked()).toBe(true);
  });
});

test("The listener of clients opens no tunnel for CONNECT, and executes no request after it", async () => {
  const victim = await CLIENTS.makeVictim();
  const { post, path, hidden } = victim;
  for (const target of [path, "h:443", `http://h${path}`]) {
    const connect = post.replace(`POST ${path}`, `CONNECT ${target}`);
    const [answer, ...more] = await answersUntilClosed(service.url, `${connect}\r\n${hidden}`);
    expect([404, 405]).toContain(answer?.status ?? 0);
    expect(more).toEqual([]);
    expect(await victim.isRevoked()).toBe(false);
  }
});
