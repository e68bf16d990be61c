/** The OpenAPI document of the API: valid, complete, and made from the same schemas as the checks. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import * as v from "valibot";
import { renderDocument } from "../../src/admin/frame/api/document.ts";
import { CONDITIONS, codesOf } from "../../src/admin/frame/api/document_facts.ts";
import { PAGE_FIELDS } from "../../src/admin/frame/api/page.ts";
import { keyFor } from "../../src/admin/frame/api/path_ids.ts";
import { route } from "../../src/admin/frame/api/route.ts";
import { ROUTES } from "../../src/admin/things.ts";
import { inJsonSchema } from "../../src/base/rule.ts";
import { BRAND } from "../support/issue.ts";
import { lintDocument } from "../support/lint_document.ts";
import { useAdmin } from "../support/use.ts";

interface Refusals {
  readonly content?: Record<string, { readonly examples?: object }>;
}

const admin = useAdmin();
let text: string;
// biome-ignore lint/suspicious/noExplicitAny: a document has every shape.
let document: any;

beforeAll(async () => {
  const { body } = await admin.call("GET", "/openapi.json");
  document = body;
  text = JSON.stringify(body);
});

const render = (route: Parameters<typeof renderDocument>[0]["routes"][number]) =>
  JSON.parse(renderDocument({ brand: BRAND, adminUrl: undefined, routes: [route] }));

describe("GET /admin/v1/openapi.json", () => {
  test("answers every token, and 304 to the tag that it gave", async () => {
    const token = await admin.token({ scopes: ["status:read"] });
    const first = await admin.call("GET", "/openapi.json", { token });
    const etag = first.headers.get("etag") ?? "";
    expect({ status: first.status, etag }).toEqual({
      status: 200,
      etag: expect.stringMatching(/^"[\w-]{43}"$/),
    });
    expect(first.headers.get("cache-control")).toBe("no-cache");
    const again = await admin.call("GET", "/openapi.json", { token, headers: { "If-None-Match": etag } });
    expect({ status: again.status, body: again.body, etag: again.headers.get("etag") }).toEqual({
      status: 304,
      body: "",
      etag,
    });
    const other = await admin.call("GET", "/openapi.json", {
      token,
      headers: { "If-None-Match": '"other"' },
    });
    expect(other.body).toEqual(first.body);
    const refused = await admin.call("GET", "/openapi.json", { token, headers: { "If-Match": '"other"' } });
    expect([refused.status, refused.body.code]).toEqual([412, "PRECONDITION_FAILED"]);
  });

  test("needs a token", async () => {
    const { status } = await fetch(`${admin.url}/admin/v1/openapi.json`);
    expect(status).toBe(401);
  });
});

describe("The document", () => {
  test("is valid OpenAPI 3.1", async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(structuredClone(document));
    expect(errors).toBeUndefined();
    expect({ valid, version: validator.version }).toEqual({ valid: true, version: "3.1" });
  });

  test("meets the strict rules of Redocly", async () => {
    expect(await lintDocument(text)).toEqual([]);
  });

  test("has each route with its scope, its parameters and its codes", () => {
    const { "/health": health, ...paths } = document.paths;
    const written = Object.entries<object>(paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const served = ROUTES.flatMap(({ method, path }) =>
      (method === "GET" ? ["GET", "HEAD"] : [method]).map(
        (each) => `${each} ${path.replace(/:(\w+)/g, "{$1}")}`,
      ),
    );
    expect(written.toSorted()).toEqual(served.toSorted());
    expect(Object.keys(health)).toEqual(["servers", "get", "head"]);
    expect(health.servers).toEqual([{ url: "/admin" }]);
    expect(health.get.security).toEqual([]);
    for (const route of ROUTES) {
      const { method, path, scope } = route;
      const described = document.paths[path.replace(/:(\w+)/g, "{$1}")][method.toLowerCase()];
      expect(described["x-required-scope"]).toBe(scope === "any" ? undefined : scope);
      if (scope !== "any") expect(described.description).toContain(`\`${scope}\``);
      const names = (described.parameters ?? []).map((parameter: { name: string }) => parameter.name);
      const { query = { entries: {} }, headers = [], needsIdempotencyKey } = route.operation;
      expect(names).toEqual([
        ...[...path.matchAll(/:(\w+)/g)].map(([, name]) => name),
        ...Object.keys(query.entries),
        ...headers.map(({ name }) => name),
        ...(needsIdempotencyKey ? ["Idempotency-Key"] : []),
      ]);
      const codes = Object.values<Refusals & { $ref?: string }>(described.responses)
        .map((answer) => document.components.responses[answer.$ref?.split("/").at(-1) ?? ""] ?? answer)
        .flatMap(({ content }: Refusals) => Object.values(content ?? {}))
        .flatMap(({ examples }) => Object.keys(examples ?? {}));
      expect(new Set(codes)).toEqual(
        new Set(codesOf(route).map((code) => (code === "CLAIM_MISMATCH" ? "INVALID_REQUEST" : code))),
      );
    }
  });

  test("states when each code is answered", () => {
    for (const route of ROUTES) {
      const without = codesOf(route).filter((code) => CONDITIONS[code] === undefined);
      expect({ route: `${route.method} ${route.path}`, without }).toEqual({
        route: `${route.method} ${route.path}`,
        without: [],
      });
    }
  });

  test("has a different identifier for each operation, and a description for each tag and operation", () => {
    const operations = Object.values<object>(document.paths)
      .flatMap((path) => Object.values(path))
      .filter(({ operationId }) => operationId !== undefined);
    const identifiers = operations.map(({ operationId }) => operationId);
    const reads = ROUTES.filter(({ method }) => method === "GET");
    // Each GET has a HEAD, and there is the health.
    expect(new Set(identifiers).size).toBe(ROUTES.length + reads.length + 2);
    const tags = document.tags.map(({ name }: { name: string }) => name);
    for (const { tags: own, description, summary } of operations) {
      expect(tags).toContain(own[0]);
      expect(summary).toMatch(/^[A-Z].*[^.]$/);
      expect(description).toMatch(/\.$/);
    }
  });

  test("keeps the order of names, so that a stored document shows only real changes", () => {
    expect(Object.keys(document.paths["/keys"].post)).toEqual([
      "operationId",
      "summary",
      "description",
      "tags",
      "x-required-scope",
      "parameters",
      "requestBody",
      "responses",
    ]);
  });

  test("contains no key, no token, and no keyword that only the program knows", () => {
    expect(text).not.toMatch(/_(live|test|op)_[0-9a-f]{8}/i);
    expect(text).not.toContain('"jsonSchema"');
  });

  test("names the address of the listener, or only the path if none is set", () => {
    const serversOf = (adminUrl: string | undefined) =>
      JSON.parse(renderDocument({ brand: BRAND, adminUrl, routes: ROUTES })).servers;
    expect(serversOf("https://admin.example.org")).toEqual([{ url: "https://admin.example.org/admin/v1" }]);
    expect(serversOf(undefined)).toEqual([{ url: "/admin/v1" }]);
  });
});

describe("renderDocument()", () => {
  const pet = v.pipe(v.object({ name: v.string() }), v.title("Pet"));
  const pets = route("POST /keys/:id/pets", "keys:manage", {
    id: "listPets",
    summary: "List pets",
    path: keyFor("list pets"),
    query: v.strictObject({
      limit: PAGE_FIELDS.limit,
      size: v.optional(
        v.pipe(
          v.string(),
          v.regex(/^\d+$/),
          inJsonSchema({ type: "integer", description: "How large" }),
          v.transform(Number),
        ),
      ),
      since: v.optional(v.pipe(v.string(), v.description("A day"), v.isoTimestamp())),
      colour: v.picklist(["red", "blue"]),
    }),
    body: v.strictObject({ size: v.nullable(v.number()), note: v.optional(v.string(), "none") }),
    success: {
      status: 201,
      schema: v.object({ data: v.array(pet) }),
      description: "The pets",
      content: { "text/csv": { schema: { type: "string" } } },
    },
    codes: ["CONFLICT"],
    needsIdempotencyKey: true,
    run: () => Promise.resolve({}),
  });
  const rendered = render(pets).paths["/keys/{id}/pets"].post;

  test("gives parameters the type that their text stands for", () => {
    expect(rendered.parameters.slice(1)).toMatchObject([
      { name: "limit", required: false, schema: { type: "integer", minimum: 1, maximum: 100, default: 50 } },
      { name: "size", description: "How large", schema: { type: "integer" } },
      {
        name: "since",
        required: false,
        description: "A day",
        schema: { type: "string", format: "date-time" },
      },
      { name: "colour", required: true, schema: { enum: ["red", "blue"] } },
      { name: "Idempotency-Key", in: "header", required: true },
    ]);
    expect(rendered.parameters[2].schema).toEqual({ type: "integer" });
    expect(rendered.parameters[0]).toMatchObject({ name: "id", in: "path", required: true });
  });

  test("names schemas by their titles or their operations, and refers to them", () => {
    const { schemas } = render(pets).components;
    expect(Object.keys(schemas)).toEqual(["Error", "ListPetsRequest", "Pet", "ListPetsAnswer"]);
    expect(schemas.ListPetsAnswer.properties.data.items).toEqual({ $ref: "#/components/schemas/Pet" });
    expect(schemas.ListPetsRequest).toMatchObject({ additionalProperties: false, required: ["size"] });
    expect(schemas.ListPetsRequest.properties.note).toEqual({
      type: "string",
      description: "By default none",
    });
    expect(rendered.requestBody.required).toBe(true);
    expect(Object.keys(rendered.responses["201"].content)).toEqual(["application/json", "text/csv"]);
  });

  test("lists a refusal with its status, its headers and its condition", () => {
    expect(Object.keys(rendered.responses)).toEqual([
      "201",
      "400",
      "401",
      "403",
      "404",
      "405",
      "409",
      "413",
      "415",
      "417",
      "421",
      "422",
      "429",
      "500",
      "503",
    ]);
    const { responses } = render(pets).components;
    expect(rendered.responses["429"].$ref).toBe("#/components/responses/RateLimitExceeded");
    expect(rendered.responses["403"].$ref).toBe("#/components/responses/NotAllowedOrScopeRequired");
    expect(responses.RateLimitExceeded.headers).toHaveProperty("Retry-After");
    expect(responses.InvalidToken.headers).not.toHaveProperty("X-RateLimit-Limit");
    expect(responses.ClaimMismatch.content["application/json"].examples).toHaveProperty("INVALID_REQUEST");
  });

  test("refuses two schemas with one name", () => {
    const another = v.pipe(v.object({ age: v.number() }), v.title("Pet"));
    const success = { ...pets.operation.success, schema: v.object({ pet, another }) };
    const operation = { ...pets.operation, success };
    expect(() => render({ ...pets, operation })).toThrow("Two schemas have the name Pet");
  });
});
