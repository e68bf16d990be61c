/** The type of an operation of clients, and the values that several operations share. */

import type { ClientCode } from "../../base/refusal.ts";
import type { DescribedOperation, Json, LimitedEndpoint } from "../../wire/mod.ts";

/** An operation without what `document.ts` adds to each. */
export interface EndpointOperation
  extends Omit<DescribedOperation, "about" | "isCounted">,
    Pick<DescribedOperation["about"], "summary" | "description"> {
  readonly limit?: LimitedEndpoint;
  /** True if a signed address works in place of a key. */
  readonly isLink?: boolean;
  /** The codes of its refusals, besides those of every endpoint. */
  readonly codes: readonly ClientCode[];
}

export const WITH_KEY: readonly ClientCode[] = [
  "MISSING_KEY",
  "INVALID_FORMAT",
  "INVALID_REQUEST",
  "RATE_LIMIT_EXCEEDED",
  "SERVICE_UNAVAILABLE",
];
export const WITH_GOOD_KEY: readonly ClientCode[] = [...WITH_KEY, "INVALID_KEY", "KEY_EXPIRED"];
export const WITH_BODY: readonly ClientCode[] = ["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"];

/** Returns the body of a request, by the name of its schema. */
export function jsonBody(schema: string, example: Json) {
  const description =
    "The content type is ignored. Unknown fields are ignored. With the key in a header the body may be {}.";
  return { schema, example, description, required: true };
}

/**
 * Returns parameters that are texts, from their descriptions by name; an example may follow the description. They are
 * optional unless they are parts of the path.
 */
export function parameters(
  place: "path" | "query" | "header",
  described: Readonly<Record<string, string | readonly [description: string, example: string]>>,
): Json[] {
  return Object.entries(described).map(([name, text]) => {
    const [description, example] = typeof text === "string" ? [text] : text;
    const base = { name, in: place, required: place === "path", description, schema: { type: "string" } };
    return example === undefined ? base : { ...base, example };
  });
}
