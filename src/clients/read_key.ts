import { isRefusal, refuse } from "../base/refusal.ts";
import { type JsonObject, readQuery } from "../wire/mod.ts";

/**
 * Returns the key from the header, the body or, for GET only, the query; undefined if there is no key. An empty
 * key counts as no key. The value of a body's field is returned unchanged; the caller checks its format.
 */
export function readKey(request: Request, body: JsonObject): unknown {
  const header = request.headers.get("x-api-key") || undefined;
  if (request.method !== "GET") return chooseKey(header, body.api_key);
  let key: unknown = header;
  for (const candidate of readQuery(request).getAll("api_key")) {
    key = chooseKey(key, candidate);
    if (isRefusal(key)) return key;
  }
  return key;
}

const DIFFERENT_KEYS = refuse("INVALID_REQUEST", "The request carries two different API keys");

/** Returns the key of two places. Both may carry a key if it is the same; otherwise the request is refused. */
function chooseKey(key: unknown, candidate: unknown): unknown {
  if (candidate === undefined || candidate === null || candidate === "") return key;
  if (key === undefined || key === candidate) return candidate;
  return typeof candidate === "string" ? DIFFERENT_KEYS : candidate;
}
