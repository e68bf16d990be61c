/** The headers of every answer, whatever its status. */
import { describe, expect, test } from "bun:test";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { issueUsedUp, UNKNOWN_KEY } from "../support/keys.ts";
import { type JsonResponse, limitsOf, startTestService } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();

const { validate, getRepoToken, revoke } = ENDPOINTS;
const ORIGIN = { Origin: "https://browser.example", "Access-Control-Request-Method": "POST" };

const answers: readonly (readonly [what: string, answer: () => Promise<JsonResponse>])[] = [
  ...ALL.map(
    (each) =>
      [
        `${each.title} with a good key`,
        async () => call(service, each, (await service.issue()).apiKey),
      ] as const,
  ),
  ["health", () => service.get("/api/health")],
  ["HEAD of health", () => service.send("/api/health", { method: "HEAD" })],
  ["400", () => call(service, validate, undefined)],
  ["401", () => call(service, validate, UNKNOWN_KEY)],
  ["404 of a path under /v1", () => service.get("/v1/nothing")],
  ["404 of another path", () => service.get("/nothing")],
  ["404 of a revocation", () => call(service, revoke, UNKNOWN_KEY)],
  ["405", () => service.send("/v1/models/list", { method: "DELETE" })],
  ["413", () => service.post("/v1/auth/validate", "x".repeat(70_000))],
  ["415", () => service.post("/v1/auth/validate", "x", { "Content-Encoding": "gzip" })],
  ["429", async () => call(service, validate, (await issueUsedUp(service)).apiKey)],
  ["503", async () => call(service, getRepoToken, (await service.issue()).apiKey)],
  [
    "the answer to a preflight",
    () => service.send("/v1/auth/validate", { method: "OPTIONS", headers: ORIGIN }),
  ],
  ["the answer to a browser", () => service.get("/v1/models/list", ORIGIN)],
  ["the health check's answer to a browser", () => service.get("/api/health", ORIGIN)],
];

describe("The answer has the common headers:", () => {
  const identifiers = new Set<string | null>();
  for (const [what, answer] of answers) {
    test(`${what} has them`, async () => {
      const { headers } = await answer();
      expect(headers.get("content-type")).toBe("application/json");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("date")).toMatch(/^\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT$/);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("keep-alive")).toBe("timeout=25");
      const id = headers.get("x-request-id");
      expect(id).toMatch(/^req_[0-9a-f]{12}7[0-9a-f]{19}$/);
      expect(identifiers.has(id)).toBe(false);
      identifiers.add(id);
      for (const name of headers.keys()) expect(name).not.toStartWith("access-control-");
      for (const name of ["retry-after", "server", "x-powered-by", "set-cookie"]) {
        expect(headers.has(name)).toBe(false);
      }
    });
  }
});

test("The service ignores the X-Request-Id of a request", async () => {
  const { headers } = await service.get("/api/health", { "X-Request-Id": "req_mine" });
  expect(headers.get("x-request-id")).not.toBe("req_mine");
});

test("Answers at the same time each have their own headers", async () => {
  await using limited = await startTestService({ config: { limits: limitsOf(1_000) } });
  const { apiKey } = await limited.issue({ tier: "enterprise" });
  // Events of one commit are answered immediately one after another.
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => call(limited, ENDPOINTS.analyticsLog, apiKey)),
  );
  for (const name of ["x-request-id", "x-ratelimit-remaining"]) {
    expect(new Set(answers.map(({ headers }) => headers.get(name))).size).toBe(200);
  }
});
