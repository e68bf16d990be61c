/** What the OpenAPI document says of one operation: its form, and what many operations have in common. */
import type { LimitedEndpoint } from "../../endpoints.ts";
import type { Code } from "../../refusal.ts";
import type { HeaderName } from "./headers.ts";
import type { SchemaName } from "./schemas.ts";

export type Json = Readonly<Record<string, unknown>>;

/** An answer that is no refusal. */
export interface Success {
  readonly status: number;
  /** Of a body that is JSON. */
  readonly schema?: SchemaName;
  /** Of another body, as OpenAPI's `content`. */
  readonly content?: Json;
  readonly description: string;
  readonly example?: Json;
  /** Beyond those that every answer of the endpoint has. */
  readonly headers?: readonly HeaderName[];
}

export interface Operation {
  /** With its parameters in braces. */
  readonly path: string;
  readonly method: "get" | "head" | "post";
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly limit?: LimitedEndpoint;
  /** True where a signed address does instead of a key. */
  readonly isLink?: boolean;
  readonly request?: { readonly schema: SchemaName; readonly example: Json };
  /** Those of the path and of the query, but for the key. */
  readonly parameters?: readonly Json[];
  readonly successes: readonly Success[];
  /** What it may refuse with, beyond what every endpoint may. */
  readonly codes: readonly Code[];
}

export const WITH_KEY: readonly Code[] = [
  "MISSING_KEY",
  "INVALID_FORMAT",
  "INVALID_REQUEST",
  "RATE_LIMIT_EXCEEDED",
  "SERVICE_UNAVAILABLE",
];
export const WITH_GOOD_KEY: readonly Code[] = [...WITH_KEY, "INVALID_KEY", "KEY_EXPIRED"];
export const WITH_BODY: readonly Code[] = ["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"];

export function parameter(
  place: "path" | "query" | "header",
  name: string,
  description: string,
  example?: string,
): Json {
  const base = { name, in: place, required: false, description, schema: { type: "string" } };
  return example === undefined ? base : { ...base, example };
}
