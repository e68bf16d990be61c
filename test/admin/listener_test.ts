/** The listener for operators as a part of the service: its paths, its hosts, and its own pool. Also runs on Node. */
import { beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { isRefusal } from "../../src/base/refusal.ts";
import { openSession } from "../../src/database/mod.ts";
import type { Finding } from "../../src/installation/doctor/mod.ts";
import { issueToken, SCOPES } from "../../src/operators/mod.ts";
import { makeCertificate, shownFingerprint } from "../support/certificates.ts";
import { ENDPOINTS } from "../support/endpoints.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { ACTOR } from "../support/issue.ts";
import { sendRaw } from "../support/raw_http.ts";
import { ON_NODE, startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";

const ANY_PORT = { host: "127.0.0.1", port: 0 };

const folder = useFolder();
const service = useTestService({ config: { adminListen: ANY_PORT } });
let url: string;
let token: string;

beforeAll(async () => {
  url = service.service.admin?.url ?? "";
  token = await newToken(service);
});

async function newToken({ database, config, clock }: TestService): Promise<string> {
  const request = { name: `token-${clock.nowMs()}`, scopes: SCOPES, restriction: {} } as const;
  const issued = await issueToken(database, request, {
    brand: config.brand,
    actor: ACTOR,
    now: clock.now(),
  });
  if (isRefusal(issued)) throw new Error(issued.sentence);
  return issued.token;
}

function get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(`${url}/admin/v1${path}`, { headers: { Authorization: `Bearer ${token}`, ...headers } });
}

const whoami = () => get("/whoami");

/** Sends the lines of a head, which may break the rules, to the listener. */
async function statusOf(lines: readonly string[], at = url): Promise<number | undefined> {
  const [answer] = await sendRaw(at, `${lines.join("\r\n")}\r\n\r\n`);
  return answer?.status;
}

const AUTHORIZED = () => `Authorization: Bearer ${token}`;

describe("the listener for operators", () => {
  test("is off by default", async () => {
    const quiet = await startTestService();
    try {
      expect(quiet.service.admin).toBeUndefined();
    } finally {
      await quiet.close();
    }
  });

  test("answers a token, and redirects a browser from / to the console", async () => {
    const answer = await whoami();
    expect([answer.status, await answer.json()]).toMatchObject([200, { scopes: SCOPES }]);
    const home = await fetch(url, { headers: { "X-Forwarded-Host": "evil.example" }, redirect: "manual" });
    expect([home.status, home.headers.get("location")]).toEqual([303, "/console/"]);
  });

  test("tells the state of the service, and sends a month as CSV", async () => {
    const { findings } = (await (await get("/status")).json()) as { findings: Finding[] };
    expect(findings.find(({ name }) => name === "schema")?.state).toBe("ok");
    const answer = await get("/usage?month=2020-01", { Accept: "text/csv" });
    expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(await answer.text()).toMatch(/^month,license_id,.*\r\n$/);
  });

  test("has no path for clients, and the listener for clients has no path for operators", async () => {
    const { apiKey } = await service.issue();
    const paths = Object.values(ENDPOINTS).map(({ path }) => path);
    for (const path of [...paths, "/api/health", "/openapi.json", "/metrics"]) {
      for (const method of ["GET", "POST"]) {
        const answer = await fetch(url + path, { method, headers: { "X-API-Key": apiKey } });
        expect([path, answer.status, await answer.json()]).toEqual([
          path,
          404,
          { code: "NOT_FOUND", error: expect.any(String) },
        ]);
      }
    }
    const authorized = { Authorization: `Bearer ${token}` };
    for (const path of ["/", "/console", "/console/", "/console/enter", "/admin/v1", "/admin/v1/whoami"]) {
      expect([path, (await service.get(path, authorized)).status]).toEqual([path, 404]);
    }
  });

  test("serves the page where operators log in, with its style and scripts", async () => {
    const page = await fetch(`${url}/console/enter`);
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=UTF-8"]);
    const files = [...(await page.text()).matchAll(/(?:href|src)="(\/console\/assets\/[^"]+)"/g)];
    expect(files.length).toBeGreaterThan(1);
    for (const [, path] of files) {
      const file = await fetch(url + path);
      expect([path, file.status, (await file.text()).length > 100]).toEqual([path, 200, true]);
    }
  });

  test("refuses a token that comes in a cookie", async () => {
    const cookie = await fetch(`${url}/admin/v1/whoami`, { headers: { Cookie: `session=${token}` } });
    expect(cookie.status).toBe(401);
  });
});

// On Node a test cannot start a service that speaks https to clients: it reads the ports from the http addresses.
test.skipIf(ON_NODE)(
  "operators are served by http on loopback beside a certificate, and a reload renews the certificate for clients",
  async () => {
    const [one, two] = [makeCertificate(folder, "one"), makeCertificate(folder, "two")];
    const { certFile, keyFile } = one;
    const config = { adminListen: ANY_PORT, tls: { certFile, keyFile } };
    const secured = await startTestService({ on: service.testDatabase, config });
    try {
      expect((await fetch(`${secured.service.admin?.url}/`, { redirect: "manual" })).status).toBe(303);
      copyFileSync(two.certFile, certFile);
      copyFileSync(two.keyFile, keyFile);
      await secured.service.reload?.();
      expect((await shownFingerprint(secured.service.port)).fingerprint).toBe(two.fingerprint);
    } finally {
      await secured.close();
    }
  },
);

describe("a stop of the service", () => {
  // On Node the service still takes requests for CLAVIGER_STOP_GRACE, and the statement may reach its deadline.
  test.skipIf(ON_NODE)(
    "waits for the statement of an operator's request, answers it, and closes the connection",
    async () => {
      const stopping = await startTestService({
        on: service.testDatabase,
        config: { adminListen: ANY_PORT },
      });
      const at = stopping.service.admin?.url;
      const headers = { Authorization: `Bearer ${token}` };
      const session = openSession(service.address, { statementTimeoutMs: 10_000 });
      let asked: Promise<Response> | undefined;
      let stopped: Promise<void> | undefined;
      try {
        await session.transaction(async (sql) => {
          await sql`lock table tokens in access exclusive mode`;
          asked = fetch(`${at}/admin/v1/whoami`, { headers });
          await untilWaiting(1);
          stopped = stopping.service.stop(8_000);
          await until(() => isClosed(stopping.url));
        });
        const answer = await asked;
        expect([answer?.status, answer?.headers.get("connection")]).toEqual([200, "close"]);
      } finally {
        await session.close();
        await stopped;
      }
      expect(await isClosed(at)).toBe(true);
    },
  );
});

/** Waits until so many statements wait for a lock in this database; other tests use the same server. */
async function untilWaiting(count: number): Promise<void> {
  await until(async () => {
    const [row] = await service.database.query<{ waiting: number }>(
      (sql) => sql`
        select count(*)::int as waiting from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'`,
    );
    return (row?.waiting ?? 0) >= count;
  });
}

/** Returns whether a listener refuses connections. */
function isClosed(at: string | undefined): Promise<boolean> {
  return fetch(`${at}/`, { redirect: "manual" }).then(
    () => false,
    () => true,
  );
}

describe("the Host of a request for operators", () => {
  const GET = "GET /admin/v1/whoami HTTP/1.1";
  const own = () => `Host: ${new URL(url).host}`;

  test("may be a loopback name with any port, so that a tunnel of ssh works", async () => {
    for (const host of ["127.0.0.1", "localhost:9000", "LOCALHOST:9000", "[::1]:9000", "\t127.0.0.1:9000 "]) {
      expect([host, await statusOf([GET, `Host: ${host}`, AUTHORIZED()])]).toEqual([host, 200]);
    }
  });

  test("is refused with 421 if it is any other name", async () => {
    const hosts = [
      "evil.example",
      "localhost.",
      "localhost.evil.example",
      "127.0.0.2",
      "u@localhost",
      "a b",
      "",
    ];
    for (const host of [...hosts, "127.0.0.1, evil.example", "127.0.0.1/", "[::ffff:127.0.0.1]", "\u00e9"]) {
      expect([host, await statusOf([GET, `Host: ${host}`, AUTHORIZED()])]).toEqual([host, 421]);
    }
    for (const path of ["/", "/console/", "/nothing", "//", "/%2e%2e/"]) {
      expect([path, await statusOf([`GET ${path} HTTP/1.1`, "Host: evil.example"])]).toEqual([path, 421]);
    }
  });

  test("is refused with 421 if there are two, or none", async () => {
    expect(await statusOf([GET, own(), own(), AUTHORIZED()])).toBe(421);
    expect(await statusOf([GET, own(), "Host: evil.example", AUTHORIZED()])).toBe(421);
    expect(await statusOf([GET, "Host: evil.example", own(), AUTHORIZED()])).toBe(421);
    expect(await statusOf(["GET /admin/v1/whoami HTTP/1.0", AUTHORIZED()])).toBe(421);
    // The runtime itself refuses a request of HTTP/1.1 without Host.
    expect(await statusOf([GET, AUTHORIZED()])).toBe(400);
  });

  test("is read from the header Host, not from the request target or from headers of a proxy", async () => {
    const absolute = (host: string) => `GET http://${host}/admin/v1/whoami HTTP/1.1`;
    expect(await statusOf([absolute("127.0.0.1"), "Host: evil.example", AUTHORIZED()])).toBe(421);
    expect(await statusOf([absolute("evil.example"), own(), AUTHORIZED()])).toBe(200);
    const names = ["X-Forwarded-Host", "X-Host", "X-Original-Host", "X-Forwarded-Server"];
    for (const forged of [...names.map((name) => `${name}: 127.0.0.1`), "Forwarded: host=127.0.0.1"]) {
      expect([forged, await statusOf([GET, "Host: evil.example", forged, AUTHORIZED()])]).toEqual([
        forged,
        421,
      ]);
    }
    for (const forged of ["X-Forwarded-Host: evil.example", "Forwarded: host=evil.example"]) {
      expect([forged, await statusOf([GET, own(), forged, AUTHORIZED()])]).toEqual([forged, 200]);
    }
  });

  test("is checked before the body is read and before the token is looked up", async () => {
    await inTransaction(service.address, async (sql) => {
      await sql`lock table tokens in access exclusive mode`;
      const head = ["POST /admin/v1/keys HTTP/1.1", "Host: evil.example", AUTHORIZED()];
      // The body is never sent, so there is an answer only if the service does not wait for the body.
      const bytes = `${[...head, "Content-Length: 100"].join("\r\n")}\r\n\r\n`;
      const [answer] = await sendRaw(url, bytes, { answers: 2 });
      expect(answer?.status).toBe(421);
      expect(answer?.headers.get("connection")).toBe("close");
      expect(answer?.headers.get("cache-control")).toBe("no-store");
      expect(JSON.parse(answer?.text ?? "")).toEqual({
        error:
          "This listener answers only at 127.0.0.1, localhost or [::1]; the setting CLAVIGER_ADMIN_URL " +
          "changes that",
        code: "MISDIRECTED_REQUEST",
      });
    });
  });

  test("must be that of CLAVIGER_ADMIN_URL if it is set", async () => {
    const named = await startTestService({
      on: service.testDatabase,
      config: { adminListen: ANY_PORT, adminUrl: "https://admin.example.org" },
    });
    try {
      const at = `http://127.0.0.1:${named.service.admin?.port}`;
      expect(named.service.admin?.url).toBe("https://admin.example.org");
      for (const host of ["admin.example.org", "Admin.Example.org:443"]) {
        expect([host, await statusOf([GET, `Host: ${host}`, AUTHORIZED()], at)]).toEqual([host, 200]);
      }
      for (const host of [new URL(at).host, "localhost", "admin.example.org:8443", "example.org"]) {
        expect([host, await statusOf([GET, `Host: ${host}`, AUTHORIZED()], at)]).toEqual([host, 421]);
      }
    } finally {
      await named.close();
    }
  });
});

describe("the pool of the listener for operators", () => {
  test.skipIf(ON_NODE)("delays no request of a client when its statements are slow", async () => {
    const session = openSession(service.address, { statementTimeoutMs: 10_000 });
    const { database } = service.service;
    const before = database.stats();
    let slowest = 0;
    let validated = 0;
    try {
      await session.transaction(async (sql) => {
        await sql`lock table tokens in access exclusive mode`;
        let waiting = 12;
        const ask = async () => {
          const { status } = await whoami();
          waiting--;
          return status;
        };
        // The look-ups that arrive while the first statement runs share one second statement.
        const slow = [ask()];
        await untilWaiting(1);
        while (slow.length < 12) slow.push(ask());
        await untilWaiting(2);
        while (waiting > 0) {
          // A new key each time: its look-up is a statement on the pool of the clients.
          const { apiKey } = await service.issue();
          const beganMs = performance.now();
          expect((await service.post("/v1/auth/validate", { api_key: apiKey })).status).toBe(200);
          slowest = Math.max(slowest, performance.now() - beganMs);
          validated++;
        }
        for (const status of await Promise.all(slow)) expect([500, 503]).toContain(status);
      });
    } finally {
      await session.close();
    }
    expect(validated).toBeGreaterThan(10);
    expect(slowest).toBeLessThan(2_000);
    const { poolsReplaced, deadlinesMissed } = database.stats();
    expect({ poolsReplaced, deadlinesMissed }).toEqual({
      poolsReplaced: before.poolsReplaced,
      deadlinesMissed: before.deadlinesMissed,
    });
    expect((await whoami()).status).toBe(200);
  });
});
