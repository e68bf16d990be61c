/**
 * Sends requests to the API and checks every answer against the API's OpenAPI document: status, headers, code and body.
 */
import type { CallOptions, TestAdmin } from "../support/admin.ts";
import { type AnswerRule, readPaths } from "../support/api_document.ts";
import type { JsonResponse } from "../support/service.ts";

/** Headers that an answer may only have if the document says so. */
const OURS = /^(x-ratelimit-.*|retry-after|allow|etag|www-authenticate|accept-encoding)$/;

export interface DocumentedCallOptions extends CallOptions {
  /** The listener; by default the one that gave the document. */
  readonly on?: TestAdmin;
  /** By default that of the route. */
  readonly method?: string;
}

/** Sends a request to a route, which is named as in the table of routes. Throws if the document forbids the answer. */
export type DocumentedCall = (
  route: { readonly method: string; readonly path: string },
  path: string,
  options?: DocumentedCallOptions,
) => Promise<JsonResponse>;

/** Reads the document of a listener. */
export async function createDocumentedCall(admin: TestAdmin): Promise<DocumentedCall> {
  const { body: document } = await admin.call("GET", "/openapi.json");
  const paths = readPaths(document);
  return async (route, path, { on = admin, method = route.method, ...options } = {}) => {
    const answer = await on.call(method, path, options);
    const rules = paths.find((each) => each.pattern.test(route.path))?.operations.get(route.method);
    const problem = problemOf(rules?.get(answer.status), answer);
    if (problem === undefined) return answer;
    const shown = JSON.stringify(answer.body).slice(0, 1_000);
    throw new Error(`${route.method} ${path} answers ${answer.status} ${shown}: ${problem}`);
  };
}

/** Returns why the document forbids an answer; undefined if it does not. */
function problemOf(rule: AnswerRule | undefined, { headers, body }: JsonResponse): string | undefined {
  if (rule === undefined) return "the status is not documented";
  for (const { name, isRequired, check } of rule.headers) {
    const value = headers.get(name);
    if (value === null ? isRequired : !check(value)) return `the header ${name} is ${value}`;
  }
  const documented = rule.headers.map(({ name }) => name);
  for (const name of headers.keys()) {
    if (OURS.test(name) && !documented.includes(name)) return `the header ${name} is not documented`;
  }
  if (rule.body === undefined) return body === "" ? undefined : "a body is not documented";
  const [type = ""] = (headers.get("content-type") ?? "").split(";");
  if (!rule.types.includes(type)) return `the content type ${type} is not documented`;
  if (type !== "application/json" || rule.isDocument) return undefined;
  if (rule.codes !== undefined && !rule.codes.includes(body.code)) return `${body.code} is not documented`;
  if (/\bclaviger\b/.test(body.error)) return "the sentence names a command";
  return rule.check?.(body);
}
