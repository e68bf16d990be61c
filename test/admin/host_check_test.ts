import { describe, expect, test } from "bun:test";
import { Hono } from "hono";
import { createHostCheck, refuseMisdirected } from "../../src/admin/frame/host_check.ts";
import type { AdminEnv } from "../../src/admin/frame/options.ts";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";

const HOSTS_OF_NOBODY = [
  undefined,
  "",
  ":8081",
  "evil.example",
  "evil.example:8081",
  "localhost.evil.example",
];

describe("createHostCheck() without CLAVIGER_ADMIN_URL", () => {
  const isOwn = createHostCheck({ adminUrl: undefined, isLoopback: true });

  test("accepts the three loopback names with any port", () => {
    for (const name of ["127.0.0.1", "localhost", "LocalHost", "[::1]"]) {
      for (const port of ["", ":1", ":8081", ":65535"]) {
        expect([name + port, isOwn(name + port)]).toEqual([name + port, true]);
      }
    }
  });

  test("refuses every other host", () => {
    const others = [
      "localhost.",
      "127.0.0.1.",
      "127.0.0.2",
      "127.1",
      "2130706433",
      "0x7f.1",
      "0.0.0.0",
      "::1",
    ];
    const strange = ["[::]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "localhost:", "localhost:123456"];
    const impossible = ["localhost:65536", "127.0.0.1:99999", "[::1]:70000"];
    const doubled = [
      "localhost, localhost",
      "localhost,evil.example",
      "u@localhost",
      "localhost/",
      "localhost:8081\n",
    ];
    for (const host of [...HOSTS_OF_NOBODY, ...others, ...strange, ...impossible, ...doubled]) {
      expect([host, isOwn(host)]).toEqual([host, false]);
    }
  });

  test("accepts no host if the listener is not on a loopback address", () => {
    const isOwnBeyond = createHostCheck({ adminUrl: undefined, isLoopback: false });
    expect(isOwnBeyond("127.0.0.1:8081")).toBe(false);
    expect(isOwnBeyond("localhost")).toBe(false);
  });
});

describe("createHostCheck() with CLAVIGER_ADMIN_URL", () => {
  test("accepts only its host, in any case, with or without the default port", () => {
    const isOwn = createHostCheck({ adminUrl: "https://admin.example.org", isLoopback: true });
    for (const host of ["admin.example.org", "ADMIN.Example.ORG", "admin.example.org:443"]) {
      expect([host, isOwn(host)]).toEqual([host, true]);
    }
    const others = [
      "admin.example.org.",
      "admin.example.org:80",
      "admin.example.org:8081",
      "127.0.0.1",
      "localhost",
    ];
    const near = [
      "example.org",
      "xadmin.example.org",
      "admin.example.org.evil.example",
      "admin.example.org:443:443",
    ];
    for (const host of [...HOSTS_OF_NOBODY, ...others, ...near]) {
      expect([host, isOwn(host)]).toEqual([host, false]);
    }
  });

  test("accepts another port than the default one only if it is set", () => {
    const isOwn = createHostCheck({ adminUrl: "http://localhost:8081", isLoopback: true });
    expect(isOwn("localhost:8081")).toBe(true);
    for (const host of ["localhost", "localhost:80", "localhost:8082", "127.0.0.1:8081", "[::1]:8081"]) {
      expect([host, isOwn(host)]).toEqual([host, false]);
    }
  });
});

describe("refuseMisdirected() beyond loopback", () => {
  const parsed = parseTrustedProxies("10.0.0.0/8");
  const beyond = {
    adminUrl: "https://admin.example.org",
    isLoopback: false,
    isTls: false,
    trustedProxies: parsed.ok ? parsed.proxies : [],
  };

  async function statusFrom(peer: string, options = beyond): Promise<number> {
    const app = new Hono<AdminEnv>().use(refuseMisdirected(options)).get("/", (c) => c.text("in"));
    const request = new Request("http://any/", { headers: { Host: "admin.example.org" } });
    return (await app.fetch(request, { address: () => peer })).status;
  }

  test("takes unencrypted requests only from trusted proxies and from this machine", async () => {
    for (const peer of ["10.1.2.3", "::ffff:10.1.2.3", "127.0.0.1", "::1", "::ffff:127.0.0.1"]) {
      expect([peer, await statusFrom(peer)]).toEqual([peer, 200]);
    }
    for (const peer of ["192.0.2.7", "2001:db8::1", ""]) {
      expect([peer, await statusFrom(peer)]).toEqual([peer, 421]);
    }
  });

  test("takes requests over our own TLS from every address", async () => {
    expect(await statusFrom("192.0.2.7", { ...beyond, isTls: true })).toBe(200);
  });
});
