/** The type of an operation in the OpenAPI document, and the values that several operations share. */
import type { LimitedEndpoint } from "../../endpoints.ts";
import type { ClientCode } from "../../refusal.ts";
import type { Json } from "../../wire/mod.ts";
import type { HeaderName } from "./headers.ts";
import type { SchemaName } from "./schemas.ts";

/** An answer that is not a refusal. */
export interface EndpointSuccess {
  /** 200 by default. */
  readonly status?: number;
  /** The schema of a JSON body. */
  readonly schema?: SchemaName;
  /** OpenAPI's `content` for a body that is not JSON. */
  readonly content?: Json;
  readonly description: string;
  readonly example?: Json;
  /** The headers besides those that every answer of the endpoint has. */
  readonly headers?: readonly HeaderName[];
}

export interface EndpointOperation {
  /** The path, with its parameters in braces. */
  readonly path: string;
  readonly method: "get" | "head" | "post";
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly limit?: LimitedEndpoint;
  /** True if a signed address works in place of a key. */
  readonly isLink?: boolean;
  readonly request?: { readonly schema: SchemaName; readonly example: Json };
  /** All parameters except the key. */
  readonly parameters?: readonly Json[];
  readonly success: EndpointSuccess;
  /** The other answers that are not refusals. */
  readonly others?: readonly EndpointSuccess[];
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
