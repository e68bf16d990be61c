/** The handler of the OpenAPI document. It needs no key and has no limit. */
import { isKnown, tagOf } from "../../wire/mod.ts";
import type { Handler } from "../handler.ts";
import { type DocumentOptions, renderDocument } from "./document.ts";

/** Creates the handler that returns the document, which is rendered once; its tag is the hash of its content. */
export function openApiDocument(options: DocumentOptions): Handler {
  const body = renderDocument(options);
  const etag = tagOf(body);
  // Clients may cache it but must ask at every use: it changes with the executable and its settings.
  const headers = { ETag: etag, "Cache-Control": "no-cache" };
  return ({ request }) => {
    const status = isKnown(request.headers.get("if-none-match"), etag) ? 304 : 200;
    return { status, body, headers };
  };
}
