/** Bodies and paths that no client library writes, each with its answer in the contract. */
import { describe, expect, test } from "bun:test";
import { generateApiKey } from "../../src/licensing/keys/mod.ts";
import { ENDPOINTS, WITH_BODY } from "../support/endpoints.ts";
import { addHostedModel, linkTo, testBytes } from "../support/hosted.ts";
import { BRAND } from "../support/issue.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { type RawAnswer, sendRaw } from "../support/raw_http.ts";
import { useHostingService } from "../support/use.ts";
import { ODD_METADATA, OTHER_METHODS } from "./odd_values.ts";

const service = useHostingService();

interface Sent {
  readonly method?: string;
  readonly target: string;
  /** In Latin-1: each character is one byte. */
  readonly body?: string;
  readonly headers?: string;
}

async function send({ method = "POST", target, body = "", headers = "" }: Sent): Promise<RawAnswer> {
  const head = `${method} ${target} HTTP/1.1\r\nHost: h\r\n${headers}Content-Length: ${body.length}\r\n\r\n`;
  const bodiless = method === "HEAD";
  const [answer] = await sendRaw(service.url, Buffer.from(head + body, "latin1"), { bodiless });
  if (answer === undefined) throw new Error("The connection was closed without an answer");
  return answer;
}

const codeOf = ({ status, text }: RawAnswer) => `${status} ${JSON.parse(text).code ?? ""}`.trim();
const nested = (open: string, close: string, times = 10_000) => open.repeat(times) + close.repeat(times);

for (const { title, path, fields, limit } of WITH_BODY) {
  const good = limit === "analytics" ? "202" : limit === "repo_token" ? "503 NOT_CONFIGURED" : "200";
  const rest = JSON.stringify(fields).slice(1, -1);
  const more = rest === "" ? "" : `,${rest}`;

  describe(title, () => {
    for (const [what, toBody, expected] of [
      ["10,000 nested arrays", () => nested("[", "]"), "400 INVALID_REQUEST"],
      [
        "10,000 nested objects besides the key",
        (key) => `{"api_key":"${key}"${more},"x":${nested('{"a":', "}").replace("}", "1}")}}`,
        good,
      ],
      [
        "10,000 nested arrays as the key",
        () => `{"api_key":${nested("[", "]")}${more}}`,
        "400 INVALID_FORMAT",
      ],
      [
        "10,000 nested arrays besides the key",
        (key) => `{"api_key":"${key}"${more},"x":${nested("[", "]")}}`,
        good,
      ],
      [
        "10,000 nested arrays without their ends",
        (key) => `{"api_key":"${key}","x":${"[".repeat(10_000)}`,
        "400 INVALID_REQUEST",
      ],
      ["a key below __proto__", (key) => `{"__proto__":{"api_key":"${key}"}${more}}`, "400 MISSING_KEY"],
      [
        "a key below constructor",
        (key) => `{"constructor":{"prototype":{"api_key":"${key}"}}${more}}`,
        "400 MISSING_KEY",
      ],
      [
        "__proto__ and constructor besides the key",
        (key) => `{"__proto__":{"a":1},"constructor":null,"api_key":"${key}"${more}}`,
        good,
      ],
      ["__proto__ as the key", () => `{"api_key":"__proto__"${more}}`, "400 INVALID_FORMAT"],
      ["1e400 as the key", () => `{"api_key":1e400${more}}`, "400 INVALID_FORMAT"],
      ["1e400 besides the key", (key) => `{"api_key":"${key}"${more},"x":1e400}`, good],
      ["NUL after the key", (key) => `{"api_key":"${key}\\u0000"${more}}`, "400 INVALID_FORMAT"],
      ["a bare NUL in the key", (key) => `{"api_key":"${key}\x00"${more}}`, "400 INVALID_REQUEST"],
      ["a lone surrogate after the key", (key) => `{"api_key":"${key}\\ud800"${more}}`, "400 INVALID_FORMAT"],
      [
        "bytes that are not UTF-8 after the key",
        (key) => `{"api_key":"${key}\xff"${more}}`,
        "400 INVALID_FORMAT",
      ],
      [
        "bytes that are not UTF-8 besides the key",
        (key) => `{"api_key":"${key}"${more},"x":"\xc0\xaf"}`,
        good,
      ],
      [
        "bytes that are not UTF-8 outside of strings",
        (key) => `\xff{"api_key":"${key}"${more}}`,
        "400 INVALID_REQUEST",
      ],
      ["a good key after a malformed one", (key) => `{"api_key":"a"${more},"api_key":"${key}"}`, good],
      ["a good key written with escapes", (key) => `{"\\u0061pi_key":"\\u0073${key.slice(1)}"${more}}`, good],
      [
        "a malformed key after a good one",
        (key) => `{"api_key":"${key}"${more},"api_key":"a"}`,
        "400 INVALID_FORMAT",
      ],
      ["null after a good key", (key) => `{"api_key":"${key}"${more},"api_key":null}`, "400 MISSING_KEY"],
      [
        "UTF-16",
        (key) => Buffer.from(`{"api_key":"${key}"}`, "utf16le").toString("latin1"),
        "400 INVALID_REQUEST",
      ],
      ["two objects", (key) => `{"api_key":"${key}"${more}}{}`, "400 INVALID_REQUEST"],
      ["a form", (key) => `api_key=${key}`, "400 INVALID_REQUEST"],
    ] as [string, (key: string) => string, string][]) {
      test(`answers ${expected} to ${what}`, async () => {
        const { apiKey } = await service.issue();
        expect(codeOf(await send({ target: path, body: toBody(apiKey) }))).toBe(expected);
      });
    }

    test("answers 404 to variants of its path, and does not change the key", async () => {
      const { apiKey } = await service.issue();
      const body = `{"api_key":"${apiKey}"${more}}`;
      const odd = [
        `/${path}`,
        `${path}/`,
        `${path}%00`,
        `${path}%2f`,
        `${path};a`,
        `${path}#`,
        `${path}.json`,
        path.toUpperCase(),
      ];
      for (const target of [
        ...odd,
        path.replace("v1", "%761"),
        path.replace("/v1/", "/v1//"),
        path.replace("v", "%2e%2e/v1/v"),
      ]) {
        expect([target, codeOf(await send({ target, body }))]).toEqual([target, "404 NOT_FOUND"]);
      }
      // None of the requests had an effect.
      expect((await service.post("/v1/auth/refresh", { api_key: apiKey })).status).toBe(200);
    });

    test("answers as usual if the path has dots that the runtime resolves, encoded or not", async () => {
      for (const prefix of ["/x/%2e%2e", "/x/.%2E", "/%2e", "/x/..", "/%2e%2e/%2e%2e", "/x\\.."]) {
        const { apiKey } = await service.issue();
        const body = `{"api_key":"${apiKey}"${more}}`;
        expect([prefix, codeOf(await send({ target: prefix + path, body }))]).toEqual([prefix, good]);
      }
    });
  });
}

describe("POST /v1/analytics/log", () => {
  const deep = (levels: number) => nested('{"a":', "}", levels).replace('{"a":}', "{}");
  for (const [what, fields] of [
    ["1e400 as duration_ms", '"duration_ms":1e400'],
    ["-1e400 as duration_ms", '"duration_ms":-1e400'],
    ["1e400 within metadata", '"metadata":{"a":[1e400]}'],
    ["NUL in a string", '"error_message":"a\\u0000"'],
    ["a lone surrogate in a string", '"error_message":"\\udc00\\ud800"'],
    ["bytes that are not UTF-8 in a string", '"model_name":"\xed\xa0\x80"'],
    ["NUL in a name of metadata", '"metadata":{"\\u0000":1}'],
    ["a lone surrogate below __proto__", '"metadata":{"__proto__":{"a":"\\ud800"}}'],
    ["10,000 nested arrays as metadata", `"metadata":${nested("[", "]")}`],
    ["10,000 nested arrays within metadata", `"metadata":{"a":${nested("[", "]")}}`],
    ["metadata of 33 levels", `"metadata":${deep(33)}`],
    ["an array as metadata", '"metadata":[]'],
  ] as const) {
    test(`refuses ${what} and stores nothing`, async () => {
      const { apiKey, licenseUuid } = await service.issue();
      const body = `{"api_key":"${apiKey}","event_type":"inference",${fields}}`;
      expect(codeOf(await send({ target: "/v1/analytics/log", body }))).toBe("400 INVALID_REQUEST");
      const rows = await service.database.query(
        (sql) => sql`
          select 1 from events where license_id = ${licenseUuid}::uuid
          union all select 1 from usage where license_id = ${licenseUuid}::uuid and used > 0`,
      );
      expect(rows).toEqual([]);
    });
  }

  test("accepts metadata of 32 levels, with __proto__ and constructor as ordinary names", async () => {
    const { apiKey } = await service.issue();
    const metadata = `{"__proto__":{"isAdmin":true},"constructor":1,"deep":${deep(31)}}`;
    const body = `{"api_key":"${apiKey}","event_type":"error","metadata":${metadata}}`;
    expect(codeOf(await send({ target: "/v1/analytics/log", body }))).toBe("202");
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });

  test("accepts metadata with keys after escapes, and blanks the keys", async () => {
    for (const metadata of ODD_METADATA) {
      const { apiKey, licenseUuid } = await service.issue();
      const body = `{"api_key":"${apiKey}","event_type":"error","metadata":${metadata}}`;
      const answer = await send({ target: "/v1/analytics/log", body });
      expect([metadata, codeOf(answer)]).toEqual([metadata, "202"]);
      const [stored] = await service.database.query<{ metadata: string }>(
        (sql) => sql`select metadata::text from events where license_id = ${licenseUuid}::uuid`,
      );
      expect(stored?.metadata).toContain("[key]");
      expect(stored?.metadata).not.toMatch(/_live_[0-9a-f]{8}|[0-9a-f]{48}/);
    }
  });
});

describe("A path or a query:", () => {
  const get = async (target: string) => codeOf(await send({ method: "GET", target }));
  const LIST = ENDPOINTS.modelsList.path;

  test("%00 or bytes that are not UTF-8 make a key malformed, and in a filter make the request invalid", async () => {
    const { apiKey } = await service.issue();
    for (const odd of ["%00", "%ff", "%EF%BF%BD", "%20", "%0a", "\xff"]) {
      expect(await get(`${LIST}?api_key=${apiKey}${odd}`)).toBe("400 INVALID_FORMAT");
    }
    for (const odd of ["%00", "%ff", "%ed%a0%80", "%EF%BF%BD", "\xff"]) {
      for (const name of ["type", "paradigm", "x"]) {
        expect(await get(`${LIST}?api_key=${apiKey}&${name}=a${odd}`)).toBe("400 INVALID_REQUEST");
      }
      expect(await get(`${LIST}?api_key=${apiKey}&${odd}=a`)).toBe("400 INVALID_REQUEST");
    }
    expect(await get(`${LIST}?api_key=${apiKey}&type=%`)).toBe("200");
  });

  test("a repeated api_key is accepted with the same value, and refused with different values", async () => {
    const { apiKey } = await service.issue();
    const other = generateApiKey(BRAND, "live").apiKey;
    for (const path of [LIST, ENDPOINTS.getRepoToken.path]) {
      const good = path === LIST ? "200" : "503 NOT_CONFIGURED";
      expect(await get(`${path}?api_key=${apiKey}&api_key=${apiKey}`)).toBe(good);
      expect(await get(`${path}?api_key=&api_key=${apiKey}`)).toBe(good);
      expect(await get(`${path}?api_key=${apiKey}&api_key=${other}`)).toBe("400 INVALID_REQUEST");
      expect(await get(`${path}?api_key=${other}&api_key=${apiKey}`)).toBe("400 INVALID_REQUEST");
      expect(await get(`${path}?%61pi_key=${apiKey}`)).toBe(good);
      expect(await get(`${path}?API_KEY=${apiKey}`)).toBe("400 MISSING_KEY");
      expect(await get(`${path}?api_key[]=${apiKey}`)).toBe("400 MISSING_KEY");
    }
  });

  test("no path leads out of the registry's files", async () => {
    await addHostedModel(service, { name: "m", hostedBytes: 1 }, testBytes(100));
    const { apiKey } = await service.issue();
    const headers = `X-API-Key: ${apiKey}\r\n`;
    for (const name of [
      "..%2f..%2fetc/passwd",
      "%2e%2e/%2e%2e",
      "%252e%252e/x",
      "m%00/1.0.0",
      "m/1.0.0%00",
      "%ff/%fe",
      "%/%zz",
      "__proto__/constructor",
      "m/1.0.0/x",
      "m//1.0.0",
      "M/1.0.0",
    ]) {
      const answer = await send({ method: "GET", target: `/v1/models/download/${name}`, headers });
      expect([name, codeOf(answer)]).toEqual([name, "404 NOT_FOUND"]);
    }
    const right = await send({ method: "GET", target: "/v1/models/download/m/1.0.0", headers });
    expect(right.status).toBe(200);
  });

  test("the runtime reads only the first of two Range headers, and the answer has only bytes of the file", async () => {
    const bytes = testBytes(1_000, 7);
    await addHostedModel(service, { name: "ranges" }, bytes);
    const { apiKey } = await service.issue();
    const target = (await linkTo(service, apiKey, "ranges")).slice(service.url.length);
    const two = (first: string, second: string) =>
      send({ method: "GET", target, headers: `Range: ${first}\r\nRange: ${second}\r\n` });
    const answer = await two("bytes=10-19", "bytes=a-b");
    expect({ status: answer.status, range: answer.headers.get("content-range") }).toEqual({
      status: 206,
      range: "bytes 10-19/1000",
    });
    expect(Buffer.from(answer.text, "latin1")).toEqual(Buffer.from(bytes.subarray(10, 20)));
    const beyond = await two("bytes=1000-", "bytes=0-1");
    expect({ status: beyond.status, text: beyond.text }).toEqual({ status: 416, text: "" });
  });

  test("another method on POST /v1/auth/revoke gets 405 and revokes nothing", async () => {
    const { apiKey } = await service.issue();
    const body = JSON.stringify({ api_key: apiKey });
    const headers = "X-HTTP-Method-Override: POST\r\nX-Original-URL: /v1/auth/revoke\r\n";
    for (const method of OTHER_METHODS.filter((method) => method !== "POST")) {
      const { status, headers: answered } = await send({ method, target: "/v1/auth/revoke", body, headers });
      expect([method, status, answered.get("allow")]).toEqual([method, 405, "POST"]);
    }
    expect((await service.post("/v1/auth/refresh", { api_key: apiKey })).status).toBe(200);
  });

  test("an unknown key is refused as unknown also when it is percent-encoded", async () => {
    for (const key of [UNKNOWN_KEY, UNKNOWN_KEY.replace("svc", "%73vc")]) {
      expect(await get(`${LIST}?api_key=${key}`)).toBe("401 INVALID_KEY");
    }
  });
});
