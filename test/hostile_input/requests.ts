/**
 * Generated requests: a valid request to some endpoint, with a key of some role, and up to three mutations.
 *
 * A generated request is plain data that names keys and links by role; `renderRequest` makes the bytes. So a
 * request that failed can be made smaller, sent again and shown without a key in it.
 */
import fc from "fast-check";
import type { Actors, Role } from "./actors.ts";
import { ODD_BODIES, type ToBytes } from "./odd_bodies.ts";
import {
  ODD_HEADERS,
  ODD_PATHS,
  ODD_QUERIES,
  ODD_VALUES,
  OTHER_METHODS,
  UNKNOWN_METHODS,
} from "./odd_values.ts";

const REPO_TOKEN = "/v1/installer/repo-token";

/** The valid requests; `key` is the place of the key in the request, and `weight` says how often it is drawn. */
const TEMPLATES = {
  validate: { method: "POST", path: "/v1/auth/validate", key: "body", weight: 6 },
  refresh: { method: "POST", path: "/v1/auth/refresh", key: "body", weight: 3 },
  revoke: { method: "POST", path: "/v1/auth/revoke", key: "body", weight: 2 },
  license: { method: "POST", path: "/v1/auth/license", key: "body", weight: 4 },
  activate: { method: "POST", path: "/v1/machines/activate", key: "body", weight: 5 },
  heartbeat: { method: "POST", path: "/v1/machines/heartbeat", key: "body", weight: 3 },
  release: { method: "POST", path: "/v1/machines/release", key: "body", weight: 2 },
  machineList: { method: "POST", path: "/v1/machines/list", key: "body", weight: 2 },
  jwks: { method: "GET", path: "/.well-known/jwks.json", key: "nowhere", weight: 1 },
  jwksHead: { method: "HEAD", path: "/.well-known/jwks.json", key: "nowhere", weight: 1 },
  getToken: { method: "GET", path: REPO_TOKEN, key: "header", weight: 2 },
  getTokenByQuery: { method: "GET", path: REPO_TOKEN, key: "query", weight: 2 },
  postToken: { method: "POST", path: REPO_TOKEN, key: "body", weight: 2 },
  list: { method: "GET", path: "/v1/models/list", key: "query", weight: 4 },
  log: { method: "POST", path: "/v1/analytics/log", key: "body", weight: 14 },
  download: { method: "GET", path: "/v1/models/download/", key: "header", weight: 3 },
  downloadHead: { method: "HEAD", path: "/v1/models/download/", key: "header", weight: 1 },
  link: { method: "GET", path: "/v1/models/download/", key: "nowhere", weight: 3 },
  linkHead: { method: "HEAD", path: "/v1/models/download/", key: "nowhere", weight: 1 },
  health: { method: "GET", path: "/api/health", key: "nowhere", weight: 1 },
  healthHead: { method: "HEAD", path: "/api/health", key: "nowhere", weight: 1 },
  openApi: { method: "GET", path: "/openapi.json", key: "nowhere", weight: 1 },
  openApiHead: { method: "HEAD", path: "/openapi.json", key: "nowhere", weight: 1 },
  elsewhere: { method: "GET", path: "/v1/nothing", key: "query", weight: 1 },
} as const;
export type Template = keyof typeof TEMPLATES;

export type Mutation =
  | { readonly kind: "method"; readonly method: string }
  | { readonly kind: "path"; readonly path: string }
  | { readonly kind: "query"; readonly query: string }
  | { readonly kind: "header"; readonly name: string; readonly value: string }
  /** Adds another key to the first, or the same key again. */
  | { readonly kind: "key"; readonly role: Role; readonly at: "header" | "query" | "body" }
  /** Adds a field with a JSON text as its value, after the other fields of the body. */
  | { readonly kind: "field"; readonly name: string; readonly json: string }
  /** Puts the key itself into a field of the body that the service stores. */
  | { readonly kind: "leak"; readonly field: string }
  | { readonly kind: "body"; readonly body: string }
  /** Sends the odd body of this name. */
  | { readonly kind: "oddBody"; readonly name: string }
  /** Replaces `cut` bytes of the body with others, at `at` percent of its length. */
  | { readonly kind: "splice"; readonly at: number; readonly cut: number; readonly insert: string }
  | { readonly kind: "chunked"; readonly chunkBytes: number };

export interface GeneratedRequest {
  readonly template: Template;
  readonly role: Role;
  /** Chooses the key of the role, the link, the address and the fields of an event. */
  readonly pick: number;
  readonly mutations: readonly Mutation[];
}

/** The bytes of a request, and what its sender has to know. */
export interface RenderedBytes {
  readonly bytes: Uint8Array;
  readonly method: string;
  /** Whether the request asks the service to close the connection. */
  readonly isLast: boolean;
  /** Whether the runtime may refuse the request before our code runs. */
  readonly mayRuntimeRefuse: boolean;
}

export interface RenderedRequest extends RenderedBytes {
  readonly target: string;
  /** Every key that the request may carry. */
  readonly apiKeys: readonly string[];
  readonly hasClaim: boolean;
}

const weighted = <T>(...entries: readonly (readonly [T, number])[]) =>
  fc.constantFrom(...entries.flatMap(([value, weight]) => Array.from({ length: weight }, () => value)));

/** Draws from one of the arbitraries, each with its weight. */
export const oneOf = <T>(...entries: readonly (readonly [weight: number, arbitrary: fc.Arbitrary<T>])[]) =>
  fc.oneof(...entries.map(([weight, arbitrary]) => ({ weight, arbitrary })));

/** Draws mutations of one kind with these fields. */
export const mutationOf = <Kind extends string, Fields>(
  kind: Kind,
  fields: { [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> },
) => fc.record({ kind: fc.constant(kind), ...fields }) as fc.Arbitrary<{ kind: Kind } & Fields>;

/** Texts of any characters. */
export const anyText = fc.oneof(
  fc.string({ maxLength: 30 }),
  fc.string({ maxLength: 30, unit: "binary" }),
  fc.string({ maxLength: 30, unit: "grapheme" }),
);
/** Bytes in Latin-1: each character is one byte. */
export const anyBytes = fc.uint8Array({ maxLength: 40 }).map((bytes) => String.fromCharCode(...bytes));

const FIELDS = [
  "api_key",
  "event_type",
  "model_name",
  "inference_type",
  "duration_ms",
  "success",
  "error_message",
  "metadata",
  "reason",
  "nonce",
  "fingerprint",
  "name",
  "platform",
  "unknown",
  "__proto__",
  "constructor",
];

const roles = weighted<Role>(
  ["active", 20],
  ["hot", 5],
  ["scarce", 3],
  ["usedUp", 1],
  ["expired", 1],
  ["suspended", 1],
  ["revoked", 1],
  ["unknown", 1],
  ["malformed", 1],
  ["none", 1],
);
const templates = weighted(
  ...Object.entries(TEMPLATES).map(([name, { weight }]) => [name as Template, weight] as const),
);

/** JSON texts, most of them odd. */
export const oddJson = oneOf(
  [6, fc.constantFrom(...ODD_VALUES)],
  [2, anyText.map((text) => JSON.stringify(text))],
  [1, fc.double().map((number) => JSON.stringify(number))],
  [1, fc.json({ maxDepth: 4 })],
);
export const oddHeader = fc
  .constantFrom(...ODD_HEADERS)
  .map(([name, value]) => ({ kind: "header" as const, name, value }));
/** Headers of these names. A line's end would begin another header; raw_framing_test.ts sends such requests. */
export const anyHeader = (names: readonly string[]) =>
  mutationOf("header", {
    name: fc.constantFrom(...names),
    value: anyBytes.map((bytes) => bytes.replaceAll(/[\r\n]/g, "")),
  });

export const oddBody = mutationOf("oddBody", { name: fc.constantFrom(...Object.keys(ODD_BODIES)) });

const mutation = oneOf<Mutation>(
  [10, mutationOf("field", { name: oneOf([15, fc.constantFrom(...FIELDS)], [1, anyText]), json: oddJson })],
  [
    8,
    oneOf(
      [12, oddHeader],
      [
        2,
        anyHeader(["X-API-Key", "Range", "Idempotency-Key", "If-Match", "If-None-Match", "X-Forwarded-For"]),
      ],
    ),
  ],
  [
    3,
    mutationOf("path", {
      path: oneOf([4, fc.constantFrom(...ODD_PATHS)], [1, anyBytes.map((bytes) => `{path}${bytes}`)]),
    }),
  ],
  [
    4,
    mutationOf("query", {
      query: oneOf([4, fc.constantFrom(...ODD_QUERIES)], [1, anyText.map(percentEncoded)]),
    }),
  ],
  [
    3,
    mutationOf("method", {
      method: weighted(
        ...OTHER_METHODS.map((method) => [method, 3] as const),
        ...UNKNOWN_METHODS.map((method) => [method, 1] as const),
      ),
    }),
  ],
  [3, mutationOf("key", { role: roles, at: fc.constantFrom("header", "query", "body") })],
  [
    1,
    mutationOf("body", {
      body: oneOf([1, anyBytes], [1, fc.json({ maxDepth: 5, noUnicodeString: false }).map(toBytes)]),
    }),
  ],
  [4, oddBody],
  [
    4,
    mutationOf("splice", {
      at: fc.integer({ min: 0, max: 100 }),
      cut: fc.integer({ min: 0, max: 6 }),
      insert: anyBytes,
    }),
  ],
  [
    2,
    mutationOf("leak", {
      field: fc.constantFrom(
        "error_message",
        "model_name",
        "metadata",
        "reason",
        "fingerprint",
        "name",
        "platform",
      ),
    }),
  ],
  [2, mutationOf("chunked", { chunkBytes: fc.constantFrom(1, 7, 1_000, 100_000) })],
);

/** Generates any request. */
export const generatedRequest: fc.Arbitrary<GeneratedRequest> = fc.record({
  template: templates,
  role: roles,
  pick: fc.nat(0xffff),
  mutations: fc.array(mutation, { maxLength: 3 }),
});

/** Stands for the key in a body until `renderRequest` replaces it. */
const KEY_MARK = "<key>";

/** Makes the bytes of a request. Without `actors`, the bytes name keys and links by their roles, for people. */
export function renderRequest(request: GeneratedRequest, url: string, actors?: Actors): RenderedRequest {
  const { template, role, pick, mutations } = request;
  const right = TEMPLATES[template];
  let method: string = right.method;
  let path = pathOf(request, actors);
  let query = "";
  if (template === "link" || template === "linkHead") {
    const link = actors?.linkOf(pick) ?? `/v1/models/download/<link ${pick}>`;
    const mark = link.indexOf("?");
    path = mark === -1 ? link : link.slice(0, mark);
    query = mark === -1 ? "" : link.slice(mark + 1);
  }
  for (const each of mutations) {
    if (each.kind === "path") path = each.path.replaceAll("{path}", path);
    if (each.kind === "method") method = each.method;
  }
  const isRevoked = path.includes("revoke");
  const keyOf = (of: Role) =>
    actors?.keyOf(of, { pick, isRevoked }) ?? (of === "none" ? "" : `<${of} ${pick}>`);
  const apiKey = keyOf(role);
  const apiKeys = [apiKey];
  const addQuery = (more: string) => {
    query = query === "" ? more : `${query}&${more}`;
  };

  const headers: [string, string][] = [["Host", new URL(url).host]];
  // Most requests come from different addresses, so that they do not fill one window.
  if (pick % 8 !== 0) headers.push(["X-Forwarded-For", `203.0.${(pick >> 8) & 255}.${pick & 255}`]);
  let hasClaim = false;
  if (template === "log" && pick % 3 === 0) {
    headers.push(["Idempotency-Key", `claim-${pick >> 2}`]);
    hasClaim = true;
  }
  const fields: [string, string][] = [];
  if (apiKey !== "") {
    if (right.key === "body") fields.push(["api_key", JSON.stringify(apiKey)]);
    if (right.key === "header") headers.push(["X-API-Key", apiKey]);
    if (right.key === "query") addQuery(`api_key=${encodeURIComponent(apiKey)}`);
  }
  if (template === "log") fields.push(...eventFields(pick));
  if (template === "license" && pick % 2 === 0)
    fields.push(["nonce", `"${pick}"`], ["fingerprint", `"machine ${(pick >> 5) & 3}"`]);
  if (template === "activate" || template === "heartbeat" || template === "release")
    fields.push(["fingerprint", `"machine ${(pick >> 5) & 3}"`], ["name", `"host ${(pick >> 5) & 3}"`]);
  if (template === "revoke" && pick % 2 === 0) fields.push(["reason", JSON.stringify(`lost ${KEY_MARK}`)]);

  let odd: ToBytes | undefined;
  let chunkBytes = 0;
  const splices: Extract<Mutation, { kind: "splice" }>[] = [];
  for (const each of mutations) {
    switch (each.kind) {
      case "query":
        addQuery(each.query);
        break;
      case "header":
        // The runtime reads only the first of two Range headers (see odd_targets_test.ts).
        if (each.name !== "Range" || !headers.some(([name]) => name === "Range")) {
          headers.push([each.name, each.value]);
        }
        hasClaim ||= each.name === "Idempotency-Key";
        break;
      case "key": {
        const other = keyOf(each.role);
        apiKeys.push(other);
        if (each.at === "header") headers.push(["X-API-Key", other]);
        if (each.at === "query") addQuery(`api_key=${other}`);
        if (each.at === "body") fields.push(["api_key", JSON.stringify(other)]);
        break;
      }
      case "field":
        fields.push([each.name, each.json]);
        break;
      case "leak":
        fields.push([each.field, each.field === "metadata" ? METADATA_LEAK : TEXT_LEAK]);
        break;
      case "body":
        odd = () => each.body;
        break;
      case "oddBody":
        odd = ODD_BODIES[each.name];
        break;
      case "splice":
        splices.push(each);
        break;
      case "chunked":
        chunkBytes = each.chunkBytes;
        break;
    }
  }

  const hasBody = method === "POST" || odd !== undefined || fields.length > 0;
  const json = toBytes(toFields(fields).replaceAll(KEY_MARK, apiKey));
  let body = odd?.({ fields: json, key: apiKey }) ?? (hasBody ? toObject(json) : "");
  for (const { at, cut, insert } of splices) {
    const begin = Math.floor((body.length * at) / 100);
    body = body.slice(0, begin) + insert + body.slice(begin + cut);
  }
  if (chunkBytes > 0) {
    headers.push(["Transfer-Encoding", "chunked"]);
    // Large bodies get larger chunks: at most some 256 of them.
    body = toChunks(body, Math.max(chunkBytes, body.length >> 8));
  } else if (hasBody || body !== "") {
    headers.push(["Content-Length", String(body.length)]);
  }
  const target = query === "" ? path : `${path}?${query}`;
  return { ...renderBytes({ method, target, headers, body }), target, apiKeys, hasClaim };
}

/** Returns a request as text for people, without a key: its head and body, with unprintable characters escaped. */
export function describeRequest(request: GeneratedRequest, url: string): string {
  const { bytes } = renderRequest(request, url);
  const raw = Buffer.from(bytes).toString("latin1");
  const shown = JSON.stringify(raw.length > 4_000 ? `${raw.slice(0, 4_000)}…` : raw);
  const { host } = new URL(url);
  return [
    `  request: ${JSON.stringify(request).slice(0, 4_000)}`,
    `  bytes:   ${shown}`,
    `  again:   printf '%b' '${toPrintf(raw.slice(0, 4_000))}' | nc -q 2 ${host.replace(":", " ")}`,
  ].join("\n");
}

function toPrintf(raw: string): string {
  return raw.replaceAll(/[^\x20-\x7e]|['\\%]/g, (each) => {
    return `\\0${each.charCodeAt(0).toString(8).padStart(3, "0")}`;
  });
}

function pathOf({ template, pick }: GeneratedRequest, actors: Actors | undefined): string {
  const { path } = TEMPLATES[template];
  if (template !== "download" && template !== "downloadHead") return path;
  const models = actors?.models ?? [];
  const model = models[pick % (models.length + 1)];
  return `${path}${model?.name ?? "missing"}/${model?.version ?? "1.0.0"}`;
}

/** Returns a valid event with more or fewer of its fields. */
function eventFields(pick: number): [string, string][] {
  const type = ["inference", "model_load", "error"][pick % 3] ?? "";
  const all: [string, string][] = [
    ["event_type", JSON.stringify(type)],
    ["model_name", '"motor_imagery_4class_v1"'],
    ["inference_type", pick & 8 ? '"batch"' : '"streaming"'],
    ["duration_ms", String((pick % 1_000) / 8)],
    ["success", pick & 16 ? "true" : "false"],
    ["error_message", '"out of memory"'],
    ["metadata", '{"channels":8,"device":{"name":"a"}}'],
  ];
  return all.slice(0, 1 + ((pick >> 5) % all.length));
}

const TEXT_LEAK = JSON.stringify(`the key ${KEY_MARK} was refused`);
const METADATA_LEAK = `{"deep":[{"url":"https://example.org/?api_key=${KEY_MARK}"}],"${KEY_MARK}":1}`;

function toChunks(body: string, size: number): string {
  let chunks = "";
  for (let at = 0; at < body.length; at += size) {
    const chunk = body.slice(at, at + size);
    chunks += `${chunk.length.toString(16)}\r\n${chunk}\r\n`;
  }
  return `${chunks}0\r\n\r\n`;
}

/** Returns fields, whose values are JSON, with a comma after each: `"a":1,"b":null,`. */
export function toFields(fields: readonly (readonly [name: string, json: string])[]): string {
  return fields.map(([name, json]) => `${JSON.stringify(name)}:${json},`).join("");
}

/** Returns the object that has the fields, each with a comma after it. */
export function toObject(fields: string): string {
  return `{${fields.replace(/,$/, "")}}`;
}

/** Encodes a text as UTF-8 and returns each byte as one character. */
export function toBytes(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** Percent-encodes a text; replaces lone surrogates, which have no encoding, with U+FFFD. */
export function percentEncoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

const HEAD_LIMIT_BYTES = 16_000;

interface Parts {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [string, string])[];
  /** In Latin-1. */
  readonly body: string;
}

/**
 * Makes the bytes of a request. The runtime's HTTP parser may refuse it by itself for an unknown method, an invalid target,
 * control characters or blanks in the target, control characters in a header, or a head of more than 16 KB.
 */
export function renderBytes({ method, target, headers, body }: Parts): RenderedBytes {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const head = `${method} ${target} HTTP/1.1\r\n${lines}\r\n`;
  return {
    bytes: Buffer.from(head + body, "latin1"),
    method,
    isLast: headers.some(([name, value]) => name === "Connection" && value === "close"),
    mayRuntimeRefuse:
      UNKNOWN_METHODS.includes(method) ||
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for them.
      /[\x00-\x20]/.test(target) ||
      !/^(\/|http:\/\/)/.test(target) ||
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for them.
      headers.some(([, value]) => /[\x00-\x08\x0a-\x1f]/.test(value)) ||
      head.length > HEAD_LIMIT_BYTES,
  };
}
