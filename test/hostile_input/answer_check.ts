/**
 * Checks answers against the OpenAPI document that the service itself serves, and against the contract's rules for
 * every answer: its headers, its code, no key in it, and the bytes of a file.
 */
import { type AnswerRule, type ApiDocument, readPaths } from "../support/api_document.ts";
import { compileSchema } from "./json_schema.ts";
import type { RenderedRequest } from "./requests.ts";
import type { WireAnswer } from "./wire.ts";

export interface AnswerCheckOptions {
  /** The text of `GET /openapi.json`. */
  readonly document: string;
  /** Returns the bytes of a file by its strong tag, with quotes. */
  readonly fileOf: (etag: string) => Uint8Array | undefined;
  readonly nowMs: () => number;
  /** Returns whether a repository token is set now: without one, 503 `NOT_CONFIGURED` is right. */
  readonly isTokenSet: () => boolean;
}

/** Returns the fault of an answer; undefined if nothing is wrong. */
export type AnswerCheck = (request: RenderedRequest, answer: WireAnswer) => string | undefined;

/** Headers that an answer may only have if the document says so. */
const ONLY_IF_DOCUMENTED = [
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "retry-after",
  "accept-encoding",
  "allow",
  "etag",
  "accept-ranges",
  "content-range",
  "content-disposition",
];
/** Headers of the transport. */
const OF_TRANSPORT = new Set(["date", "connection", "keep-alive", "content-length", "content-type"]);
const ALWAYS = new Set(["cache-control", "x-content-type-options", "x-request-id"]);
const ANY_KEY = /_(?:live|test)_[0-9a-f]{8}/i;
/**
 * The contract's codes with their statuses, written by hand: the document is made from the same table as the
 * answers, so a fault in that table would be in both.
 */
const STATUSES: Readonly<Record<string, readonly number[]>> = {
  MISSING_KEY: [400],
  INVALID_FORMAT: [400],
  MISSING_EVENT_TYPE: [400],
  // 422: an Idempotency-Key that was sent with another event.
  INVALID_REQUEST: [400, 422],
  INVALID_KEY: [401],
  INVALID_LINK: [401],
  KEY_EXPIRED: [401],
  LICENSE_REQUIRED: [403],
  OFFLINE_NOT_ALLOWED: [403],
  KEY_NOT_FOUND: [404],
  MACHINE_NOT_FOUND: [404],
  NOT_FOUND: [404],
  METHOD_NOT_ALLOWED: [405],
  MACHINE_LIMIT_REACHED: [409],
  RELEASE_LIMIT_REACHED: [409],
  PRECONDITION_FAILED: [412],
  PAYLOAD_TOO_LARGE: [413],
  UNSUPPORTED_MEDIA_TYPE: [415],
  RANGE_NOT_SATISFIABLE: [416],
  EXPECTATION_FAILED: [417],
  QUOTA_EXCEEDED: [429],
  RATE_LIMIT_EXCEEDED: [429],
  NOT_CONFIGURED: [503],
};
/** The fields of an error besides its sentence and its code. */
const MORE_FIELDS: Readonly<Record<string, readonly string[]>> = {
  NOT_CONFIGURED: ["message"],
  MACHINE_LIMIT_REACHED: ["machines"],
};
const MAX_WINDOW_SECONDS = 62;
const NEEDS_RETRY_AFTER = new Set(["RATE_LIMIT_EXCEEDED", "SERVICE_UNAVAILABLE"]);

/**
 * Creates the function that returns the fault of an answer; undefined for a right answer.
 *
 * One long function, because it is one list of checks.
 */
export function createAnswerCheck(options: AnswerCheckOptions): AnswerCheck {
  const document: ApiDocument = JSON.parse(options.document);
  const documentBytes = Buffer.from(options.document);
  const paths = readPaths(document);
  /** The answer for an unknown path, which the document describes only in words. */
  const notFound: AnswerRule = {
    body: "json",
    check: compileSchema({ $ref: "#/components/schemas/Error" }, document.components),
    types: ["application/json"],
    codes: ["NOT_FOUND"],
    isDocument: false,
    headers: [],
  };

  return (request, answer) => {
    const { status, headers, body } = answer;
    const text = body.toString("latin1");
    if (headers.get("content-type") !== "application/octet-stream" && ANY_KEY.test(text)) {
      return `the body contains a key: ${text}`;
    }
    for (const [name, value] of headers) {
      if (ANY_KEY.test(value)) return `the header ${name} contains a key: ${value}`;
      if (!OF_TRANSPORT.has(name) && !ALWAYS.has(name) && !ONLY_IF_DOCUMENTED.includes(name)) {
        return `the header ${name} is unknown`;
      }
    }
    const path = toServedPath(request.target);
    const problem = checkEveryHeader(answer, path);
    if (problem !== undefined) return problem;

    const found = path === undefined ? undefined : paths.find(({ pattern }) => pattern.test(path));
    if (found === undefined) {
      return status === 404 ? judge(notFound, request, answer) : `${status} for an unknown path`;
    }
    const operation = found.operations.get(request.method);
    if (operation === undefined) {
      if (status !== 405) return `${status} for a method that is not allowed`;
      const allowed = (headers.get("allow") ?? "").split(", ").toSorted().join();
      if (allowed !== found.methods.toSorted().join()) return `Allow is ${headers.get("allow")}`;
      const any = found.operations.values().next().value?.get(405);
      return any === undefined ? "405 is not documented" : judge(any, request, answer);
    }
    if (status === 405) return "405 for a method that is allowed";
    const rule = operation.get(status);
    return rule === undefined ? `${status} is not documented` : judge(rule, request, answer);
  };

  function checkEveryHeader({ headers }: WireAnswer, path: string | undefined): string | undefined {
    if (headers.get("x-content-type-options") !== "nosniff") return "nosniff is missing";
    if (!/^req_[0-9a-f]{32}$/.test(headers.get("x-request-id") ?? "")) return "X-Request-Id is missing";
    const cache = headers.get("cache-control");
    if (path?.startsWith("/v1/") && cache !== "no-store") return `Cache-Control is ${cache} under /v1`;
    return undefined;
  }

  function judge(rule: AnswerRule, { method }: RenderedRequest, answer: WireAnswer): string | undefined {
    const { headers, status, body } = answer;
    for (const { name, isRequired, check } of rule.headers) {
      const value = headers.get(name);
      if (value === undefined ? isRequired : !check(value)) return `the header ${name} is ${value}`;
    }
    const documented = rule.headers.map(({ name }) => name);
    const extra = ONLY_IF_DOCUMENTED.find((name) => headers.has(name) && !documented.includes(name));
    if (extra !== undefined) return `the header ${extra} is not documented for ${status}`;
    const reset = headers.get("x-ratelimit-reset");
    if (reset !== undefined) {
      const inSeconds = Number(reset) - options.nowMs() / 1_000;
      if (inSeconds < -2 || inSeconds > MAX_WINDOW_SECONDS) return `X-RateLimit-Reset is in ${inSeconds} s`;
      if (Number(headers.get("x-ratelimit-remaining")) > Number(headers.get("x-ratelimit-limit"))) {
        return "X-RateLimit-Remaining is above X-RateLimit-Limit";
      }
    }
    if (method === "HEAD") return body.length === 0 ? undefined : "HEAD has a body";
    if (rule.body === undefined) return body.length === 0 ? undefined : "a body is not documented";
    return rule.body === "bytes" ? checkFile(answer) : checkJson(rule, answer);
  }

  function checkJson(
    { check, codes, isDocument }: AnswerRule,
    { headers, body, status }: WireAnswer,
  ): string | undefined {
    if (headers.get("content-type") !== "application/json")
      return `the content type is ${headers.get("content-type")}`;
    let value: unknown;
    try {
      value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    } catch (error) {
      return `the body is not JSON: ${error}`;
    }
    // The document has no schema for itself, but it never changes.
    if (isDocument) return body.equals(documentBytes) ? undefined : "another document than before";
    const problem = check?.(value);
    if (problem !== undefined) return problem;
    if (codes === undefined) return undefined;
    const { code } = value as { readonly code: string };
    if (!codes.includes(code)) return `${code} is not documented for ${status}`;
    if (code === "SERVER_ERROR" || code === "SERVICE_UNAVAILABLE") return `the request failed with ${code}`;
    if (STATUSES[code]?.includes(status) !== true) return `${code} with the status ${status}`;
    if (code === "NOT_CONFIGURED" && options.isTokenSet()) return "NOT_CONFIGURED though a token is set";
    const more = MORE_FIELDS[code] ?? [];
    if (Object.keys(value as object).join() !== ["error", "code", ...more].join())
      return `an error with the fields ${Object.keys(value as object)}`;
    // Only where waiting helps: a place can end by itself, and a license may allow no release by id.
    if (code === "MACHINE_LIMIT_REACHED" || code === "RELEASE_LIMIT_REACHED") return undefined;
    if (NEEDS_RETRY_AFTER.has(code) !== headers.has("retry-after")) return `Retry-After does not fit ${code}`;
    return undefined;
  }

  function checkFile({ headers, body, status }: WireAnswer): string | undefined {
    if (headers.get("content-type") !== "application/octet-stream") return "a file with another content type";
    const file = options.fileOf(headers.get("etag") ?? "");
    if (file === undefined) return `no file has the tag ${headers.get("etag")}`;
    let [first, end] = [0, file.length];
    if (status === 206) {
      const [, from, to, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers.get("content-range") ?? "") ?? [];
      if (Number(size) !== file.length) return "a range of another length";
      [first, end] = [Number(from), Number(to) + 1];
    }
    const isSame = end > first && Buffer.compare(body, file.subarray(first, end)) === 0;
    return isSame ? undefined : "the bytes are not those of the file";
  }
}

/**
 * Returns the path as the service sees it: the runtime resolves `.` and `..`, encoded or not, turns `\` into `/`, and
 * removes the scheme and host of an absolute URL. Undefined for a target that the runtime does not accept.
 */
export function toServedPath(target: string): string | undefined {
  const bare = target.replace(/^http:\/\/[^/]*/, "");
  const [path = ""] = bare.split("?", 1);
  // A target has no fragment: `#` and the text after it are part of the path.
  const fragment = path.includes("#") ? path.slice(path.indexOf("#")) : "";
  try {
    return new URL(`http://h${bare}`).pathname + fragment;
  } catch {
    return undefined;
  }
}
