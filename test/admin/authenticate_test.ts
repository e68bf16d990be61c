/** The token of each request: found with one statement, counted, and refused from the request after its end on. */
import { describe, expect, test } from "bun:test";
import { useAdmin } from "../support/use.ts";

describe("GET /admin/v1/whoami", () => {
  const admin = useAdmin();

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
});
