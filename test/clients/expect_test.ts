/**
 * Clients that wait for `100 Continue` before they send their body, at both listeners. Bun sends it only for
 * `Expect: 100-continue` in lower case; the service must not let the others wait until their connection ends.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { issueToken } from "../../src/operators/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { testBytes } from "../support/hosted.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { sendRaw } from "../support/raw_http.ts";
import { ON_NODE } from "../support/service.ts";
import { useHostingService } from "../support/use.ts";

// Most of these tests wait two seconds for the service.
setDefaultTimeout(60_000);

const service = useHostingService({ config: { adminListen: { host: "127.0.0.1", port: 0 } } });
const sha256 = new Bun.CryptoHasher("sha256").update(testBytes(64, 7)).digest("hex");
let apiKey: string;
let operators: string;
let token: string;
let cookie: string;

beforeAll(async () => {
  ({ apiKey } = await service.issue());
  operators = service.service.admin?.url ?? "";
  const wanted = { name: "ci", scopes: ["models:write"], restriction: {} } as const;
  const by = { brand: service.config.brand, actor: ACTOR, now: service.clock.now() };
  ({ token } = orThrow(await issueToken(service.database, wanted, by)));
  ({ cookie } = await createConsoleClient({ ...service, url: operators }).logIn());
  const body = JSON.stringify({
    ...{ name: "speller", version: "1", type: "SvcLDA", paradigm: "p300", n_features: 8, n_classes: 2 },
    requires_license: "free",
  });
  const headers = { authorization: `Bearer ${token}` };
  await fetch(`${operators}/admin/v1/models`, { method: "POST", headers, body });
});

const LENGTH = `Content-Length: 64`;
const CHUNKS = "Transfer-Encoding: chunked";
/** The heads of requests with a body: what is asked, where, and the headers but `Host` and `Expect`. */
const heads = (): [what: string, url: string, head: string][] => {
  const authorization = `Authorization: Bearer ${token}`;
  const form = "Content-Type: application/x-www-form-urlencoded";
  const session = `Cookie: ${cookie}\r\nOrigin: ${operators}`;
  const add = "POST /admin/v1/models";
  const upload = "PUT /admin/v1/models/speller/1/file";
  const uploadByPage = "PUT /console/models/speller/1/file";
  return [
    ["a request of a client", service.url, `POST /v1/auth/validate\r\n${LENGTH}`],
    ["a request of a client in chunks", service.url, `POST /v1/auth/validate\r\n${CHUNKS}`],
    ["a request of a program", operators, `${add}\r\n${authorization}\r\n${LENGTH}`],
    ["an upload", operators, `${upload}\r\n${authorization}\r\nX-Checksum-SHA256: ${sha256}\r\n${LENGTH}`],
    [
      "an upload of a page",
      operators,
      `${uploadByPage}\r\n${session}\r\nX-Checksum-SHA256: ${sha256}\r\n${LENGTH}`,
    ],
    ["a form", operators, `POST /console/keys/issue\r\n${session}\r\n${form}\r\n${LENGTH}`],
  ];
};

/** Sends the head of a request, and returns the answer with the seconds that it took. */
async function sendHead(url: string, head: string, spelling: string) {
  const beganMs = performance.now();
  const [line, ...headers] = head.split("\r\n");
  const host = new URL(url).host;
  const text = [`${line} HTTP/1.1`, `Host: ${host}`, `Expect: ${spelling}`, ...headers, "\r\n"].join("\r\n");
  const [answer] = await sendRaw(url, text);
  return { answer, tookMs: performance.now() - beganMs };
}

describe.skipIf(ON_NODE)("A client with another spelling than 100-continue that sends no body", () => {
  for (const at of heads().keys()) {
    test(`gets 417 after two seconds, and the connection is closed: ${heads()[at]?.[0]}`, async () => {
      const [, url = "", head = ""] = heads()[at] ?? [];
      const spellings = ["100-Continue", "something-else"];
      const sent = spellings.map((spelling) => sendHead(url, head, spelling));
      for (const { answer, tookMs } of await Promise.all(sent)) {
        expect({ status: answer?.status, connection: answer?.headers.get("connection") }).toEqual({
          status: 417,
          connection: "close",
        });
        expect(answer?.headers.has("keep-alive")).toBe(false);
        expect(answer?.headers.get("x-request-id")).toStartWith("req_");
        expect(answer?.text).toContain("100-continue");
        // Without the limit the connection would end after half a minute.
        expect(tookMs).toBeWithin(1_950, 25_000);
      }
    });
  }

  test("is logged as refused, and reads the code", async () => {
    const { answer } = await sendHead(service.url, heads()[0]?.[2] ?? "", "100-Continue");
    expect(JSON.parse(answer?.text ?? "")).toMatchObject({ code: "EXPECTATION_FAILED" });
    const line = service.logLines.find((each) => each.includes(answer?.headers.get("x-request-id") ?? "?"));
    expect(JSON.parse(line ?? "{}")).toMatchObject({
      level: "info",
      status: 417,
      code: "EXPECTATION_FAILED",
      address: "127.0.0.1",
    });
  });

  test("gets another refusal at once, if the request has no need of its body", async () => {
    const answered: string[] = [];
    const send = async (path: string) => {
      const { answer } = await sendHead(service.url, `POST ${path}\r\n${LENGTH}`, "100-Continue");
      answered.push(`${path}: ${answer?.status} ${answer?.headers.get("connection")}`);
    };
    await Promise.all([send("/v1/auth/validate"), send("/v1/nothing")]);
    expect(answered).toEqual(["/v1/nothing: 404 close", "/v1/auth/validate: 417 close"]);
  });
});

describe("A client with any spelling that sends its body", () => {
  const send = async (headers: string, pauses: { readonly pauseMs: number; readonly begins: boolean }) => {
    const body = JSON.stringify({ api_key: apiKey });
    const head = `POST /v1/auth/validate HTTP/1.1\r\n${headers}Content-Length: ${body.length}\r\n\r\n`;
    const begin = pauses.begins ? body.slice(0, 9) : "";
    const parts = [body.slice(begin.length)];
    const [answer] = await sendRaw(service.url, head + begin, { parts, pauseMs: pauses.pauseMs });
    return { status: answer?.status, closes: answer?.headers.get("connection") === "close" };
  };

  for (const spelling of ["100-continue", "100-Continue", "something-else"]) {
    for (const host of ["Host: h\r\n", "Host: a b\r\n"]) {
      test(`gets its answer after a pause, and the connection stays: ${spelling}, ${host.trim()}`, async () => {
        const answer = await send(`${host}Expect: ${spelling}\r\n`, { pauseMs: 1_000, begins: false });
        expect(answer).toEqual({ status: 200, closes: false });
      });
    }
    test(`has more than two seconds for a body that has begun: ${spelling}`, async () => {
      const answer = await send(`Host: h\r\nExpect: ${spelling}\r\n`, { pauseMs: 2_500, begins: true });
      expect(answer).toEqual({ status: 200, closes: false });
    });
  }
});
