/**
 * Renders the API as an OpenAPI 3.1 document, from the table of routes and the schemas that check the requests.
 * `document_facts.ts` has the other facts of the document.
 */
import * as v from "valibot";
import type { Brand } from "../../../brand.ts";
import type { Code } from "../../../refusal.ts";
import {
  type Json,
  refTo,
  renderAnswer,
  renderRefusals,
  renderSchemas,
  statusOf,
  WINDOW_HEADERS,
} from "../../../wire/mod.ts";
import {
  CONDITIONS,
  codesOf,
  ERROR,
  HEADERS,
  HEALTH,
  IDEMPOTENCY_KEY,
  PATH_PARAMETERS,
  TAGS,
  UNCOUNTED,
} from "./document_facts.ts";
import type { Operation } from "./operation.ts";
import type { Route } from "./route.ts";

export interface DocumentOptions {
  readonly brand: Brand;
  /** The address under which operators reach the listener, without a slash at its end; undefined if it is not set. */
  readonly adminUrl: string | undefined;
  readonly routes: readonly Route[];
}

/** A route with the schema of its body for one brand. */
interface BrandedRoute extends Route {
  readonly body: ReturnType<Operation["bodyFor"]>;
}

/** Renders the document. It holds no key and no token. */
export function renderDocument({ brand, adminUrl, ...options }: DocumentOptions): string {
  // Once for each route, because the schemas get their names by identity.
  const routes = options.routes.map((route) => ({ ...route, body: route.operation.bodyFor(brand) }));
  const names = nameSchemas(routes);
  const codesOfRoutes = routes.flatMap((route) => refusalsOf(route).map(([, codes]) => codes));
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    const rendered = renderOperation(route, names);
    const head = route.method === "GET" && { head: toHead(rendered, route.operation) };
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: rendered, ...head };
  }
  paths["/health"] = { servers: [{ url: `${adminUrl ?? ""}/admin` }], ...HEALTH };
  return JSON.stringify({
    openapi: "3.1.1",
    info: {
      title: "Operators' API of the licensing service",
      version: "v1",
      description:
        "Issues and changes keys, licenses, accounts and models, and reads usage and the audit log. If you do not know " +
        "the `code` of an error, use the status. A path that is not listed here gets 404 `NOT_FOUND`.",
    },
    servers: [{ url: `${adminUrl ?? ""}/admin/v1` }],
    tags: Object.entries(TAGS)
      .filter(([name]) => routes.some((route) => tagOf(route) === name))
      .map(([name, description]) => ({ name, description })),
    security: [{ Token: [] }],
    paths,
    components: {
      schemas: renderNamed(names),
      headers: HEADERS,
      responses: Object.fromEntries(codesOfRoutes.map((codes) => [nameOf(codes), renderCodes(codes)])),
      securitySchemes: {
        Token: {
          type: "http",
          scheme: "bearer",
          bearerFormat: `${brand.name}_op_ and 48 hexadecimal digits`,
          description: "A token that the command `tokens issue` made",
        },
      },
    },
  });
}

/**
 * Gives schemas their names in the document: a title (`v.title`) if they have one, otherwise the name of the first
 * operation that sends or answers them.
 */
function nameSchemas(routes: readonly BrandedRoute[]): Map<v.GenericSchema, string> {
  const names = new Map<v.GenericSchema, string>([[ERROR, "Error"]]);
  const add = (schema: v.GenericSchema, name: string) => {
    if (names.has(schema)) return;
    if (names.values().some((other) => other === name)) throw new Error(`Two schemas have the name ${name}`);
    names.set(schema, name);
  };
  for (const { operation, body } of routes) {
    const { id, success } = operation;
    const base = toPascalCase(id);
    if (body !== undefined) add(body, v.getTitle(body) ?? `${base}Request`);
    for (const schema of titledSchemasIn(success.schema)) add(schema, v.getTitle(schema) ?? "");
    add(success.schema, `${base}Answer`);
  }
  return names;
}

function renderNamed(names: ReadonlyMap<v.GenericSchema, string>): Json {
  const rendered = renderSchemas(Object.fromEntries([...names].map(([schema, name]) => [name, schema])));
  return Object.fromEntries(
    Object.entries(rendered).map(([name, schema]) => [name, withoutDefaults(schema)]),
  );
}

/** Moves the defaults of fields into their descriptions: generated clients would require a field with a default. */
function withoutDefaults(schema: Json): Json {
  if (schema.properties === undefined) return schema;
  const fields = Object.entries(schema.properties as Record<string, Json>).map(([name, field]) => {
    const { default: preset, description, ...rest } = field;
    if (preset === undefined) return [name, field];
    const sentence = `${description === undefined ? "B" : `${description}; b`}y default ${preset}`;
    return [name, { ...rest, description: sentence }];
  });
  return { ...schema, properties: Object.fromEntries(fields) };
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

function renderOperation(route: BrandedRoute, names: ReadonlyMap<v.GenericSchema, string>): Json {
  const { scope, operation, body } = route;
  const { id, summary, description, success, needsIdempotencyKey } = operation;
  const refToSchema = (schema: v.GenericSchema) => refTo("schemas", names.get(schema) ?? "");
  const needs = scope === "any" ? "Every token may call it." : `The token needs the scope \`${scope}\`.`;

  const parameters = [
    ...pathParameters(route),
    ...queryParameters(operation),
    ...(needsIdempotencyKey ? [IDEMPOTENCY_KEY] : []),
  ];
  const content: Record<string, Json> = { "application/json": { schema: refToSchema(success.schema) } };
  for (const type of success.otherTypes ?? []) content[type] = { schema: { type: "string" } };
  const headers = success.hasTag ? [...WINDOW_HEADERS, "ETag"] : WINDOW_HEADERS;
  const responses: Record<string, Json> = {
    [success.status ?? 200]: renderAnswer({ description: success.description, headers, content }),
  };
  if (success.hasTag)
    responses[304] = renderAnswer({ description: "`If-None-Match` names the tag", headers });
  for (const [status, codes] of refusalsOf(route)) {
    responses[status] = refTo("responses", nameOf(codes));
  }
  return {
    operationId: id,
    summary,
    description: [description, needs].filter((sentence) => sentence !== undefined).join(" "),
    tags: [tagOf(route)],
    ...(scope !== "any" && { "x-required-scope": scope }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: {
        required: Object.values(body.entries).some((entry) => !isOptional(entry)),
        content: { "application/json": { schema: refToSchema(body) } },
      },
    }),
    responses,
  };
}

/** Renders the HEAD request of an operation that reads. */
function toHead(rendered: Json, { id, summary, success }: Operation): Json {
  const { headers } = (rendered.responses as Record<string, Json>)[200] ?? {};
  return {
    ...rendered,
    operationId: `head${toPascalCase(id)}`,
    summary: `${summary}: the headers alone`,
    responses: {
      200: { description: success.description, headers },
      default: { description: "The status and the headers of GET, without its body" },
    },
  };
}

/** Returns the codes that an operation may answer, by their statuses. */
function refusalsOf(route: Route): [status: number, codes: Code[]][] {
  return [...Map.groupBy(codesOf(route), statusOf)];
}

/** Renders the refusals with these codes, which have one status. */
function renderCodes(codes: readonly Code[]): Json {
  const status = statusOf(codes[0] ?? "SERVER_ERROR");
  const counted = UNCOUNTED.includes(status) ? [] : WINDOW_HEADERS;
  const headers = status === 401 ? ["WWW-Authenticate"] : counted;
  return renderRefusals(codes, { headers, conditions: CONDITIONS });
}

/** Returns the name of the answer with these codes, such as `NotAllowedOrScopeRequired`. */
function nameOf(codes: readonly Code[]): string {
  return codes.map((code) => toPascalCase(code.toLowerCase())).join("Or");
}

function toPascalCase(text: string): string {
  return text.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
}

function tagOf({ path }: Route): string {
  const [, segment = ""] = path.split("/");
  return segment in TAGS ? segment : "service";
}

function pathParameters({ path }: Route): Json[] {
  return [...path.matchAll(/:(\w+)/g)].map(({ 0: { length }, 1: name, index }) => {
    const described = PATH_PARAMETERS[path.slice(0, index + length)];
    if (described === undefined) throw new Error(`Cannot render ${path}: ${name} is not described`);
    return { name, in: "path", required: true, ...described };
  });
}

/** Returns the parameters of the query, each with the type that its text stands for. */
function queryParameters({ query }: Operation): Json[] {
  if (query === undefined) return [];
  return Object.entries(query.entries).map(([name, entry]) => {
    const { sent, meant } = {
      ...renderSchemas({ sent: entry }),
      ...renderSchemas({ meant: entry }, "output"),
    };
    const { description = sent?.description, default: preset, ...schema } = meant ?? {};
    return {
      name,
      in: "query",
      required: !isOptional(entry),
      ...(description !== undefined && { description }),
      schema: {
        ...schema,
        ...(preset !== undefined && { default: schema.type === "integer" ? Number(preset) : preset }),
      },
    };
  });
}

function isOptional({ type }: v.GenericSchema): boolean {
  return type === "optional" || type === "nullish" || type === "exact_optional";
}
