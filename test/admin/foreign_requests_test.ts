/** Requests that another website, a proxy or a name server could cause: a foreign origin, a foreign or forged host. */
import { beforeAll, describe, expect, test } from "bun:test";
import { startAdmin } from "../support/admin.ts";
import { sendRaw } from "../support/raw_http.ts";
import { useAdmin } from "../support/use.ts";

const admin = useAdmin();
beforeAll(async () => {
  // The first call issues the token that every call sends.
  await admin.call("GET", "/whoami");
});

describe("A browser of a foreign website", () => {
  const ORIGIN = "https://evil.example";

  test("may not ask whether it may call the API, and gets no header that lets it read an answer", async () => {
    const preflight = await fetch(`${admin.url}/admin/v1/keys`, {
      method: "OPTIONS",
      headers: {
        origin: ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
      },
    });
    const read = await admin.call("GET", "/whoami", { headers: { origin: ORIGIN } });
    for (const headers of [preflight.headers, read.headers]) {
      expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
    expect(preflight.status).toBe(401);
  });
});

describe("A page of another website", () => {
  const call = (path: string, method: string, headers: Record<string, string>) =>
    fetch(admin.url + path, { method, headers, redirect: "manual" }).then(({ status }) => status);

  test("causes no statement and no count, with whatever request", async () => {
    const wrong = { authorization: `Bearer svc_op_${"0".repeat(48)}` };
    const before = admin.database.stats().statements;
    for (const site of ["cross-site", "same-site", "anything"]) {
      for (const [method, path, mode] of [
        ["GET", "/admin/v1/whoami", "no-cors"],
        ["GET", "/admin/v1/whoami", "navigate"],
        ["POST", "/admin/v1/keys", "no-cors"],
        ["GET", "/console/keys", "no-cors"],
        ["GET", "/console/assets/base.css", "no-cors"],
        ["POST", "/console/enter", "navigate"],
        ["HEAD", "/console/", "navigate"],
      ] as const) {
        const headers = { ...wrong, "sec-fetch-site": site, "sec-fetch-mode": mode };
        const status = await call(path, method, headers);
        expect({ site, method, path, mode, status }).toEqual({ site, method, path, mode, status: 403 });
      }
    }
    for (let n = 0; n < 70; n++) {
      expect(await call("/admin/v1/whoami", "GET", { ...wrong, "sec-fetch-site": "cross-site" })).toBe(403);
    }
    expect(admin.database.stats().statements).toBe(before);
    expect(await call("/admin/v1/whoami", "GET", wrong)).toBe(401);
  });

  test("may lead a browser to a page of the console; pages of the console, people and programs pass", async () => {
    for (const [path, status] of [
      ["/", 303],
      ["/console", 303],
      ["/console/", 303],
      ["/console/enter", 200],
    ] as const) {
      const headers = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" };
      expect([path, await call(path, "GET", headers)]).toEqual([path, status]);
    }
    for (const site of ["same-origin", "none", undefined]) {
      const headers: Record<string, string> = site === undefined ? {} : { "sec-fetch-site": site };
      expect([site, (await admin.call("GET", "/whoami", { headers })).status]).toEqual([site, 200]);
    }
  });
});

describe("GET /admin/health", () => {
  test("answers every host and website with 200 or 503, without body, statement and log", async () => {
    let [isTrusted, isStopping] = [true, false];
    const { testDatabase: on, clock, database } = admin;
    const directory = { forgetLicense() {}, isTrusted: () => isTrusted };
    const asked = await startAdmin({ on, clock, admin: { directory, isStopping: () => isStopping } });
    const { statements } = database.stats();
    const headers = { host: "balancer.example", "sec-fetch-site": "cross-site" };
    const ask = async (method: string) => {
      const answer = await fetch(`${asked.url}/admin/health`, { method, headers });
      return [answer.status, await answer.text(), answer.headers.get("cache-control")];
    };
    for (const method of ["GET", "HEAD"]) expect(await ask(method)).toEqual([200, "", "no-store"]);
    isTrusted = false;
    for (const method of ["GET", "HEAD"]) expect(await ask(method)).toEqual([503, "", "no-store"]);
    [isTrusted, isStopping] = [true, true];
    expect(await ask("GET")).toEqual([503, "", "no-store"]);
    expect(database.stats().statements).toBe(statements);
    expect(asked.logLines).toEqual([]);
    expect((await ask("POST"))[0]).toBe(421);
    await asked.close();
  });
});

test("100 kB of headers are refused", async () => {
  const host = new URL(admin.url).host;
  const token = await admin.token();
  for (const headers of [`X-Odd: ${"a".repeat(100_000)}\r\n`, "X-Odd: a\r\n".repeat(10_000)]) {
    const answers = await sendRaw(
      admin.url,
      `GET /admin/v1/whoami HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n${headers}\r\n`,
    );
    // The runtime answers or closes the connection.
    for (const { status } of answers)
      expect({ status, isRefused: status >= 400 && status < 500 }).toEqual({ status, isRefused: true });
  }
});
