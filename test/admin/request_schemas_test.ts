/**
 * The OpenAPI document accepts and refuses the same requests as the API: each value is checked against its schema in the
 * document, by a validator that is not ours, and sent.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import Ajv2020 from "ajv/dist/2020";
import { renderDocument } from "../../src/admin/frame/api/document.ts";
import { ROUTES } from "../../src/admin/things.ts";
import { createBrand } from "../../src/licensing/mod.ts";
import { BRAND } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import { makeSample } from "./sample_requests.ts";

interface BodySchema {
  readonly properties: Readonly<Record<string, object>>;
  readonly required?: readonly string[];
}
interface Described {
  readonly parameters?: readonly { readonly name: string; readonly schema: object }[];
  readonly requestBody?: {
    readonly content: Record<string, { readonly schema: { readonly $ref: string } } | undefined>;
  };
}
type Method = "GET" | "POST" | "PATCH";

const admin = useAdmin();
let token: string;
beforeAll(async () => {
  token = await admin.token();
});

/** Returns an operation of the document, and the parts to which its schemas refer. */
function describedIn(method: string, path: string, brand = BRAND) {
  const document = JSON.parse(renderDocument({ brand, adminUrl: undefined, routes: ROUTES }));
  const operation: Described = document.paths[path.replace(/:(\w+)/g, "{$1}")][method.toLowerCase()];
  return { operation, components: document.components };
}

/** Returns the check of a body, or of a parameter, by the document. */
function documented(method: Method, path: string, { parameter = "", brand = BRAND } = {}) {
  const { operation, components } = describedIn(method, path, brand);
  const schema = operation.parameters?.find(({ name }) => name === parameter)?.schema;
  // The formats of other fields are not the subject here.
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  return ajv.compile({
    ...(schema ?? operation.requestBody?.content["application/json"]?.schema),
    components,
  });
}

const KEY = "0123456789abcdef".repeat(3);
const SPANS = [
  ..."7d 0h 00007d 3650d 03650d 3651d 03651d 9999d 10000d 79999h 87600h 87601h 99999h 100000h".split(" "),
  ..."7 d 7w 7D -1d 1.5d".split(" "),
  ...["", " 7d", "7d\n"],
];
const TIMES = [
  ..."2027-01-31 2028-02-29 9999-12-31 2027-00-01 2027-13-01 2027-01-00 2027-01-32 2027-1-31".split(" "),
  ..."0999-12-31 12027-01-31 2027-01-31T00:00:00Z 2027-01-31T23:59:59.123+05:30".split(" "),
  ..."2027-01-31T10:00-05:00 2027-01-31T24:00:00Z 2027-01-31T24:00:01Z 2027-01-31T25:00Z".split(" "),
  ..."2027-01-31T10:60Z 2016-12-31T23:59:60Z 2027-01-31T10:00+24:00 2027-01-31T10:00+01:60".split(" "),
  ..."2027-01-31T00:00:00 2027-01-31t00:00:00z 1796083200 tomorrow now".split(" "),
  ...["", "2027-01-31 00:00:00Z", "2027-01-31\n"],
];
const EXPIRIES = [...TIMES, "never", "Never", "never ", "never|2027-01-31"];
const KEYS = [
  ..."svc_live_ svc_test_ svc_op_ acme_live_ SVC_live_ live_ _ svc_live"
    .split(" ")
    .map((prefix) => prefix + KEY),
  ...[KEY.slice(1), `${KEY}0`, `${KEY}\n`, KEY.toUpperCase()].map((digits) => `svc_live_${digits}`),
  ...["", ` svc_live_${KEY}`],
];
const PARADIGMS = [
  ..."p300 motor_imagery 3d P300 _p300 p-300 é".split(" "),
  ...["", "p 300", "p300\n", "a".repeat(100), "a".repeat(101)],
];

const slugs = (most: number) => [
  ..."svc-lda 1.0.0 A+b_c 7 x -x .x _x a/b ä a@b".split(" "),
  ...["", "a b", "a\n", " a", "a".repeat(most), "a".repeat(most + 1)],
];
const LONG = "https://models.example/".padEnd(2_000, "a");
const URLS = [
  ..."https://models.example/a.onnx HTTP://models.example:8443/?a=b#c ftp://models.example/a".split(" "),
  ..."models.example/a https:models.example https:// https://ä.example/a".split(" "),
  ...["", "https://models.example/a b", "https://models.example/a\n", " https://models.example/a"],
  ...[LONG, `${LONG}a`],
];

/** The values of one field. The other fields are those of the sample request. */
const FIELDS: readonly [method: Method, path: string, field: string, values: readonly unknown[]][] = [
  ["POST", "/keys/:id/rotate", "overlap", [...SPANS, 7, null]],
  ["POST", "/keys", "expires_at", [...EXPIRIES, 1_796_083_200, null]],
  ["PATCH", "/licenses/:id", "expires_at", [...EXPIRIES, 1_796_083_200, null]],
  ["PATCH", "/licenses/:id", "max_machines", [-1, 0, 1, 1.5, 1_000_000, 1_000_001, "5", null]],
  ["PATCH", "/licenses/:id", "seat_minutes", [4, 5, 7.5, 1_440, 1_441, "5", null]],
  ["POST", "/keys/find", "api_key", [...KEYS, 7, null]],
  ["POST", "/models", "paradigm", [...PARADIGMS, 300, null]],
  ["POST", "/models", "name", [...slugs(200), 7, null]],
  ["POST", "/models", "version", [...slugs(100), 7, null]],
  ["POST", "/models", "url", [...URLS, 7, null]],
];

describe("a field of a body", () => {
  for (const [method, path, field, values] of FIELDS) {
    test(`${method} ${path}: ${field} is refused exactly if the document refuses it`, async () => {
      const fits = documented(method, path);
      const verdicts = new Set<boolean>();
      for (const value of values) {
        const sample = await makeSample(admin, { method, path });
        const body = { ...sample.body, [field]: value };
        const { status } = await admin.call(method, sample.path, { ...sample, token, body });
        expect({ value, isRefused: status === 400 }).toEqual({ value, isRefused: !fits(body) });
        verdicts.add(fits(body));
      }
      expect(verdicts).toEqual(new Set([true, false]));
    });
  }

  test("PATCH needs a value besides the reason, as the document says", async () => {
    const bodies: Readonly<Record<string, readonly object[]>> = {
      "/licenses/:id": [
        { tier: "free" },
        { monthly_limit: null },
        { max_machines: null },
        { seat_minutes: null },
        { expires_at: "never" },
        { external_id: null },
      ],
      "/accounts/:id": [{ name: "Ada" }, { organization: "" }],
    };
    for (const [path, accepted] of Object.entries(bodies)) {
      const fits = documented("PATCH", path);
      const withReason = accepted.map((body) => ({ ...body, reason: "asked by phone" }));
      const refused: readonly object[] = [
        {},
        { reason: "asked by phone" },
        { colour: "red" },
        { reason: "x", colour: "red" },
      ];
      for (const body of [...accepted, ...withReason, ...refused]) {
        const sample = await makeSample(admin, { method: "PATCH", path });
        const { status } = await admin.call("PATCH", sample.path, { token, body });
        const isRefused = refused.includes(body);
        expect({ body, status, fits: fits(body) }).toEqual({
          body,
          status: isRefused ? 400 : 200,
          fits: !isRefused,
        });
      }
    }
  });

  test("only an address with a user, or that no parser reads, fits the document, and is refused", async () => {
    const fits = documented("POST", "/models");
    for (const url of ["https://user:secret@models.example/a", "https://models.example:port/a"]) {
      const sample = await makeSample(admin, { method: "POST", path: "/models" });
      const body = { ...sample.body, url };
      const { status, body: answer } = await admin.call("POST", sample.path, { ...sample, token, body });
      const seen = { status, field: answer.details[0].field, fits: fits(body) };
      expect(seen).toEqual({ status: 400, field: "url", fits: true });
    }
  });

  test("only a day that its month does not have fits the document, and is refused", async () => {
    const body = { expires_at: "2027-02-29" };
    const sample = await makeSample(admin, { method: "PATCH", path: "/licenses/:id" });
    const { status } = await admin.call("PATCH", sample.path, { token, body });
    expect({ status, fits: documented("PATCH", "/licenses/:id")(body) }).toEqual({ status: 400, fits: true });
  });
});

/** How the sentence about a wrong field begins, after the name of the field. */
const SENTENCE = /^(must be |is required$|is not known$)/;

describe("a body", () => {
  for (const route of ROUTES) {
    const { operation, components } = describedIn(route.method, route.path);
    const described = operation.requestBody?.content["application/json"]?.schema;
    if (described === undefined) continue;
    const schema: BodySchema = components.schemas[described.$ref.replace("#/components/schemas/", "")];
    test(`${route.method} ${route.path} says what is wrong with each field in a sentence of its own`, async () => {
      const sample = await makeSample(admin, route);
      const { reason: _, ...rest } = { reason: "", ...sample.body };
      const without = (name: string) =>
        Object.fromEntries(Object.entries(rest).filter(([each]) => each !== name));
      // An empty list is right where a list is wanted.
      const wrongFor = (name: string) => (name === "models" ? {} : []);
      const wrong = [
        ...Object.keys(schema.properties).map((name) => ({
          name,
          body: { ...rest, [name]: wrongFor(name) },
        })),
        ...(schema.required ?? []).map((name) => ({ name, body: without(name) })),
        { name: "colour", body: { ...rest, colour: "red" } },
      ];
      for (const { name, body } of wrong) {
        const { status, body: answer } = await admin.call(route.method, sample.path, {
          ...sample,
          token,
          body,
        });
        const found = answer.details?.find(({ field }: { field: string }) => field === name)?.error ?? "";
        expect({ body, status, found }).toEqual({
          ...{ body, status: 400 },
          found: expect.stringMatching(new RegExp(`^${name} ${SENTENCE.source.slice(1)}`)),
        });
      }
    });
  }
});

describe("a parameter", () => {
  for (const [path, parameter] of [
    ["/audit", "since"],
    ["/audit", "until"],
    ["/activity", "to"],
  ] as const) {
    test(`GET ${path}: ${parameter} is refused exactly if the document refuses it`, async () => {
      const fits = documented("GET", path, { parameter });
      for (const text of ["1000-01-01", ...TIMES]) {
        const { status } = await admin.call("GET", `${path}?${new URLSearchParams({ [parameter]: text })}`, {
          token,
        });
        expect({ text, isRefused: status === 400 }).toEqual({ text, isRefused: !fits(text) });
      }
    });
  }
});

test("the document of another brand has the pattern of its keys", () => {
  const fits = documented("POST", "/keys/find", { brand: createBrand("acme") });
  expect([`acme_live_${KEY}`, `svc_live_${KEY}`].map((api_key) => fits({ api_key }))).toEqual([true, false]);
});
