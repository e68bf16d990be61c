/** The API's description of itself. */
import * as v from "valibot";
import { isKnown, tagOf } from "../../../wire/mod.ts";
import { route } from "./route.ts";

export const getOpenApi = route("GET /openapi.json", "any", {
  id: "getOpenApi",
  summary: "Get this document",
  success: {
    schema: v.pipe(v.looseObject({ openapi: v.string() }), v.title("OpenApi")),
    description: "The document",
    headers: ["ETag"],
  },
  others: [{ status: 304, description: "`If-None-Match` names the tag", headers: ["ETag"] }],
  async run({ apiDocument }, { request }) {
    const body = apiDocument();
    const etag = tagOf(body);
    const isCurrent = isKnown(request.headers.get("if-none-match"), etag);
    // Programs may cache it, but must revalidate it at every use.
    const headers = { ETag: etag, "Cache-Control": "no-cache" };
    return isCurrent
      ? new Response(null, { status: 304, headers })
      : new Response(body, { headers: { ...headers, "Content-Type": "application/json" } });
  },
});
