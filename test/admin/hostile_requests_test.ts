/** Requests that no honest program sends, to every route with a valid token: each is refused, and none fails. */
import { beforeAll, describe, expect, test } from "bun:test";
import { renderCursor } from "../../src/admin/frame/api/cursor.ts";
import { bodyFor, type Route } from "../../src/admin/frame/api/route.ts";
import { CONSOLE_ROUTES, ROUTES } from "../../src/admin/things.ts";
import type { CallOptions } from "../support/admin.ts";
import { BRAND, countRows } from "../support/issue.ts";
import type { JsonResponse } from "../support/service.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { CONSOLE_CONDITIONS } from "./console_conditions.ts";
import { makeSample, nameOf, type SampleRequest } from "./sample_requests.ts";
import { makeVisit } from "./sample_visits.ts";

/** Texts that PostgreSQL cannot store, or that stand for bytes that were no text. */
const NOT_TEXT = ["a\u0000b", "\ud800", "\udc00\ud800", "a\ufffdb"];
const NESTED = 10_000;
const admin = useAdmin();

/** Values that the field has nowhere, by its name: no route takes them. `undefined` leaves out a required field. */
const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  checksum: ["AB".repeat(32)],
  days: [0, 3_651, 1.5, "9", null],
  email: ["nobody", 7],
  expires_at: ["tomorrow", "2027-02-30T00:00:00Z", "2020-01-01", 7],
  external_id: ["", "x".repeat(256), "a\nb", "a\u202eb", `svc_live_${"0".repeat(48)}`],
  fingerprint: ["", "x".repeat(201), "é", "a\nb", 7],
  max_machines: [0, 1_000_001, 1.5, "5"],
  metadata: ["x"],
  mode: ["production"],
  monthly_limit: [-1, 2 ** 53, 1e300, "7"],
  n_classes: [1],
  n_features: [0, 1.5],
  name: ["", "two\nlines", "x".repeat(201)],
  nonce: ["", "x".repeat(129), "é", "a\nb", 7],
  organization: [["x"], "a\tb"],
  overlap: ["", "7", "7w", "-1d", "3651d", 7],
  owner: ["olga"],
  reason: ["two\nlines", "bell\u0007", "x".repeat(2_001), 7, null, ["x"]],
  requires_license: ["gold"],
  seat_minutes: [4, 1_441, 7.5, "5"],
  size_mb: [-1],
  tier: ["trial", null],
  type: ["SvcOther"],
  url: ["ftp://x"],
  version: ["a b"],
};

/** The sample request of each route. It stays valid, because every variant of it is refused. */
const samples = new Map<Route, Promise<SampleRequest>>();

function sampleOf(route: Route): Promise<SampleRequest> {
  const sample = samples.get(route) ?? makeSample(admin, route);
  samples.set(route, sample);
  return sample;
}

async function sendVariant(
  route: Route,
  change: (sample: SampleRequest) => CallOptions & { readonly path?: string },
): Promise<JsonResponse> {
  const sample = await sampleOf(route);
  const { path = sample.path, ...options } = change(sample);
  const headers = { ...sample.headers, ...options.headers };
  const answer = await admin.call(route.method, path, { ...sample, ...options, headers });
  expect({ path: path.slice(0, 200), isRefusal: answer.status >= 400 && answer.status < 500 }).toEqual({
    path: path.slice(0, 200),
    isRefusal: true,
  });
  expect(answer.headers.get("x-request-id")).toStartWith("req_");
  return answer;
}

const codeOf = ({ status, body }: JsonResponse) => `${status} ${body.code}`;
const nested = (open: string, close: string) => open.repeat(NESTED) + close.repeat(NESTED);

for (const route of ROUTES) {
  const { operation } = route;
  const parameters = Object.keys(operation.query?.entries ?? {});
  const fields = Object.entries(bodyFor(operation, BRAND)?.entries ?? {});

  describe(nameOf(route), () => {
    for (const name of parameters) {
      test(`refuses invalid text in ${name}, and a very long ${name}`, async () => {
        const token = await admin.token();
        for (const text of ["%00", "a%00b", "%ff", "%EF%BF%BD", "%ed%a0%80", "a".repeat(6_000)]) {
          const answer = await sendVariant(route, ({ path }) => ({
            token,
            path: `${path.replace(/\?.*/, "")}?${name}=${text}`,
          }));
          expect({ text: text.slice(0, 20), code: codeOf(answer) }).toEqual({
            text: text.slice(0, 20),
            code: "400 INVALID_REQUEST",
          });
        }
      });
    }

    for (const [name, { type }] of fields) {
      test(`refuses wrong values of the field ${name}, invalid and long text, and a deep value`, async () => {
        const token = await admin.token();
        await sampleOf(route);
        const before = await countRows(admin.database);
        const deep = JSON.parse(`${'{"a":'.repeat(40)}{}${"}".repeat(40)}`);
        const required = type.endsWith("optional") || type === "nullish" ? [] : [undefined];
        const wrong = [...required, ...(WRONG[name] ?? [])];
        for (const value of [...wrong, ...NOT_TEXT, "a".repeat(60_000), deep, [[[[]]]], -1e308]) {
          const answer = await sendVariant(route, (sample) => ({
            token,
            body: { ...sample.body, [name]: value },
          }));
          expect({ name, value, code: codeOf(answer) }).toEqual({ name, value, code: "400 INVALID_REQUEST" });
          const [{ field, error }] = answer.body.details;
          expect(field).toStartWith(name);
          if (value === undefined) expect(error).toBe(`${name} is required`);
        }
        expect(await countRows(admin.database)).toEqual(before);
      });
    }

    if (route.method !== "GET" && operation.file === undefined) {
      test("refuses a body that is too large, too deep, encoded, or no JSON object", async () => {
        const token = await admin.token();
        for (const [text, code] of [
          [`{"a":"${"x".repeat(70_000)}"}`, "413 PAYLOAD_TOO_LARGE"],
          [nested("[", "]"), "400 INVALID_REQUEST"],
          [`{"a":${nested("[", "]")}}`, "400 INVALID_REQUEST"],
          [`{"a":${nested('{"a":', "}").replace("}", "1}")}}`, "400 INVALID_REQUEST"],
          ["email=a%40example.org&tier=free", "400 INVALID_REQUEST"],
          ["<a/>", "400 INVALID_REQUEST"],
          ['"text"', "400 INVALID_REQUEST"],
          ["\u0000", "400 INVALID_REQUEST"],
        ] as const) {
          const answer = await sendVariant(route, () => ({ token, body: text }));
          expect({ text: text.slice(0, 20), code: codeOf(answer) }).toEqual({
            text: text.slice(0, 20),
            code,
          });
        }
        const encoded = await sendVariant(route, () => ({
          token,
          body: "",
          headers: { "content-encoding": "gzip" },
        }));
        expect(codeOf(encoded)).toBe("415 UNSUPPORTED_MEDIA_TYPE");
        const chunked = await sendVariant(route, () => ({
          token,
          body: new ReadableStream({
            start(controller) {
              for (let n = 0; n < 20; n++) controller.enqueue(new Uint8Array(10_000));
              controller.close();
            },
          }),
        }));
        expect(codeOf(chunked)).toBe("413 PAYLOAD_TOO_LARGE");
      });

      test("names a field that does not exist, also __proto__", async () => {
        for (const name of ["colour", "__proto__", "constructor"]) {
          const answer = await sendVariant(route, (sample) => {
            const fields = JSON.stringify(sample.body ?? {}).slice(1, -1);
            return { body: `{"${name}":{"isAdmin":true}${fields === "" ? "" : `,${fields}`}}` };
          });
          expect({ name, code: codeOf(answer) }).toEqual({ name, code: "400 INVALID_REQUEST" });
          expect(answer.body.details[0].field).toBe(name);
        }
      });
    }

    if (route.path.includes(":")) {
      test("refuses any text in its path that identifies nothing", async () => {
        const token = await admin.token();
        const odd = [
          "%00",
          "%ff",
          "%EF%BF%BD",
          "%2e%2e%2f",
          "%252e",
          "'%20or%201=1--",
          "%",
          "%zz",
          "a".repeat(5_000),
        ];
        const send = (text: string) =>
          sendVariant(route, ({ path }) => ({ token, path: path.replace(/(?<=\/\w+\/)[^/]+/, text) }));
        for (const text of odd) await send(text);
        const absent = ["key", "usr", "lic"].flatMap((prefix) => [
          `${prefix}_0`,
          `${prefix}_${"0".repeat(32)}`,
        ]);
        for (const text of [...absent, `key_${"0".repeat(33)}`, "find", "1", "__proto__"]) {
          const { status, body } = await send(text);
          expect({ text, status, code: body.code }).toEqual({
            text,
            status: 404,
            code: expect.stringMatching(/NOT_FOUND$/),
          });
        }
      });
    }

    test("refuses parameters that do not exist, or that are sent twice", async () => {
      for (const query of [
        "colour=red",
        "__proto__=a",
        "constructor=a",
        "toString=a",
        "%00=a",
        "=",
        `a=${"b".repeat(6_000)}`,
      ]) {
        const answer = await sendVariant(route, ({ path }) => ({
          path: `${path}${path.includes("?") ? "&" : "?"}${query}`,
        }));
        expect({ query: query.slice(0, 20), code: codeOf(answer) }).toEqual({
          query: query.slice(0, 20),
          code: "400 INVALID_REQUEST",
        });
      }
      for (const name of parameters) {
        const answer = await sendVariant(route, ({ path }) => ({
          path: `${path.replace(/\?.*/, "")}?${name}=1&${name}=1`,
        }));
        expect(answer.body.details).toEqual([{ field: name, error: `${name} may be sent only once` }]);
      }
    });
  });
}

describe("The console", () => {
  const operators = createConsoleClient(admin);
  let cookie: string;
  beforeAll(async () => {
    ({ cookie } = await operators.logIn("admin"));
  });

  /** The parameters of pages besides their conditions. */
  const others = ["done", "open", "email"];

  const odd = [
    ...NOT_TEXT,
    "",
    " ",
    "a".repeat(60_000),
    "<script>",
    "'; drop table keys; --",
    "-1",
    "1e400",
    "9999-99-99",
    "9999-12-31",
  ];

  for (const { method, path } of CONSOLE_ROUTES.filter((route) => route.path !== "/logout")) {
    test(`answers ${method} ${path} with any text without a failure, and does not repeat it as markup`, async () => {
      const { path: sample, form } = await makeVisit(admin, { method, path });
      const conditions = Object.keys(CONSOLE_CONDITIONS[path] ?? {});
      const known = form ? Object.keys(form) : [...conditions, ...others];
      const names = [...known, "colour", "__proto__"];
      const sendOdd = (name: string) =>
        odd.map(async (text) => {
          const query = new URLSearchParams([[name, text.toWellFormed().slice(0, 6_000)]]);
          const sent = form
            ? { method, cookie, form: { ...form, [name]: text.toWellFormed() } }
            : { method, cookie };
          const answer = await operators.send(form ? sample : `${sample}?${query}`, sent);
          expect({ name, text: text.slice(0, 20), failed: answer.status >= 500 }).toEqual({
            name,
            text: text.slice(0, 20),
            failed: false,
          });
          // A browser never takes a CSV for markup, and it has the reasons as they were written.
          if (answer.headers.get("content-type")?.startsWith("text/csv")) return;
          expect(answer.text).not.toContain("<script>");
        });
      for (const name of names) await Promise.all(sendOdd(name));
    });
  }
});

test("Times that the database does not know are refused", async () => {
  const at = ["0000-01-01", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"];
  const { id } = await admin.issue();
  const license = (await admin.call("GET", `/keys/${id}`)).body.license_id;
  const headers = { "idempotency-key": "a key that cannot be issued".replaceAll(" ", "-") };
  const answers = [
    ...at.flatMap((time) => [
      admin.call("GET", `/audit?since=${encodeURIComponent(time)}`),
      admin.call("GET", `/audit?until=${encodeURIComponent(time)}`),
      admin.call("PATCH", `/licenses/${license}`, { body: { expires_at: time } }),
      admin.call("POST", "/keys", {
        body: { email: "a@example.org", tier: "free", expires_at: time },
        headers,
      }),
    ]),
    admin.call("GET", "/usage?month=0000-01"),
    admin.call("GET", `/keys/${id}/usage?month=0001-01`),
  ];
  for (const { status, body } of await Promise.all(answers)) {
    expect({ status, code: body.code }).toEqual({ status: 400, code: "INVALID_REQUEST" });
  }
  const last = { at: new Date("8999-12-31T00:00:00Z"), position: "00000000-0000-7000-8000-000000000000" };
  const after = renderCursor({ name: "keys", filters: { expiring_within: 36_500 } }, last);
  expect((await admin.call("GET", `/keys?expiring_within=36500&after=${after}`)).status).toBe(200);
});
