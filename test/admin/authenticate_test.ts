/** The token of each request: found with one statement, counted, and refused from the request after its end on. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startAdmin, type TestAdmin } from "../support/admin.ts";

setDefaultTimeout(30_000);

describe("GET /admin/v1/whoami", () => {
  let admin: TestAdmin;
  beforeAll(async () => {
    admin = await startAdmin();
  });
  afterAll(() => admin.close());

  test("tells the scopes and the restriction of the token", async () => {
    const token = await admin.token({
      name: "shop",
      scopes: ["keys:issue"],
      restriction: { tiers: ["free"], mode: "test" },
    });
    const { status, body, headers } = await admin.call("GET", "/whoami", { token });
    expect({ status, body }).toEqual({
      status: 200,
      body: { name: "shop", scopes: ["keys:issue"], tiers: ["free"], mode: "test" },
    });
    expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
    expect(headers.get("x-ratelimit-limit")).toBe("600");
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test("refuses a request without a token, and a token in any other form", async () => {
    for (const authorization of ["", "Basic c3Zj", `Bearer svc_op_${"0".repeat(48)}`, "Bearer svc_op_00"]) {
      const { status, body, headers } = await admin.call("GET", "/whoami", { headers: { authorization } });
      expect({ status, code: body.code }).toEqual({ status: 401, code: "INVALID_TOKEN" });
      expect(headers.get("www-authenticate")).toBe("Bearer");
    }
  });

  test("refuses a token after its expiry", async () => {
    const expiresAt = new Date(admin.clock.now().getTime() + 60_000);
    const token = await admin.token({ expiresAt });
    expect((await admin.call("GET", "/whoami", { token })).status).toBe(200);
    admin.clock.advance(61_000);
    expect((await admin.call("GET", "/whoami", { token })).status).toBe(401);
  });

  test("refuses a token from an address outside of its networks", async () => {
    const here = await admin.token({ sources: ["127.0.0.0/8"] });
    const elsewhere = await admin.token({ sources: ["10.0.0.0/8"] });
    expect((await admin.call("GET", "/whoami", { token: here })).status).toBe(200);
    const { status, body } = await admin.call("GET", "/whoami", { token: elsewhere });
    expect({ status, code: body.code }).toEqual({ status: 403, code: "NOT_ALLOWED" });
  });

  test("names the methods of a path, and refuses unknown parameters by name", async () => {
    const wrongMethod = await admin.call("DELETE", "/whoami");
    expect(wrongMethod.status).toBe(405);
    expect(wrongMethod.headers.get("allow")).toBe("GET, HEAD");
    const { status, body } = await admin.call("GET", "/whoami?colour=red");
    expect({ status, code: body.code, field: body.details[0].field }).toEqual({
      status: 400,
      code: "INVALID_REQUEST",
      field: "colour",
    });
    expect(body.details[0].error).toBe("colour is not known");
    const without = await admin.call("POST", "/keys/find", { body: {} });
    expect(without.body.details).toEqual([{ field: "api_key", error: "api_key is required" }]);
    expect((await admin.call("GET", "/nothing")).body.code).toBe("NOT_FOUND");
  });
});
