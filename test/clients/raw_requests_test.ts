/** Requests that no client library sends: each is answered or refused, and the service keeps working. */
import { beforeAll, describe, expect, test } from "bun:test";
import { hangUpAfter, type RawOptions, sendRaw } from "../support/raw_http.ts";
import { ON_NODE } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();
let apiKey: string;

beforeAll(async () => {
  ({ apiKey } = await service.issue());
});

const HOST = "Host: h\r\n";
/** The head of a request without the headers that describe its body. */
const POST = `POST /v1/auth/validate HTTP/1.1\r\n${HOST}`;
const raw = (text: string, options?: RawOptions) => sendRaw(service.url, text, options);
const validation = (headers = HOST) => {
  const body = JSON.stringify({ api_key: apiKey });
  return `POST /v1/auth/validate HTTP/1.1\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
};

describe("A missing or invalid Host does not change the path:", () => {
  for (const [what, head] of [
    ["HTTP/1.0 without a Host", "HTTP/1.0\r\n"],
    ["an empty Host", "HTTP/1.1\r\nHost: \r\n"],
    ["a Host with spaces", "HTTP/1.1\r\nHost: a b/c?d\r\n"],
    ["a Host with a query", "HTTP/1.1\r\nHost: a?api_key=b\r\n"],
    ["a Host with a path", "HTTP/1.1\r\nHost: a/v1\r\n"],
    ["a Host with a user", "HTTP/1.1\r\nHost: u:p@h\r\n"],
  ]) {
    test(`GET /api/health answers a request with ${what}`, async () => {
      const [answer] = await raw(`GET /api/health ${head}\r\n`);
      expect(answer).toMatchObject({ status: 200 });
    });
    test(`GET /v1/models/list reads its query with ${what}`, async () => {
      const [answer] = await raw(`GET /v1/models/list?api_key=${apiKey} ${head}\r\n`);
      expect(answer).toMatchObject({ status: 200, text: '{"models":[],"total":0}' });
    });
  }
});

for (const path of [
  "//v1/auth/validate",
  "/v1//auth/validate",
  "/v1/auth/validate#x",
  "/\\v1/auth/validate",
]) {
  test(`POST ${path} answers NOT_FOUND`, async () => {
    const [answer] = await raw(validation().replace("/v1/auth/validate", path));
    expect(answer?.status).toBe(404);
    expect(JSON.parse(answer?.text ?? "")).toMatchObject({ code: "NOT_FOUND" });
  });
}

test("GET /v1/models/list refuses bytes in its query that are not UTF-8", async () => {
  const request = `GET /v1/models/list?api_key=${apiKey}&type=\xff HTTP/1.1\r\n${HOST}\r\n`;
  const [answer] = await sendRaw(service.url, Buffer.from(request, "latin1"));
  expect(answer?.status).toBe(400);
  // Node's own parser refuses raw bytes in a path, without a body.
  if (!ON_NODE) expect(JSON.parse(answer?.text ?? "")).toMatchObject({ code: "INVALID_REQUEST" });
});

test("Two X-API-Key headers are refused as a malformed key", async () => {
  const header = `X-API-Key: ${apiKey}\r\n`;
  const [answer] = await raw(`GET /v1/models/list HTTP/1.1\r\n${HOST}${header}${header}\r\n`);
  expect(JSON.parse(answer?.text ?? "")).toMatchObject({ code: "INVALID_FORMAT" });
});

test("A key in X-API-Key is accepted with blanks around it, like the value of any header", async () => {
  const [answer] = await raw(`GET /v1/models/list HTTP/1.1\r\n${HOST}X-API-Key: \t${apiKey} \r\n\r\n`);
  expect(answer?.status).toBe(200);
});

describe("A connection serves the next request", () => {
  const body = "Content-Length: 5\r\n\r\nhello";
  for (const [what, first, status] of [
    ["a success", `GET /api/health HTTP/1.1\r\n${HOST}\r\n`, 200],
    ["a GET with a body", `GET /api/health HTTP/1.1\r\n${HOST}${body}`, 200],
    ["a 404 to a body that was not read", `POST /nothing HTTP/1.1\r\n${HOST}${body}`, 404],
    ["a 405 to a body that was not read", `PUT /v1/auth/validate HTTP/1.1\r\n${HOST}${body}`, 405],
    ["a 415 to a body that was not read", `${POST}Content-Encoding: br\r\n${body}`, 415],
  ] as const) {
    test(`after ${what}`, async () => {
      const answers = await raw(first + validation(), { answers: 2 });
      expect(answers.map((answer) => answer.status)).toEqual([status, 200]);
    });
  }
  for (const path of ["/api/health", "/v1/installer/repo-token", "/nothing"]) {
    test(`after HEAD ${path}, whose answer has no body`, async () => {
      const head = `HEAD ${path} HTTP/1.1\r\n${HOST}\r\n`;
      const answers = await raw(head + head, { answers: 2, bodiless: true });
      expect(answers).toHaveLength(2);
      expect(Number(answers[0]?.headers.get("content-length"))).toBeGreaterThan(0);
    });
  }
});

test("A client that waits for 100 Continue gets its answer", async () => {
  const [answer] = await raw(validation(`${HOST}Expect: 100-continue\r\n`));
  expect(answer?.status).toBe(200);
});

test("A body whose head announces trailers is refused before it is read, and the connection closed", async () => {
  const { apiKey: victim } = await service.issue();
  const body = JSON.stringify({ api_key: victim });
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\nX-Sum: 1\r\n\r\n`;
  const [answer] = await raw(
    `POST /v1/auth/revoke HTTP/1.1\r\n${HOST}Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
  );
  expect(answer?.status).toBe(400);
  expect(JSON.parse(answer?.text ?? "")).toMatchObject({ code: "INVALID_REQUEST" });
  expect(answer?.headers.get("connection")).toBe("close");
  expect((await service.post("/v1/auth/validate", { api_key: victim })).status).toBe(200);
});

/** The runtime refuses these requests before our code runs. The tests show only that they are refused. */
describe("The runtime", () => {
  for (const [what, request, status] of [
    ["two lengths that differ", `${POST}Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}`, 400],
    ["a length and chunks", `${POST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`, 400],
    ["a negative length", `${POST}Content-Length: -5\r\n\r\n`, 400],
    ["a broken chunk", `${POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
    ["20 KB of headers", `GET /api/health HTTP/1.1\r\n${HOST}X-Large: ${"a".repeat(20_000)}\r\n\r\n`, 431],
    ["HTTP/1.1 without a Host", "GET /api/health HTTP/1.1\r\n\r\n", 400],
    ["bytes that are not HTTP", "\x16\x03\x01\x02\x00\r\n\r\n", 400],
  ] as const) {
    test(`refuses ${what}`, async () => {
      const [answer] = await raw(request);
      expect(answer).toMatchObject({ status, text: "" });
    });
  }
  for (const method of ["FOO", "get", "constructor"]) {
    test(`refuses the method ${method} and closes the connection`, async () => {
      const answers = await raw(
        `${method} /v1/installer/repo-token?api_key=${apiKey} HTTP/1.1\r\n${HOST}\r\n`,
      );
      // Node sends an empty 400 first.
      expect(answers).toMatchObject(ON_NODE ? [{ status: 400, text: "" }] : []);
    });
  }
});

for (const [form, head] of [
  ["a declared length", "Content-Length: 500\r\n\r\n{"],
  ["chunks", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"],
] as const) {
  test(`A client that hangs up within its body of ${form} is logged as a refusal, not as an error`, async () => {
    const before = service.logLines.length;
    // On a busy machine a late pulse may log lines, too.
    const linesSince = () =>
      service.logLines
        .slice(before)
        .map((line) => JSON.parse(line))
        .filter(({ message }) => !/^(The database|A statement) /.test(message));
    await hangUpAfter(service.url, `POST /v1/auth/refresh HTTP/1.1\r\n${HOST}${head}`);
    await until(() => linesSince().length > 0);
    expect(linesSince()).toMatchObject([
      { level: "info", path: "/v1/auth/refresh", status: 400, code: "INVALID_REQUEST" },
    ]);
  });
}
