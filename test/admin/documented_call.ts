/**
 * Sends requests to the API and checks every answer against the API's OpenAPI document: status, headers, code and body.
 */
import type { CallOptions, TestAdmin } from "../support/admin.ts";
import { problemOf, readPaths } from "../support/api_document.ts";
import type { JsonResponse } from "../support/service.ts";

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
    const problem =
      problemOf(rules?.get(answer.status), answer) ??
      (/\bclaviger\b/.test(answer.body.error) ? "the sentence names a command" : undefined);
    if (problem === undefined) return answer;
    const shown = JSON.stringify(answer.body).slice(0, 1_000);
    throw new Error(`${route.method} ${path} answers ${answer.status} ${shown}: ${problem}`);
  };
}
