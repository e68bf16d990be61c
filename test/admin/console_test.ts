/** The console as programs see it: headers, cookies, origins and forms. Each page has a test of its own beside this one. */
import { beforeAll, describe, expect, test } from "bun:test";
import { startAdmin } from "../support/admin.ts";
import { dumpText } from "../support/dump.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";

const KEY = /svc_live_[0-9a-f]{48}/;
const ISSUE = { email: "ada@example.org", tier: "free", mode: "live", never: "yes" };

const admin = useAdmin();
const client = createConsoleClient(admin);
beforeAll(async () => {
  // The last admin cannot be removed.
  await client.newCode("root");
});

describe("Every answer of the console", () => {
  test("has the headers that keep other sites out", async () => {
    const { cookie } = await client.logIn("viewer");
    const page = await client.send("/enter");
    const [style = ""] = /\/assets\/style-\w+\.css/.exec(page.text) ?? [];
    const answers = [
      page,
      await client.send("/", { cookie }),
      await client.send("/keys", { cookie }),
      await client.send("/keys"),
      await client.send("/keys/issue", { cookie }),
      await client.send("/absent", { cookie }),
      await client.send("/logout", { cookie }),
      await client.send("/enter", { form: { code: "00" } }),
      await client.send("/enter", { form: {}, headers: { origin: "http://evil.example" } }),
      await client.send(style),
      await client.send("/assets/absent.js"),
    ];
    expect(answers.map(({ status }) => status)).toEqual([
      200, 303, 200, 303, 403, 404, 405, 401, 403, 200, 404,
    ]);
    for (const { headers } of answers) {
      expect(Object.fromEntries(headers)).toMatchObject({
        "content-security-policy":
          "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; " +
          "base-uri 'none'; frame-ancestors 'none'",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
      });
      expect(headers.has("strict-transport-security")).toBe(false);
      expect(headers.get("x-request-id")).toMatch(/^req_/);
    }
    expect(answers.filter(({ headers }) => headers.get("cache-control") !== "no-store")).toHaveLength(1);
  });

  test("is compressed if it is a style or a script, for browsers that take it, and never if it is a page", async () => {
    const { text, headers: ofPage } = await client.send("/enter", { headers: { "accept-encoding": "gzip" } });
    const [style = ""] = /\/assets\/style-\w+\.css/.exec(text) ?? [];
    const zipped = await client.send(style, { headers: { "accept-encoding": "br, gzip" } });
    const plain = await client.send(style, { headers: { "accept-encoding": "identity" } });
    const encodings = [ofPage, zipped.headers, plain.headers].map((headers) =>
      headers.get("content-encoding"),
    );
    expect(encodings).toEqual([null, "gzip", null]);
    expect(plain.text.length).toBeGreaterThan(10_000);
    expect(zipped.text).toBe(plain.text);
  });

  const addresses: [adminUrl: string, hasHsts: boolean, cookie: RegExp][] = [
    [
      "https://admin.example.org",
      true,
      /^__Host-claviger_443=[0-9a-f]{64}[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
    ],
    ["https://admin.example.org:8443", false, /^__Host-claviger_8443=.*; Secure; /],
    [
      "http://localhost:8081",
      false,
      /^claviger_8081=[0-9a-f]{64}[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/,
    ],
  ];
  for (const [adminUrl, hasHsts, cookie] of addresses) {
    test(`fits the address ${adminUrl}`, async () => {
      const there = await startAdmin({ on: admin.testDatabase, clock: admin.clock, admin: { adminUrl } });
      const enter = async (origin: string) =>
        await fetch(`${there.url}/console/enter`, {
          method: "POST",
          redirect: "manual",
          headers: { host: new URL(adminUrl).host, origin },
          body: new URLSearchParams({ code: await client.newCode("root") }),
        });
      const { status, headers } = await enter(adminUrl);
      expect(status).toBe(303);
      expect(headers.get("set-cookie")).toMatch(cookie);
      expect(headers.get("strict-transport-security")).toBe(hasHsts ? "max-age=31536000" : null);
      for (const foreign of [there.url, `${adminUrl}0`, `${adminUrl}.evil.example`, "null"]) {
        expect([foreign, (await enter(foreign)).status]).toEqual([foreign, 403]);
      }
      await there.close();
    });
  }
});

describe("A form", () => {
  test("is refused without the exact origin, and changes nothing", async () => {
    const { cookie } = await client.logIn();
    const { port } = new URL(admin.url);
    const origins = [
      undefined,
      "null",
      "http://evil.example",
      `https://127.0.0.1:${port}`,
      `http://localhost:${port}`,
      "http://127.0.0.1",
      `http://127.0.0.1:${Number(port) + 1}`,
      `${admin.url}.evil.example`,
      `${admin.url}/`,
      `${admin.url}, ${admin.url}`,
    ];
    const code = await client.newCode("root");
    const before = await client.countRows("keys");
    for (const path of ["/keys/issue", "/logout", "/enter"]) {
      for (const origin of origins) {
        const body = new URLSearchParams(path === "/enter" ? { code } : ISSUE);
        const answer = await fetch(`${admin.url}/console${path}`, {
          method: "POST",
          redirect: "manual",
          headers: { cookie, ...(origin && { origin }) },
          body,
        });
        expect([path, origin, answer.status]).toEqual([path, origin, 403]);
      }
    }
    expect(await client.countRows("keys")).toBe(before);
    expect(await client.isLoggedIn(cookie)).toBe(true);
    expect((await client.send("/enter", { form: { code } })).status).toBe(303);
  });

  test("is refused as JSON of a foreign page, and with a forged forwarded host", async () => {
    const { cookie } = await client.logIn();
    const origin = "https://evil.example";
    const forged = {
      "x-forwarded-host": "evil.example",
      "x-forwarded-proto": "https",
      forwarded: "host=evil.example",
    };
    for (const type of ["application/json", "text/plain", "application/x-www-form-urlencoded"]) {
      const answer = await fetch(`${admin.url}/console/keys/issue`, {
        method: "POST",
        headers: { cookie, origin, "content-type": type, ...forged },
        body: JSON.stringify(ISSUE),
      });
      expect([type, answer.status]).toEqual([type, 403]);
    }
  });

  test("is refused as JSON, as another form, without a length, and above 64 KiB", async () => {
    const { cookie } = await client.logIn();
    const post = async (body: string | ReadableStream, type: string) => {
      const headers = { cookie, origin: admin.url, "content-type": type };
      return (await fetch(`${admin.url}/console/keys/issue`, { method: "POST", headers, body })).status;
    };
    const form = "application/x-www-form-urlencoded";
    expect(await post(JSON.stringify(ISSUE), "application/json")).toBe(415);
    expect(await post("--x", "multipart/form-data; boundary=x")).toBe(415);
    expect(await post(inChunks("a=b"), form)).toBe(415);
    expect(await post(`name=${"a".repeat(900 * 1024)}`, form)).toBe(413);
    expect(await post(`name=${"a".repeat(64 * 1024)}`, form)).toBe(413);
    expect(await post("a=b", `${form}; charset=utf-8`)).toBe(400);
    expect(
      (await client.send("/keys", { method: "DELETE", cookie, headers: { origin: admin.url } })).status,
    ).toBe(405);
  });
});

test("A failure is a page without its cause, which is in the log", async () => {
  const { cookie } = await client.logIn();
  await admin.database.query((sql) => sql`alter table listed_keys rename to listed_keys_away`);
  try {
    const { status, text } = await client.send("/keys", { cookie });
    expect(status).toBe(500);
    expect(text).toContain("Internal error.");
    expect(text).not.toContain("listed_keys");
    expect(admin.logLines.join("\n")).toContain('relation \\"listed_keys\\" does not exist');
  } finally {
    await admin.database.query((sql) => sql`alter table listed_keys_away rename to listed_keys`);
  }
});

test("An issued key is in its answer and nowhere else, and the audit log names the operator", async () => {
  const { name, cookie } = await client.logIn("editor");
  const { status, text, headers } = await client.send("/keys/issue", {
    cookie,
    form: { ...ISSUE, email: "once@example.org" },
  });
  expect({ status, cache: headers.get("cache-control") }).toEqual({ status: 200, cache: "no-store" });
  const [apiKey = ""] = KEY.exec(text) ?? [];
  expect(apiKey).not.toBe("");
  const secrets = [apiKey, apiKey.slice(-48), cookie.split("=")[1] ?? ""];
  const kept = [await dumpText(admin.database), ...admin.logLines].join("\n");
  const pages = (
    await Promise.all(["/keys", "/keys/issue"].map((path) => client.send(path, { cookie })))
  ).map((one) => one.text);
  for (const secret of secrets)
    expect([...pages, kept].filter((place) => place.includes(secret))).toEqual([]);
  const [row] = await admin.database.query(
    (sql) =>
      sql`select actor, door, request, address from audit where action = 'key.issue' order by id desc limit 1`,
  );
  expect(row).toEqual({
    actor: `operator:${name}`,
    door: "console",
    request: headers.get("x-request-id"),
    address: "127.0.0.1",
  });
});

/** A body that is sent without its length. */
function inChunks(text: string): ReadableStream {
  const chunks = [...text].map((one) => new TextEncoder().encode(one));
  return new ReadableStream({
    pull(controller) {
      const chunk = chunks.shift();
      if (chunk === undefined) controller.close();
      else controller.enqueue(chunk);
    },
  });
}
