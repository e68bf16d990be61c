/** Tests the features that developers build on: the OpenAPI document, and events that may be sent twice. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { ENDPOINTS } from "../support/endpoints.ts";
import { type Installed, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

describe.skipIf(!isBuilt)("the executable's interface", () => {
  let installed: Installed;

  beforeAll(async () => {
    installed = install();
    await installed.start();
  });
  afterAll(() => installed.remove());

  test("serves an OpenAPI 3.1 document that a linter accepts, with every endpoint and its codes", async () => {
    const { status, headers, body } = await installed.get("/openapi.json");
    expect([status, headers.get("content-type")]).toEqual([200, expect.stringContaining("application/json")]);
    expect(body.openapi).toStartWith("3.1.");
    const { valid, errors } = await new Validator().validate(structuredClone(body));
    expect({ valid, errors: errors ?? [] }).toEqual({ valid: true, errors: [] });
    for (const { path, method } of Object.values(ENDPOINTS)) {
      const { responses } = body.paths[path][method.toLowerCase()];
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(["400", "429", "500", "503"]));
    }
    for (const path of ["/api/health", "/v1/models/download/{name}/{version}"]) {
      expect(body.paths[path].get).toBeDefined();
    }
  });

  const log = (apiKey: string, claim: string, fields: object = {}) =>
    installed.post(
      "/v1/analytics/log",
      { api_key: apiKey, event_type: "inference", ...fields },
      { "Idempotency-Key": claim },
    );

  test("stores one event for two simultaneous requests with one Idempotency-Key", async () => {
    const { id, api_key: apiKey } = await installed.issue();
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.all([log(apiKey, `claim-${round}`), log(apiKey, `claim-${round}`)]);
      // A third request comes after both have their answer.
      answers.push(await log(apiKey, `claim-${round}`));
      expect(answers.map(({ status }) => status)).toEqual([202, 202, 202]);
      expect(new Set(answers.map(({ body }) => body.event_id)).size).toBe(1);
    }
    expect((await installed.json(["keys", "usage", id])).used).toBe(20);
  });

  test("refuses the same Idempotency-Key with another body, and accepts it from another API key", async () => {
    const [one, other] = [await installed.issue(), await installed.issue()];
    const first = await log(one.api_key, "a");
    expect(await log(one.api_key, "a", { event_type: "error" })).toMatchObject({
      status: 422,
      body: { code: "INVALID_REQUEST" },
    });
    const beside = await log(other.api_key, "a");
    expect(beside.status).toBe(202);
    expect(beside.body.event_id).not.toBe(first.body.event_id);
  });

  test("leaves no claim when the quota refuses an event", async () => {
    const key = await installed.issue("--monthly-limit", "1");
    expect((await log(key.api_key, "a")).status).toBe(202);
    expect((await log(key.api_key, "b")).status).toBe(429);
    await installed.json(["keys", "limit", key.id, "2"]);
    expect((await log(key.api_key, "b")).status).toBe(202);
    expect((await installed.json(["keys", "usage", key.id])).used).toBe(2);
  });
});
