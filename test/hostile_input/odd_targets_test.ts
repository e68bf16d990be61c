/** Paths and queries that no client library writes, at the endpoints of clients and at each route of operators. */
import { beforeAll, describe, expect, test } from "bun:test";
import { ROUTES } from "../../src/admin/things.ts";
import { makeSample, nameOf } from "../admin/sample_requests.ts";
import { ALL, ENDPOINTS } from "../support/endpoints.ts";
import { addHostedModel, linkTo, testBytes } from "../support/hosted.ts";
import { setToken } from "../support/installer.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { type RawAnswer, sendRaw } from "../support/raw_http.ts";
import { useAdmin, useHostingService } from "../support/use.ts";
import { toServedPath } from "./answer_check.ts";
import { NO_TEXTS, ODD_NAMES, ODD_PATHS, UNKNOWN_NAMES } from "./odd_values.ts";

const service = useHostingService();
const admin = useAdmin();
let apiKey: string;
beforeAll(async () => {
  await setToken(service);
  ({ apiKey } = await service.issue());
});

interface Sent {
  readonly method?: string;
  /** In Latin-1: each character is one byte. */
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends the bytes of a request, because `fetch` would encode some of its target. */
async function send(
  url: string,
  { method = "GET", target, headers = {}, body = "" }: Sent,
): Promise<RawAnswer> {
  const all = { Host: new URL(url).host, ...headers, "Content-Length": Buffer.byteLength(body) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const bytes = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n${body}`, "latin1");
  const [answer] = await sendRaw(url, bytes);
  if (answer === undefined) throw new Error("The connection was closed without an answer");
  return answer;
}

function codeOf({ status, text }: RawAnswer): string {
  return status < 300 ? "accepted" : `${status} ${JSON.parse(text || "{}").code}`;
}

/** The odd paths that are made from a right one, and whether the service sees the right path in their place. */
function pathsLike(path: string): { target: string; isSame: boolean }[] {
  const targets = ODD_PATHS.filter((odd) => odd.includes("{path}")).map((odd) =>
    odd.replaceAll("{path}", path),
  );
  return [...targets, path.toUpperCase(), path.replace("v1", "%761"), path.replace("v1/", "v1//")].map(
    (target) => ({ target, isSame: toServedPath(target) === path }),
  );
}

describe("An endpoint has one path:", () => {
  test.each(ALL)("$title", async ({ method, path, fields }) => {
    for (const { target, isSame } of pathsLike(path)) {
      const key = (await service.issue()).apiKey;
      const headers = { "X-API-Key": key };
      const request = { method, target, headers, ...(method === "POST" && { body: JSON.stringify(fields) }) };
      expect([target, codeOf(await send(service.url, request))]).toEqual([
        target,
        isSame ? "accepted" : "404 NOT_FOUND",
      ]);
      // A request to another path has no effect.
      if (!isSame) expect((await service.post("/v1/auth/validate", { api_key: key })).status).toBe(200);
    }
  });

  test("GET /admin/v1/whoami of operators", async () => {
    const headers = { Authorization: `Bearer ${await admin.token()}` };
    for (const { target, isSame } of pathsLike("/admin/v1/whoami"))
      expect([target, codeOf(await send(admin.url, { target, headers }))]).toEqual([
        target,
        isSame ? "accepted" : "404 NOT_FOUND",
      ]);
  });
});

describe.each([ENDPOINTS.modelsList, ENDPOINTS.getRepoToken])("$title", ({ path }) => {
  const get = async (query: string) => codeOf(await send(service.url, { target: `${path}?${query}` }));

  test("ignores a parameter that it does not know", async () => {
    for (const query of UNKNOWN_NAMES)
      expect([query, await get(`api_key=${apiKey}&${query}`)]).toEqual([query, "accepted"]);
  });

  test("reads the key from api_key alone, and from several of them if they agree", async () => {
    const encode = (key: string) => key.replace("svc", "%73vc");
    const keys: [query: string, expected: string][] = [
      [`api_key=${apiKey}&api_key=${apiKey}`, "accepted"],
      [`api_key=&api_key=${apiKey}`, "accepted"],
      [`api_key=${apiKey}&api_key=${UNKNOWN_KEY}`, "400 INVALID_REQUEST"],
      [`api_key=${UNKNOWN_KEY}&api_key=${apiKey}`, "400 INVALID_REQUEST"],
      [`%61pi_key=${encode(apiKey)}`, "accepted"],
      [`api_key=${encode(UNKNOWN_KEY)}`, "401 INVALID_KEY"],
      [`API_KEY=${apiKey}`, "400 MISSING_KEY"],
      [`api_key[]=${apiKey}`, "400 MISSING_KEY"],
      ...[...NO_TEXTS, "%20", "%0a"].map((text): [string, string] => [
        `api_key=${apiKey}${text}`,
        "400 INVALID_FORMAT",
      ]),
    ];
    for (const [query, expected] of keys) expect([query, await get(query)]).toEqual([query, expected]);
  });
});

test("GET /v1/models/list refuses a text of any parameter that is not UTF-8 or contains NUL", async () => {
  const { path } = ENDPOINTS.modelsList;
  for (const text of NO_TEXTS) {
    for (const query of [`type=a${text}`, `paradigm=a${text}`, `x=a${text}`, `${text}=a`]) {
      const answer = await send(service.url, { target: `${path}?api_key=${apiKey}&${query}` });
      expect([query, codeOf(answer)]).toEqual([query, "400 INVALID_REQUEST"]);
    }
  }
});

describe("GET /v1/models/download", () => {
  const headers = () => ({ "X-API-Key": apiKey });

  test("leads to no file besides those of the registry", async () => {
    await addHostedModel(service, { name: "m", hostedBytes: 1 }, testBytes(100));
    const get = (path: string) =>
      send(service.url, { target: `/v1/models/download/${path}`, headers: headers() });
    const odd = ODD_NAMES.flatMap((name) => [
      `${name}/1.0.0`,
      `m/${name}`,
      `m/1.0.0/${name}`,
      `m${name}/1.0.0`,
    ]);
    for (const path of [...odd, "..%2f..%2fetc/passwd", "%2e%2e/%2e%2e", "m//1.0.0", "M/1.0.0"])
      expect([path, codeOf(await get(path))]).toEqual([path, "404 NOT_FOUND"]);
    expect(codeOf(await get("m/1.0.0"))).toBe("accepted");
  });

  test("reads only the first of two Range headers, and answers only bytes of the file", async () => {
    const bytes = testBytes(1_000, 7);
    await addHostedModel(service, { name: "ranges" }, bytes);
    const target = (await linkTo(service, apiKey, "ranges")).slice(service.url.length);
    const two = (first: string, second: string) =>
      send(service.url, { target, headers: { Range: `${first}\r\nRange: ${second}` } });
    const answer = await two("bytes=10-19", "bytes=a-b");
    expect({ status: answer.status, range: answer.headers.get("content-range") }).toEqual({
      status: 206,
      range: "bytes 10-19/1000",
    });
    expect(Buffer.from(answer.text, "latin1")).toEqual(Buffer.from(bytes.subarray(10, 20)));
    const beyond = await two("bytes=1000-", "bytes=0-1");
    expect({ status: beyond.status, text: beyond.text }).toEqual({ status: 416, text: "" });
  });
});

for (const route of ROUTES) {
  describe(`${nameOf(route)} of operators`, () => {
    const parameters = Object.keys(route.operation.query?.entries ?? {});

    /** Sends the sample request with another target. */
    async function prepare() {
      const token = await admin.token();
      const { path, body, file, headers } = await makeSample(admin, route);
      const request = {
        method: route.method,
        headers: { Authorization: `Bearer ${token}`, ...headers },
        body: file ?? (body === undefined ? "" : JSON.stringify(body)),
      };
      return {
        path,
        sendTo: async (target: string) => {
          const answer = await send(admin.url, { ...request, target: `/admin/v1${target}` });
          const code = codeOf(answer);
          // A success may be a file.
          const json = code === "accepted" ? {} : JSON.parse(answer.text || "{}");
          return { code, field: json.details?.[0].field };
        },
      };
    }

    test("refuses a parameter that it does not know, or that is sent twice", async () => {
      const { path, sendTo } = await prepare();
      const separator = path.includes("?") ? "&" : "?";
      for (const query of [...UNKNOWN_NAMES, ...NO_TEXTS.map((text) => `${text}=a`)]) {
        const { code } = await sendTo(path + separator + query);
        expect([query, code]).toEqual([query, "400 INVALID_REQUEST"]);
      }
      const bare = path.replace(/\?.*/, "");
      for (const name of parameters)
        expect(await sendTo(`${bare}?${name}=1&${name}=1`)).toEqual({
          code: "400 INVALID_REQUEST",
          field: name,
        });
      expect((await sendTo(path)).code).toBe("accepted");
    });

    if (parameters.length > 0)
      test("names each parameter whose text is not UTF-8, contains NUL or is very long", async () => {
        const { path, sendTo } = await prepare();
        const bare = path.replace(/\?.*/, "");
        for (const name of parameters) {
          for (const text of [...NO_TEXTS, "a".repeat(6_000)]) {
            const answer = await sendTo(`${bare}?${name}=a${text}`);
            expect({ text, ...answer }).toEqual({ text, code: "400 INVALID_REQUEST", field: name });
          }
        }
      });

    if (route.path.includes(":"))
      test("refuses any text in its path that names nothing", async () => {
        const { path, sendTo } = await prepare();
        const absent = ["key", "usr", "lic"].flatMap((kind) => [`${kind}_0`, `${kind}_${"0".repeat(32)}`]);
        for (const text of [...ODD_NAMES, ...absent, `key_${"0".repeat(33)}`, "find", "1"]) {
          const { code } = await sendTo(path.replace(/(?<=\/\w+\/)[^/]+/, text));
          expect({ text, code }).toEqual({ text, code: expect.stringMatching(/^404 (KEY_)?NOT_FOUND$/) });
        }
      });
  });
}
