/** The handler of the OpenAPI document. It needs no key and has no limit. */
import { isRefusal } from "../../base/refusal.ts";
import { checkTag, tagOf } from "../../wire/mod.ts";
import type { Handler } from "../handler.ts";
import { type Operations, withHead } from "../operation.ts";
import { type DescribedRoute, type DocumentOptions, renderDocument } from "./document.ts";

/** What the request for the document does. */
export const DOCUMENT: Operations = withHead(
  {
    id: "getOpenApi",
    summary: "Get this document",
    description: "The document changes with the version of the service and with its settings.",
    success: { schema: "OpenApi", description: "The document", headers: ["ETag"] },
    others: [{ status: 304, description: "`If-None-Match` names the document's tag", headers: ["ETag"] }],
    codes: ["PRECONDITION_FAILED"],
  },
  "The document exists",
);

/** Creates the handler that returns the document, which is rendered once; its tag is the hash of its content. */
export function openApiDocument(options: DocumentOptions, routes: readonly DescribedRoute[]): Handler {
  const body = renderDocument(options, routes);
  const etag = tagOf(body);
  // Clients may cache it but must ask at every use: it changes with the executable and its settings.
  const headers = { ETag: etag, "Cache-Control": "no-cache" };
  return ({ request }) => {
    const checked = checkTag(request.headers, etag);
    return isRefusal(checked) ? checked : { status: checked === "known" ? 304 : 200, body, headers };
  };
}
