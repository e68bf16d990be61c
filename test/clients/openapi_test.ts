/** The OpenAPI document is valid and complete, and the service's real answers match it. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { systemClock } from "../../src/base/clock.ts";
import { parseId } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { createApp } from "../../src/clients/app.ts";
import type { AppOptions } from "../../src/clients/app_options.ts";
import { createRequestMetrics } from "../../src/clients/metrics/request_metrics.ts";
import { createBrand } from "../../src/licensing/mod.ts";
import { compileSchema, type JsonSchema } from "../hostile_input/json_schema.ts";
import { expectRefusal } from "../support/answers.ts";
import { type PathRule, problemOf, readPaths } from "../support/api_document.ts";
import { ALL, call, ENDPOINTS, type Endpoint, WITH_BODY } from "../support/endpoints.ts";
import { whileDatabaseFails, whileRegistryIsBroken } from "../support/failing_database.ts";
import { setToken } from "../support/installer.ts";
import { issueIn, issueUsedUp, UNKNOWN_KEY } from "../support/keys.ts";
import { lintDocument } from "../support/lint_document.ts";
import { issuePlaces, setEnd } from "../support/machines.ts";
import { addTestModel } from "../support/models.ts";
import { type JsonResponse, limitsOf } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

// biome-ignore lint/suspicious/noExplicitAny: a document has every shape.
type Document = any;

/** Higher than any test needs. */
const LIMITS = limitsOf(1_000);
const brand = createBrand();

const service = useTestService({ config: { limits: LIMITS } });
/** A service whose windows are full after one request. */
const narrow = useTestService({ config: { limits: limitsOf(1) } });
let text: string;
let document: Document;
let rules: readonly PathRule[];

beforeAll(async () => {
  const response = await fetch(`${service.url}/openapi.json`);
  text = await response.text();
  document = JSON.parse(text);
  rules = readPaths(document);
});

/** Creates the app of a service with other settings. It can answer what needs neither a key nor the database. */
function appWith(options: Partial<AppOptions>) {
  const parts = { brand, requestMetrics: createRequestMetrics(), log: silentLog };
  const all = { ...service.config, ...parts, clock: systemClock, isStopping: () => false, ...options };
  return createApp(all as unknown as AppOptions);
}

async function documentWith(options: Partial<AppOptions>): Promise<Document> {
  return await (await appWith(options).request("/openapi.json", {}, { address: () => "127.0.0.1" })).json();
}

/** Yields every object in a value, at any depth. */
function* objectsIn(value: unknown): Generator<Document> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield value;
  for (const inner of Object.values(value)) yield* objectsIn(inner);
}

/** Expects that a body is as one of the document's schemas says. */
function expectForm(body: unknown, schema: JsonSchema): void {
  expect({ body, problem: compileSchema(schema, document.components)(body) }).toEqual({
    body,
    problem: undefined,
  });
}

/** Expects that an answer's status, body and headers are documented, and that no required header is missing. */
function expectDocumented(answer: JsonResponse, method: string, path: string): void {
  const rule = rules
    .find(({ pattern }) => pattern.test(path))
    ?.operations.get(method)
    ?.get(answer.status);
  const { status, body } = answer;
  expect({ method, path, status, body, problem: problemOf(rule, answer) }).toMatchObject({
    problem: undefined,
  });
  // Only a limit that is switched off has no headers, and this service has all limits.
  for (const { name } of rule?.headers ?? []) {
    if (name.startsWith("x-ratelimit-")) expect([name, answer.headers.has(name)]).toEqual([name, true]);
  }
}

describe("GET /openapi.json", () => {
  const get = (init: RequestInit = {}) => fetch(`${service.url}/openapi.json`, init);

  test("needs no key and has no limit", async () => {
    const answers = await Promise.all(Array.from({ length: 1_100 }, () => get()));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    const names = [...(answers[0]?.headers.keys() ?? [])];
    expect(names.filter((name) => name.startsWith("x-ratelimit"))).toEqual([]);
    expect(answers[0]?.headers.get("content-type")).toBe("application/json");
    for (const answer of answers) await answer.text();
  });

  test("has an ETag, and answers 304 to If-None-Match with that tag", async () => {
    const first = await get();
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[\w-]{43}"$/);
    expect(first.headers.get("cache-control")).toBe("no-cache");
    for (const condition of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      for (const method of ["GET", "HEAD"]) {
        const again = await get({ method, headers: { "If-None-Match": condition } });
        expect([again.status, await again.text()]).toEqual([304, ""]);
        expect(again.headers.get("etag")).toBe(etag);
        expect(again.headers.get("x-request-id")).toStartWith("req_");
      }
    }
    for (const condition of ['"other"', etag.slice(1, -1), `W/"x${etag}`]) {
      const again = await get({ headers: { "If-None-Match": condition } });
      expect(again.status).toBe(200);
      expect(await again.text()).toBe(text);
    }
  });

  test("answers 412 to If-Match with another tag", async () => {
    const etag = (await get()).headers.get("etag") ?? "";
    expect((await get({ headers: { "If-Match": etag } })).status).toBe(200);
    const refused = await get({ headers: { "If-Match": '"other"', "If-None-Match": etag } });
    expect([refused.status, await refused.json()]).toMatchObject([412, { code: "PRECONDITION_FAILED" }]);
  });

  test("HEAD has the headers of GET and no body", async () => {
    const [whole, head] = [await get(), await get({ method: "HEAD" })];
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(String(Buffer.byteLength(text)));
    expect(head.headers.get("etag")).toBe(whole.headers.get("etag"));
  });

  for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
    test(`${method} answers METHOD_NOT_ALLOWED`, async () => {
      const answer = await service.send("/openapi.json", { method });
      expectRefusal(answer, 405, "METHOD_NOT_ALLOWED");
      expect(answer.headers.get("allow")).toBe("GET, HEAD");
    });
  }
});

describe("The document", () => {
  test("is valid OpenAPI 3.1", async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(JSON.parse(text));
    expect(errors).toBeUndefined();
    expect({ valid, version: validator.version }).toEqual({ valid: true, version: "3.1" });
  });

  test("meets the strict rules of Redocly", async () => {
    expect(await lintDocument(text)).toEqual([]);
  });

  test("has every path of the service, with every method", async () => {
    const { routes } = appWith({});
    const paths = [...new Set(routes.map((route) => route.path.replace(/:(\w+)/g, "{$1}")))];
    expect(Object.keys(document.paths).toSorted()).toEqual(paths.toSorted());
    for (const [path, operations] of Object.entries<object>(document.paths))
      for (const method of ["get", "head", "post", "put", "patch", "delete", "options"]) {
        const { status } = await service.send(path, { method: method.toUpperCase() });
        expect({ path, method, isKnown: status !== 405 }).toEqual({
          path,
          method,
          isKnown: method in operations,
        });
      }
  });

  test("keeps the order of names, so that a stored document shows only real changes", () => {
    expect(Object.keys(document.paths["/v1/analytics/log"].post)).toEqual([
      "operationId",
      "summary",
      "tags",
      "description",
      "security",
      "parameters",
      "requestBody",
      "responses",
    ]);
  });

  test("contains no key", () => {
    expect(text).not.toMatch(/_(live|test)_[0-9a-f]{8}/i);
  });

  test("has examples that match its schemas", () => {
    let seen = 0;
    for (const content of objectsIn(document.paths)) {
      const { schema, example, examples = {} } = content["application/json"] ?? {};
      const values = Object.values<Document>(examples).map(({ value }) => value);
      for (const value of example === undefined ? values : [...values, example]) {
        seen++;
        expectForm(value, schema);
      }
    }
    expect(seen).toBeGreaterThan(60);
  });

  test("names the public URL with its prefix, or / if no public URL is set", async () => {
    const serversOf = async (publicUrl: string | undefined) => (await documentWith({ publicUrl })).servers;
    expect(await serversOf("https://licenses.example.org/prefix")).toEqual([
      { url: "https://licenses.example.org/prefix" },
    ]);
    expect(await serversOf(undefined)).toEqual([{ url: "/" }]);
  });

  test("has the properties that generators and linters require", () => {
    const names = new Set<string>();
    for (const schema of objectsIn(document.components))
      for (const name of Object.keys(schema)) names.add(name);
    expect(names).not.toContain("jsonSchema");
    const { EventRequest, Model, Validation, Error: Failure } = document.components.schemas ?? {};
    expect(EventRequest.properties.metadata.anyOf[0].additionalProperties).toBe(true);
    expect(Model.properties.metadata.additionalProperties).toEqual({});
    for (const { anyOf } of [Validation.properties.features.items, Failure.properties.code]) {
      expect(anyOf).toEqual([{ type: "string", enum: expect.any(Array) }, { type: "string" }]);
    }
    const { tags } = JSON.parse(text) as { tags: { name: string }[] };
    for (const operation of Object.values<Document>(document.paths).flatMap<Document>(Object.values)) {
      if (operation.requestBody !== undefined) {
        expect(operation.requestBody.required).toBe(true);
        expect(operation.requestBody.content["application/json"]).toHaveProperty("example");
      }
      expect(operation.description).toMatch(/./);
      expect(tags.map(({ name }) => name)).toContain(operation.tags[0]);
      for (const { content } of Object.values<Document>(operation.responses)) {
        for (const { schema } of Object.values<Document>(content ?? {}))
          expect(Object.keys(schema)).not.toEqual([]);
      }
    }
  });

  test("has the brand's words and the configured limits", async () => {
    const acme = createBrand("acme", { installerHost: "forge" });
    const other = await documentWith({ brand: acme, limits: { ...LIMITS, models: 0, downloads: 0 } });
    expect(other.paths["/v1/installer/forge-token"]).toHaveProperty("get");
    expect(other.components.schemas?.RepositoryToken.required).toContain("forge_token");
    expect(other.components.schemas?.KeyRequest.properties.api_key.pattern).toStartWith("^acme_(live|test)_");
    expect(other.components.schemas?.Model.properties.type.examples).toEqual(acme.modelTypes);
    expect(JSON.stringify(other)).not.toMatch(/svc|Svc|repo-token|repo_token/);
    expect(JSON.stringify(other.paths["/v1/models/list"])).not.toContain("requests a minute");
    expect(JSON.stringify(document.paths["/v1/analytics/log"])).toContain("At most 1000 requests a minute.");
    expect(JSON.stringify(document.paths["/v1/machines/activate"])).toContain(
      "At most 1000 requests a minute, and at least as many as the license has places, up to 5000.",
    );
  });

  test("lists Content-Range with the ranges of a file and with a range beyond its end", () => {
    const { responses } = document.paths["/v1/models/download/{name}/{version}"]?.get ?? { responses: {} };
    const statuses = Object.keys(responses).filter((status) => responses[status]?.headers["Content-Range"]);
    expect(statuses).toEqual(["206", "416"]);
  });

  test("has the same answers and headers if a limit is switched off", async () => {
    const withoutLimits = await documentWith({ limits: { ...LIMITS, models: 0, downloads: 0 } });
    for (const path of ["/v1/models/list", "/v1/models/download/{name}/{version}"]) {
      const { responses } = withoutLimits.paths[path]?.get ?? { responses: {} };
      expect(responses).toEqual(document.paths[path]?.get?.responses ?? {});
      expect(Object.keys(responses)).toContain("429");
    }
    const { headers } = withoutLimits.components;
    expect(headers?.["X-RateLimit-Limit"].required).toBe(false);
  });
});

describe("The checks of an event match the document:", () => {
  const fieldOf = (name: string) => document.components.schemas?.EventRequest.properties[name];
  const log = async (fields: object) => {
    const { apiKey } = await service.issue();
    for (;;) {
      const { status } = await call(service, ENDPOINTS.analyticsLog, apiKey, { fields });
      // On a busy machine the pulse is late.
      if (status !== 503) return status;
      await Bun.sleep(50);
    }
  };

  test("texts may have the documented number of characters and no more", async () => {
    for (const name of ["model_name", "error_message"]) {
      const [{ maxLength }] = fieldOf(name).anyOf;
      expect(maxLength).toBeGreaterThan(0);
      expect(await log({ [name]: "😀".repeat(maxLength) })).toBe(202);
      expect(await log({ [name]: "a".repeat(maxLength + 1) })).toBe(400);
    }
  });

  test("each documented value is accepted", async () => {
    for (const value of fieldOf("event_type").enum) expect(await log({ event_type: value })).toBe(202);
    for (const value of fieldOf("inference_type").anyOf[0].enum) {
      expect(await log({ inference_type: value })).toBe(202);
    }
    expect(fieldOf("duration_ms").anyOf[0]).toEqual({ type: "number", minimum: 0 });
    expect(fieldOf("metadata").anyOf[0]).toMatchObject({ type: "object" });
    expect(document.components.schemas?.EventRequest.required).toEqual(["event_type"]);
  });
});

describe("The answers match the document:", () => {
  const check = (answer: JsonResponse, { method, path }: Endpoint) => expectDocumented(answer, method, path);

  test("POST /v1/machines/release answers by fingerprint, by id, and after the last release that is allowed", async () => {
    for (const seatMinutes of [null, 30]) {
      const { post, licenseUuid } = await issuePlaces(service, { maxMachines: 3, seatMinutes });
      const answer = async (fields: object) => {
        const answered = await post("release", fields);
        expectDocumented(answered, "POST", "/v1/machines/release");
        return answered;
      };
      const ids: string[] = [];
      for (const fingerprint of ["machine-1", "machine-2", "machine-3"])
        ids.push((await post("activate", { fingerprint, name: fingerprint })).body.machine_id);
      await setEnd(service.database, parseId("mch", ids[0] ?? "") ?? "", { signed_until: 10 });
      await service.database.query(
        (sql) => sql`update licenses set self_releases = 1 where id = ${licenseUuid}::uuid`,
      );
      expect((await answer({ machine_id: ids[0] })).body.state).toBe("offline");
      expect((await answer({ machine_id: ids[0] })).status).toBe(404);
      expect((await answer({ machine_id: ids[1] })).status).toBe(409);
      expectDocumented(await post("list", {}), "POST", "/v1/machines/list");
      expect((await answer({ fingerprint: "machine-2" })).status).toBe(200);
      expect((await answer({})).status).toBe(400);
    }
    const { post } = await issuePlaces(service, {});
    for (const fields of [{ machine_id: `mch_${"0".repeat(32)}` }, { fingerprint: "machine-1" }])
      expectDocumented(await post("release", fields), "POST", "/v1/machines/release");
  });

  beforeAll(async () => {
    await addTestModel(service, { name: "first", metadata: { accuracy: 0.9 } });
  });

  for (const endpoint of ALL) {
    test(`${endpoint.title} answers a key in each state`, async () => {
      for (const tier of ["free", "enterprise"] as const) {
        check(await call(service, endpoint, (await service.issue({ tier })).apiKey), endpoint);
      }
      for (const state of ["expired", "suspended", "revoked"] as const) {
        check(await call(service, endpoint, (await issueIn(service, state)).apiKey), endpoint);
      }
      for (const key of [undefined, "malformed", UNKNOWN_KEY]) {
        check(await call(service, endpoint, key), endpoint);
      }
      check(await call(service, endpoint, (await issueUsedUp(service)).apiKey), endpoint);
      const { apiKey } = await service.issue();
      check(await call(service, endpoint, apiKey, { headers: { "X-API-Key": UNKNOWN_KEY } }), endpoint);
    });

    test(`${endpoint.title} answers over its limit, and without the database`, async () => {
      const { apiKey } = await narrow.issue();
      for (let i = 0; i < 3; i++) {
        check(await call(narrow, endpoint, apiKey), endpoint);
        check(await call(narrow, endpoint, UNKNOWN_KEY), endpoint);
      }
      await whileDatabaseFails(service, async () => check(await call(service, endpoint, apiKey), endpoint));
    });

    test(`${endpoint.title} answers another method`, async () => {
      check(await service.send(endpoint.path, { method: "DELETE" }), endpoint);
    });
  }

  for (const endpoint of WITH_BODY) {
    test(`${endpoint.title} answers a body that cannot be read`, async () => {
      for (const body of ["x".repeat(70_000), "{", "[]"]) {
        check(await service.post(endpoint.path, body), endpoint);
      }
      check(await service.post(endpoint.path, "", { "Content-Encoding": "gzip" }), endpoint);
    });
  }

  test("GET and HEAD of a download answer for a model without a file", async () => {
    const path = "/v1/models/download/{name}/{version}";
    const address = "/v1/models/download/first/9.9.9";
    const { apiKey } = await service.issue();
    const keys = [undefined, "malformed", UNKNOWN_KEY, (await issueIn(service, "expired")).apiKey, apiKey];
    for (const key of keys) {
      for (const method of ["GET", "HEAD"]) {
        const answer = await service.send(address, { method, headers: key ? { "X-API-Key": key } : {} });
        expectDocumented(answer, method, path);
      }
    }
    expectDocumented(await service.get(`${address}?key=x&expires=1`), "GET", path);
  });

  test("POST /v1/analytics/log answers an event without a type", async () => {
    const { apiKey } = await service.issue();
    const answer = await call(service, ENDPOINTS.analyticsLog, apiKey, { fields: { event_type: null } });
    expectRefusal(answer, 400, "MISSING_EVENT_TYPE");
    check(answer, ENDPOINTS.analyticsLog);
  });

  test("GET /v1/installer/repo-token answers with a token that expires and one that does not", async () => {
    const { apiKey } = await service.issue();
    for (const expiresAt of [null, new Date(service.clock.now().getTime() + 60_000)]) {
      await setToken(service, expiresAt);
      const answer = await call(service, ENDPOINTS.getRepoToken, apiKey);
      expect(answer.status).toBe(200);
      check(answer, ENDPOINTS.getRepoToken);
    }
  });

  test("GET /v1/models/list answers an unexpected error", async () => {
    const { apiKey } = await service.issue();
    await whileRegistryIsBroken(service, async () => {
      const answer = await call(service, ENDPOINTS.modelsList, apiKey);
      expect(answer.status).toBe(500);
      check(answer, ENDPOINTS.modelsList);
    });
  });

  test("GET and HEAD of the health check and of the document answer", async () => {
    const methods = ["GET", "HEAD"] as const;
    for (const path of ["/api/health", "/openapi.json"]) {
      for (const method of methods) expectDocumented(await service.send(path, { method }), method, path);
    }
    await whileDatabaseFails(service, async () => {
      for (const method of methods) {
        const answer = await service.send("/api/health", { method });
        expect(answer.status).toBe(503);
        expectDocumented(answer, method, "/api/health");
      }
    });
  });

  test("an unknown path answers NOT_FOUND", async () => {
    const { status, headers, body } = await service.get("/v1/nothing");
    expect({ status, code: body.code, request: headers.get("x-request-id")?.slice(0, 4) }).toEqual({
      status: 404,
      code: "NOT_FOUND",
      request: "req_",
    });
    expect(text).toContain("A path that is not listed here gets 404 `NOT_FOUND`.");
    expectForm(body, { $ref: "#/components/schemas/Error" });
  });
});
