/**
 * What the OpenAPI document says of an operation: its purpose, its request, its answers and its codes. Each stands
 * beside the handler that carries it out; path, method and limit come from the table of routes.
 */
import type { ClientCode } from "../base/refusal.ts";
import type { DescribedOperation, Json } from "../wire/mod.ts";

export interface EndpointOperation
  extends Pick<DescribedOperation, "id" | "parameters" | "request" | "success" | "others">,
    Pick<DescribedOperation["about"], "summary" | "description"> {
  /** True if a signed address works in place of a key. */
  readonly isLink?: boolean;
  /** The codes of its refusals, besides those of every endpoint. */
  readonly codes: readonly ClientCode[];
}

/** The operations of a path, by their methods. */
export type Operations = { readonly [Method in "get" | "head" | "post"]?: EndpointOperation };

export const WITH_KEY: readonly ClientCode[] = [
  "MISSING_KEY",
  "INVALID_FORMAT",
  "INVALID_REQUEST",
  "RATE_LIMIT_EXCEEDED",
  "SERVICE_UNAVAILABLE",
];
export const WITH_GOOD_KEY: readonly ClientCode[] = [...WITH_KEY, "INVALID_KEY", "KEY_EXPIRED"];
export const WITH_BODY: readonly ClientCode[] = [
  "PAYLOAD_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "EXPECTATION_FAILED",
];

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

/** Returns an operation with GET, and the same with HEAD. */
export function withHead(get: EndpointOperation, description: string): Operations {
  const id = get.id.replace("get", "head");
  return { get, head: { ...get, id, success: { ...get.success, description } } };
}

/** What validate and refresh say of a license in examples. */
export const EXAMPLE_LICENSE = {
  license_type: "research",
  features: ["batch_inference", "streaming", "training", "calibration", "model_export"],
  quota: { monthly_limit: 50_000, used: 1_200, remaining: 48_800, resets_at: "2026-12-01T00:00:00Z" },
  expires_at: "2027-11-20T00:00:00Z",
};
