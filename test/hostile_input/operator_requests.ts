/**
 * Generated requests to the operators' API: the sample request of some route, with a valid token, and up to three
 * mutations. A generated request is plain data without a token, so that it can be made smaller and shown.
 */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { bodyFor } from "../../src/admin/frame/api/route.ts";
import { ROUTES } from "../../src/admin/things.ts";
import type { SampleRequest } from "../admin/sample_requests.ts";
import { BRAND } from "../support/issue.ts";
import { ODD_BODIES, type ToBytes } from "./odd_bodies.ts";
import { ODD_QUERIES, OTHER_METHODS, UNKNOWN_METHODS } from "./odd_values.ts";
import {
  anyHeader,
  anyText,
  mutationOf,
  oddBody,
  oddHeader,
  oddJson,
  oneOf,
  percentEncoded,
  type RenderedBytes,
  renderBytes,
  toBytes,
  toFields,
  toObject,
} from "./requests.ts";

type Mutation =
  | { readonly kind: "method"; readonly method: string }
  /** Replaces the segment of the path at `at`, or adds one. */
  | { readonly kind: "segment"; readonly at: number; readonly text: string }
  | { readonly kind: "query"; readonly query: string }
  /** Sets the parameter at `at` of the route's parameters. */
  | { readonly kind: "parameter"; readonly at: number; readonly text: string }
  | { readonly kind: "header"; readonly name: string; readonly value: string }
  /** Sets the field at `at` of the route's fields to a JSON text. */
  | { readonly kind: "field"; readonly at: number; readonly json: string }
  /** Sends the odd body of this name. */
  | { readonly kind: "oddBody"; readonly name: string }
  /** Puts the token and an API key into the reason, the path or the query. */
  | { readonly kind: "leak"; readonly to: "reason" | "segment" | "search" | "colour" }
  | { readonly kind: "wrongToken"; readonly text: string };

export interface OperatorRequest {
  /** The index of the route. */
  readonly route: number;
  readonly mutations: readonly Mutation[];
}

const at = fc.nat(20);
const oddText = oneOf(
  [3, anyText],
  [2, fc.constantFrom("\0", "\ufffd", "%", "..", ".", "' or 1=1 --", "-1", "1e9", "x".repeat(5_000))],
  [1, fc.constantFrom("2026-13", "9999-12", "0001-01", "P9999Y", "key_", `key_${"0".repeat(32)}`)],
);
const ownHeaders = [
  "Authorization",
  "Idempotency-Key",
  "If-Match",
  "If-None-Match",
  "Accept",
  "X-Forwarded-For",
  "Origin",
];

const mutation = oneOf<Mutation>(
  [5, mutationOf("parameter", { at, text: oddText })],
  [8, mutationOf("field", { at, json: oddJson })],
  [4, fc.oneof(oddHeader, anyHeader(ownHeaders))],
  [3, mutationOf("segment", { at, text: oddText })],
  [2, mutationOf("query", { query: fc.constantFrom(...ODD_QUERIES) })],
  [3, oddBody],
  [2, mutationOf("method", { method: fc.constantFrom(...OTHER_METHODS, ...UNKNOWN_METHODS) })],
  [2, mutationOf("leak", { to: fc.constantFrom("reason", "segment", "search", "colour") })],
  [1, mutationOf("wrongToken", { text: anyText })],
);

/** The routes without the bundle: it is sent in chunks, and has tests of its own. */
const ANSWERED_IN_JSON = [...ROUTES.keys()].filter((index) => ROUTES[index]?.path !== "/keys/:id/bundle");

/** Generates any request. */
export const operatorRequest: fc.Arbitrary<OperatorRequest> = fc.record({
  route: fc.constantFrom(...ANSWERED_IN_JSON),
  mutations: fc.array(mutation, { maxLength: 3 }),
});

export interface RenderOptions {
  readonly host: string;
  readonly sample: SampleRequest;
  readonly token: string;
  readonly apiKey: string;
}

/** Makes the bytes of a request. */
export function renderOperatorRequest(
  { route, mutations }: OperatorRequest,
  { host, sample, token, apiKey }: RenderOptions,
): RenderedBytes {
  const { operation, ...rest } = ROUTES[route] ?? { method: "GET", operation: undefined };
  let method: string = rest.method;
  const [path = "", ofSample] = sample.path.split("?");
  const segments = path.split("/");
  const query = ofSample === undefined ? [] : [ofSample];
  const fields = Object.entries(sample.body ?? {}).map(
    ([name, value]) => [name, JSON.stringify(value)] as const,
  );
  const headers: [string, string][] = [["Host", host]];
  let authorization = `Bearer ${token}`;
  let odd: ToBytes | undefined;
  const nameAt = (entries: object | undefined, index: number) => {
    const names = Object.keys(entries ?? {});
    return names[index % (names.length + 1)] ?? "colour";
  };
  const secrets = `${token} ${apiKey}`;

  for (const each of mutations) {
    if (each.kind === "method") method = each.method;
    if (each.kind === "segment") segments[1 + (each.at % segments.length)] = percentEncoded(each.text);
    if (each.kind === "query") query.push(each.query);
    if (each.kind === "parameter") {
      query.push(`${nameAt(operation?.query?.entries, each.at)}=${percentEncoded(each.text)}`);
    }
    if (each.kind === "header") headers.push([each.name, each.value]);
    if (each.kind === "field")
      fields.push([nameAt(operation && bodyFor(operation, BRAND)?.entries, each.at), each.json]);
    if (each.kind === "oddBody") odd = ODD_BODIES[each.name];
    if (each.kind === "leak") {
      if (each.to === "reason") fields.push(["reason", JSON.stringify(secrets)]);
      else if (each.to === "segment") segments.push(percentEncoded(secrets));
      else query.push(`${each.to}=${percentEncoded(secrets)}`);
    }
    if (each.kind === "wrongToken") authorization = `Bearer ${percentEncoded(each.text)}`;
  }

  if (!headers.some(([name]) => name === "Authorization")) headers.push(["Authorization", authorization]);
  // Each request comes from an address of its own, so that wrong tokens do not block the others.
  const [site, network] = [randomUUID().slice(0, 4), randomUUID().slice(0, 4)];
  headers.push(["X-Forwarded-For", `2001:db8:${site}:${network}::1`]);
  for (const [name, value] of Object.entries(sample.headers ?? {})) {
    if (!headers.some(([other]) => other === name)) headers.push([name, value]);
  }
  const json = toBytes(toFields(fields));
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = odd?.({ fields: json, key: apiKey }) ?? (hasBody ? toObject(json) : undefined);
  if (body !== undefined) headers.push(["Content-Length", String(body.length)]);
  const target = `/admin/v1${segments.join("/")}${query.length === 0 ? "" : `?${query.join("&")}`}`;
  return renderBytes({ method, target, headers, body: body ?? "" });
}
