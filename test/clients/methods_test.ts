/** Unknown paths and methods that are not allowed; HEAD and OPTIONS have no effect. */
import { beforeAll, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { INSTALLER_TOKEN, setToken } from "../support/installer.ts";
import { uuidOf } from "../support/keys.ts";
import { limitsOf } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService({ config: { limits: limitsOf(9) } });

beforeAll(async () => {
  await setToken(service);
});

const limitHeaders = (headers: Headers) =>
  [...headers.keys()].filter((name) => name.startsWith("x-ratelimit"));

const PATHS = [
  ...new Map(ALL.map((endpoint) => [endpoint.path, endpoint.allow])),
  ["/api/health", "GET, HEAD"],
];

for (const [path = "", allow = ""] of PATHS) {
  const allowed = allow.split(", ");
  const others = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "HEAD"];
  for (const method of others.filter((each) => !allowed.includes(each))) {
    test(`${method} ${path} answers METHOD_NOT_ALLOWED and changes nothing`, async () => {
      const key = await service.issue();
      const answer = await service.send(path, { method, headers: { "X-API-Key": key.apiKey } });
      if (method === "HEAD") expect(answer).toMatchObject({ status: 405, body: undefined });
      else expectRefusal(answer, 405, "METHOD_NOT_ALLOWED");
      expect(answer.headers.get("allow")).toBe(allow);
      expect(limitHeaders(answer.headers)).toEqual([]);
      expect(JSON.stringify([...answer.headers])).not.toContain(INSTALLER_TOKEN);
      const { headers, status } = await call(service, ENDPOINTS.validate, key.apiKey);
      expect(status).toBe(200);
      expect(headers.get("x-ratelimit-remaining")).toBe("8");
      expect(await listAudit(service.database, { keyUuid: uuidOf(key) })).toMatchObject([
        { action: "key.issue" },
      ]);
    });
  }
}

for (const method of ["HEAD", "OPTIONS"]) {
  for (const endpoint of ALL) {
    test(`${method} ${endpoint.path} does not count against ${endpoint.method}`, async () => {
      const key = await service.issue();
      for (let i = 0; i < 12; i++) {
        await service.send(`${endpoint.path}?api_key=${key.apiKey}`, {
          method,
          headers: { "X-API-Key": key.apiKey },
        });
      }
      const { headers } = await call(service, endpoint, key.apiKey);
      expect(headers.get("x-ratelimit-remaining")).toBe("8");
    });
  }
}

for (const path of [
  "/",
  "/v1",
  "/v1/auth",
  "/v1/auth/validate/",
  "/v1/auth/Validate",
  "/v1//auth/validate",
  "/v2/auth/validate",
  "/v1/auth/%76alidate",
  "/v1/auth/validate;x",
  "/health",
  "/api/health/",
  "/v1/api/health",
  "/v1/installer/token",
  "/v1/installer/github-token",
  "/constructor",
  "/__proto__",
  "/%00",
  "/%ff",
]) {
  for (const method of ["GET", "POST", "DELETE"]) {
    test(`${method} ${path} answers NOT_FOUND`, async () => {
      const answer = await service.send(path, { method });
      expectRefusal(answer, 404, "NOT_FOUND");
      expect(answer.headers.has("allow")).toBe(false);
      expect(limitHeaders(answer.headers)).toEqual([]);
    });
  }
}
