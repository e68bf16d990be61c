/**
 * Describes the API as an OpenAPI document, from the table of routes and the schemas that check the requests.
 * `document_facts.ts` has the other facts of the document.
 */
import * as v from "valibot";
import { isRefusal } from "../../../base/refusal.ts";
import type { Brand } from "../../../licensing/mod.ts";
import {
  checkTag,
  type DescribedAnswer,
  type DescribedOperation,
  type Json,
  renderOpenApi,
  renderSchemas,
  tagOf,
  toPascalCase,
} from "../../../wire/mod.ts";
import type { AdminOptions } from "../options.ts";
import { CONDITIONS, codesOf, ERROR, HEADERS, HEALTH, IDEMPOTENCY_KEY, TAGS } from "./document_facts.ts";
import type { Fields } from "./parse_sent.ts";
import { bodyFor, type Operation, type Route, route } from "./route.ts";

/** The API's description of itself. */
export const getOpenApi = route("GET /openapi.json", "any", {
  id: "getOpenApi",
  summary: "Get this document",
  success: {
    schema: v.pipe(v.looseObject({ openapi: v.string() }), v.title("OpenApi")),
    description: "The document",
    headers: ["ETag"],
  },
  others: [{ status: 304, description: "`If-None-Match` names the tag", headers: ["ETag"] }],
  codes: ["PRECONDITION_FAILED"],
  async run({ apiDocument }, { request }) {
    const body = apiDocument();
    const etag = tagOf(body);
    const checked = checkTag(request.headers, etag);
    if (isRefusal(checked)) return checked;
    // Programs may cache it, but must revalidate it at every use.
    const headers = { ETag: etag, "Cache-Control": "no-cache" };
    return checked === "known"
      ? new Response(null, { status: 304, headers })
      : new Response(body, { headers: { ...headers, "Content-Type": "application/json" } });
  },
});

type DocumentOptions = Pick<AdminOptions, "brand" | "adminUrl"> & { readonly routes: readonly Route[] };

/** Returns the name of a schema in the document: its title (`v.title`), or the given name if it has none. */
type NameOf = (schema: v.GenericSchema, untitled: string) => string;

/** Renders the document. It holds no key and no token. */
export function renderDocument({ brand, adminUrl = "", routes }: DocumentOptions): string {
  const schemas: Record<string, v.GenericSchema> = { Error: ERROR };
  const nameOf: NameOf = (schema, untitled) => {
    const name = v.getTitle(schema) ?? untitled;
    schemas[name] ??= schema;
    if (schemas[name] !== schema) throw new Error(`Two schemas have the name ${name}`);
    return name;
  };
  const operations = routes.flatMap((route) => {
    const operation = toOperation(route, brand, nameOf);
    return route.method === "GET" ? [operation, toHead(operation)] : [operation];
  });
  return renderOpenApi(operations, {
    info: {
      title: "Operators' API of the licensing service",
      version: "v1",
      description:
        "Issues and changes keys, licenses, accounts and models, and reads usage and the audit log. If you do not know " +
        "the `code` of an error, use the status. A path that is not listed here gets 404 `NOT_FOUND`.",
    },
    servers: [{ url: `${adminUrl}/admin/v1` }],
    tags: TAGS,
    security: [{ Token: [] }],
    schemas,
    headers: HEADERS,
    conditions: CONDITIONS,
    uncounted: [401, 421],
    sharesRefusals: true,
    otherPaths: { "/health": { servers: [{ url: `${adminUrl}/admin` }], ...HEALTH } },
    securitySchemes: {
      Token: {
        type: "http",
        scheme: "bearer",
        bearerFormat: `${brand.name}_op_ and 48 hexadecimal digits`,
        description: "A token that the command `tokens issue` or the console made",
      },
    },
  });
}

/** Describes the operation of a route. A schema without a title gets the name of its operation. */
function toOperation(route: Route, brand: Brand, nameOf: NameOf): DescribedOperation {
  const { method, scope, operation } = route;
  const { id, summary, description, path, query, success, needsIdempotencyKey, headers = [] } = operation;
  const body = bodyFor(operation, brand);
  const request = body && {
    schema: nameOf(body, `${toPascalCase(id)}Request`),
    required: Object.values(body.entries).some((entry) => !isOptional(entry)),
  };
  for (const titled of success.schema ? titledSchemasIn(success.schema) : []) nameOf(titled, "");
  const needs = scope === "any" ? "Every token may call it." : `The token needs the scope \`${scope}\`.`;
  return {
    ...operation,
    path: route.path.replace(/:(\w+)/g, "{$1}"),
    method: method.toLowerCase() as DescribedOperation["method"],
    about: {
      summary,
      description: description === undefined ? needs : `${description} ${needs}`,
      tags: [groupOf(route)],
      "x-required-scope": scope === "any" ? undefined : scope,
    },
    parameters: [
      ...(path?.parameters ?? []),
      ...queryParameters(query),
      ...headers,
      ...(needsIdempotencyKey ? [IDEMPOTENCY_KEY] : []),
    ],
    request,
    isCounted: true,
    success: toSuccess(operation, nameOf),
    codes: codesOf(route),
  };
}

function toSuccess({ id, success: { schema, ...success } }: Operation, nameOf: NameOf): DescribedAnswer {
  return schema === undefined ? success : { ...success, schema: nameOf(schema, `${toPascalCase(id)}Answer`) };
}

/** Describes the HEAD request of an operation that reads. */
function toHead(get: DescribedOperation): DescribedOperation {
  return {
    ...get,
    method: "head",
    id: `head${toPascalCase(get.id)}`,
    about: { ...get.about, summary: `${get.about.summary}: the headers alone` },
    others: [{ status: "default", description: "The status and the headers of GET, without its body" }],
    codes: [],
  };
}

/** Returns the group of an operation: a name in `TAGS`. */
function groupOf({ path }: Route): string {
  const [, segment = ""] = path.split("/");
  return segment in TAGS ? segment : "service";
}

/** Yields the schemas with a title, at any depth. */
function* titledSchemasIn(schema: v.GenericSchema): Generator<v.GenericSchema> {
  if (v.getTitle(schema) !== undefined) yield schema;
  const { entries, item, wrapped, options } = schema as Partial<
    Record<"entries" | "item" | "wrapped" | "options", object>
  >;
  for (const inner of [item, wrapped, ...Object.values(entries ?? {}), ...Object.values(options ?? {})]) {
    if (typeof inner === "object" && "kind" in inner) yield* titledSchemasIn(inner as v.GenericSchema);
  }
}

/** Describes the parameters of the query, each with the type that its text stands for. */
function queryParameters(query: Fields | undefined): Json[] {
  if (query === undefined) return [];
  const schemas = Object.entries(renderSchemas(query.entries, "output"));
  return schemas.map(([name, { description, ...schema }]) => {
    const required = !isOptional(query.entries[name]);
    return { name, in: "query", required, description, schema };
  });
}

function isOptional(schema: v.GenericSchema | undefined): boolean {
  return ["optional", "nullish", "exact_optional"].includes(schema?.type ?? "");
}
