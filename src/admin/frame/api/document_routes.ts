/** The API's description of itself. */
import * as v from "valibot";
import { isKnown, tagOf } from "../../../wire/mod.ts";
import type { AdminOptions } from "../options.ts";
import { renderDocument } from "./document.ts";
import { type Operation, operation } from "./operation.ts";
import type { Route } from "./route.ts";

/** Creates the operation that answers the OpenAPI document of the routes. */
export function openApiDocument(routes: () => readonly Route[]): Operation {
  /** Rendered once for each app, because it depends only on the executable and its settings. */
  const documents = new WeakMap<AdminOptions, string>();
  return operation({
    id: "getOpenApi",
    summary: "Get this document",
    success: {
      schema: v.pipe(v.looseObject({ openapi: v.string() }), v.title("OpenApi")),
      description: "The document",
      hasTag: true,
    },
    codes: [],
    async run(options, { request }) {
      const { brand, adminUrl } = options;
      const body = documents.get(options) ?? renderDocument({ brand, adminUrl, routes: routes() });
      documents.set(options, body);
      const etag = tagOf(body);
      const isCurrent = isKnown(request.headers.get("if-none-match"), etag);
      // Programs may cache it, but must revalidate it at every use.
      const headers = { ETag: etag, "Cache-Control": "no-cache" };
      return isCurrent
        ? new Response(null, { status: 304, headers })
        : new Response(body, { headers: { ...headers, "Content-Type": "application/json" } });
    },
  });
}
