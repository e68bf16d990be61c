import { expect, test } from "bun:test";
import { parseTrustedProxies } from "../../../src/base/rate_limits/mod.ts";
import type { Refusal } from "../../../src/base/refusal.ts";
import { refuseAdminListener } from "../../../src/installation/config/mod.ts";

const TLS = { certFile: "/c", keyFile: "/k" };
const parsed = parseTrustedProxies("10.0.0.1");
const PROXY = parsed.ok ? parsed.proxies : [];
const URL_SET = "https://admin.example.org";

interface Given {
  readonly at?: string;
  readonly adminUrl?: string;
  readonly tls?: typeof TLS;
  readonly proxies?: typeof PROXY;
}

function refused({ at, adminUrl, tls, proxies = [] }: Given): Refusal | undefined {
  const adminListen = at === undefined ? undefined : { host: at, port: 8081 };
  const clients = { host: "127.0.0.1", port: 8080 };
  return refuseAdminListener({ ...clients, adminListen, adminUrl, tls, trustedProxies: proxies });
}

test("refuseAdminListener() allows a loopback address without further settings", () => {
  for (const at of [undefined, "127.0.0.1", "127.9.9.9", "::1", "localhost"]) {
    expect(refused(at === undefined ? {} : { at })).toBeUndefined();
  }
  expect(refused({ at: "127.0.0.1", adminUrl: URL_SET })).toBeUndefined();
  expect(refused({ at: "127.0.0.1", adminUrl: "http://localhost:8081" })).toBeUndefined();
});

test("refuseAdminListener() allows other addresses with https through a certificate or a trusted proxy", () => {
  for (const at of ["0.0.0.0", "::", "192.0.2.1", "127.0.0.1.example.org"]) {
    expect(refused({ at, adminUrl: URL_SET, tls: TLS })).toBeUndefined();
    expect(refused({ at, adminUrl: URL_SET, proxies: PROXY })).toBeUndefined();
    expect(refused({ at, tls: TLS })?.sentence).toContain("needs CLAVIGER_ADMIN_URL with https");
    expect(refused({ at, proxies: PROXY })?.sentence).toContain("needs CLAVIGER_ADMIN_URL with https");
    expect(refused({ at, adminUrl: URL_SET })?.sentence).toContain("set CLAVIGER_TLS_CERT and");
  }
});

test("refuseAdminListener() says at which address, why, and what to do", () => {
  expect(refused({ at: "::" })?.sentence).toBe(
    "Cannot serve operators at [::]:8081: an address that other machines reach needs CLAVIGER_ADMIN_URL with " +
      "https, such as https://admin.example.org; set it, or listen on 127.0.0.1 and use `ssh -L`",
  );
  expect(refused({ at: "0.0.0.0", adminUrl: "http://localhost", proxies: PROXY })?.sentence).toContain(
    "needs CLAVIGER_ADMIN_URL with https",
  );
});

test("refuseAdminListener() allows http beside a certificate on loopback alone", () => {
  const named = { adminUrl: "http://127.0.0.1:8081", tls: TLS };
  expect(refused({ at: "127.0.0.1", ...named })).toBeUndefined();
  expect(refused({ at: "0.0.0.0", ...named })?.sentence).toContain("needs CLAVIGER_ADMIN_URL with https");
});

test("refuseAdminListener() refuses the address for clients, in every way in which both would take one address", () => {
  const refusedAt = (clients: string, operators: string, port = 8080) => {
    const adminListen = { host: operators, port };
    const settings = { adminUrl: URL_SET, tls: TLS, trustedProxies: PROXY };
    return refuseAdminListener({ host: clients, port, adminListen, ...settings })?.sentence;
  };
  expect(refusedAt("127.0.0.1", "127.0.0.1")).toBe(
    "Cannot serve operators at 127.0.0.1:8080: clients are served at the same address; choose another with " +
      "--admin-listen or CLAVIGER_ADMIN_LISTEN",
  );
  for (const [clients, operators] of [
    ["localhost", "localhost"],
    ["0.0.0.0", "127.0.0.1"],
    ["192.0.2.1", "0.0.0.0"],
  ] as const)
    expect(refusedAt(clients, operators)).toContain("the same address");
  for (const [clients, operators] of [
    ["127.0.0.1", "127.0.0.2"],
    ["0.0.0.0", "::1"],
    ["127.0.0.1", "::1"],
  ] as const)
    expect(refusedAt(clients, operators)).toBeUndefined();
  // The system chooses two ports.
  expect(refusedAt("127.0.0.1", "127.0.0.1", 0)).toBeUndefined();
});
