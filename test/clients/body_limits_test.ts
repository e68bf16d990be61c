/** The body limit of 64 KiB, for a declared length and for chunks, and the connection after a 413. */
import { describe, expect, test } from "bun:test";
import { BODY_LIMIT_BYTES } from "../hostile_input/odd_bodies.ts";
import { WITH_BODY } from "../support/endpoints.ts";
import { type RawAnswer, sendRaw, toChunks } from "../support/raw_http.ts";
import { ON_NODE } from "../support/service.ts";

const service = useTestService();

const declared = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const declaredTwice = (path: string, body: string) =>
  declared(path, body).replace("\r\n\r\n", `\r\nContent-Length: ${body.length}\r\n\r\n`);
const chunked = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n${toChunks(body)}`;

/** Returns a valid body of exactly `bytes` bytes. */
const bodyOf = (fields: object, bytes: number) => JSON.stringify(fields).padEnd(bytes, " ");

function expectTooLarge(answer: RawAnswer | undefined, limitBytes = BODY_LIMIT_BYTES) {
  expect(answer?.status).toBe(413);
  expect(answer?.headers.get("content-type")).toBe("application/json");
  expect(JSON.parse(answer?.text ?? "")).toEqual({
    error: expect.stringContaining(`${limitBytes}`),
    code: "PAYLOAD_TOO_LARGE",
  });
}

for (const { title, path, fields, bodyLimitBytes } of WITH_BODY) {
  // Node's own parser refuses a second length, with an empty 400. odd_bodies_test.ts has the other forms of a length.
  test.skipIf(ON_NODE)(
    `${title} accepts ${bodyLimitBytes / 1024} KiB and refuses one byte more, with a length declared twice`,
    async () => {
      const { apiKey } = await service.issue();
      const body = { api_key: apiKey, ...fields };
      const [large] = await sendRaw(service.url, declaredTwice(path, bodyOf(body, bodyLimitBytes + 1)));
      expectTooLarge(large, bodyLimitBytes);
      const [right] = await sendRaw(service.url, declaredTwice(path, bodyOf(body, bodyLimitBytes)));
      expect(right?.status).not.toBe(413);
      expect(right?.headers.get("content-type")).toBe("application/json");
    },
  );
}

const VALIDATE = "/v1/auth/validate";

describe("After a 413", () => {
  for (const [form, write] of [
    ["a declared length", declared],
    ["chunks", chunked],
  ] as const) {
    test(`to a body with ${form}, the connection serves the next request`, async () => {
      const { apiKey } = await service.issue();
      const next = declared(VALIDATE, JSON.stringify({ api_key: apiKey }));
      const bytes = write(VALIDATE, "x".repeat(200_000)) + next;
      const answers = await sendRaw(service.url, bytes, { answers: 2 });
      expectTooLarge(answers[0]);
      expect(answers[1]?.status).toBe(200);
    });
  }
});

test(`POST ${VALIDATE} refuses a body of 2 MiB in chunks`, async () => {
  const [answer] = await sendRaw(service.url, chunked(VALIDATE, "x".repeat(2 * 1024 * 1024)));
  expectTooLarge(answer);
});

test(`POST ${VALIDATE} refuses a declared body of 2 MiB`, async () => {
  const [answer] = await sendRaw(service.url, declared(VALIDATE, "x".repeat(2 * 1024 * 1024)));
  expect(answer?.status).toBe(413);
});

/** A Python program that sends its whole body before it reads, as urllib does, and prints the status. */
const BLOCKING_CLIENT = `
import sys, urllib.error, urllib.request
url, size, is_chunked = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "chunks"
data = (b"x" * 65536 for _ in range(size // 65536)) if is_chunked else b"x" * size
try:
  print(urllib.request.urlopen(urllib.request.Request(url, data=data, method="POST"), timeout=10).status)
except urllib.error.HTTPError as error:
  print(error.code)
except Exception as error:
  print(repr(error))
`;

import { useTestService } from "../support/use.ts";

async function sendBlocking(path: string, bytes: number, form: string): Promise<string> {
  const python = Bun.spawn(["python3", "-c", BLOCKING_CLIENT, service.url + path, `${bytes}`, form]);
  return (await new Response(python.stdout).text()).trim();
}

describe("A client that sends its whole body before it reads", () => {
  for (const [path, status] of [
    [VALIDATE, "413"],
    ["/v1/nothing", "404"],
    ["/v1/models/list", "405"],
  ] as const) {
    for (const form of ["a declared length", "chunks"]) {
      test(`gets the answer of ${path} for up to 8 MB with ${form}`, async () => {
        for (const bytes of [1_500_000, 5_000_000, 8_000_000]) {
          expect(await sendBlocking(path, bytes, form)).toBe(status);
        }
      });
    }
  }
});

test("A body of more than 8 MiB is answered before its end and is not read further", async () => {
  const beganMs = performance.now();
  const head = `POST ${VALIDATE} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n`;
  expectTooLarge((await sendRaw(service.url, head + "x".repeat(8 * 1024 * 1024)))[0]);
  expect(performance.now() - beganMs).toBeLessThan(4_500);
});

test("The service waits up to 2 s for the bodies of at most 64 refused requests at once", async () => {
  const head = `POST ${VALIDATE} HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n`;
  const beganMs = performance.now();
  const times = await Promise.all(
    Array.from({ length: 70 }, async () => {
      expectTooLarge((await sendRaw(service.url, head))[0]);
      return performance.now() - beganMs;
    }),
  );
  expect(times.filter((ms) => ms < 1_900)).toHaveLength(6);
  expect(times.filter((ms) => ms >= 1_900)).toHaveLength(64);
});

test(`POST ${VALIDATE} refuses too many chunks that have no end`, async () => {
  const bytes = chunked(VALIDATE, "x".repeat(BODY_LIMIT_BYTES + 1)).replace("\r\n0\r\n\r\n", "\r\n");
  expectTooLarge((await sendRaw(service.url, bytes))[0]);
});
