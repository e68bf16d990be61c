import { expect, test } from "bun:test";
import { findAdminUrl } from "../../src/cli/find_admin_url.ts";
import { leaveServingNote } from "../../src/installation/mod.ts";
import { configOf } from "../support/config.ts";
import { useFolder } from "../support/use_folder.ts";

const dataDir = useFolder();

const foundFor = (env: Readonly<Record<string, string>>) =>
  findAdminUrl(configOf({ CLAVIGER_DATA_DIR: dataDir, ...env }));

test("findAdminUrl() takes the setting, the running service's listener, or the settings' listener", () => {
  const listen = { CLAVIGER_ADMIN_LISTEN: "127.0.0.1:8081" };
  const tls = { CLAVIGER_TLS_CERT: "/c", CLAVIGER_TLS_KEY: "/k" };
  expect(foundFor({})).toBeUndefined();
  expect(foundFor(listen)).toBe("http://127.0.0.1:8081");
  expect(foundFor({ ...listen, ...tls })).toBe("http://127.0.0.1:8081");
  expect(foundFor({ CLAVIGER_ADMIN_LISTEN: "127.0.0.1:0" })).toBeUndefined();
  const named = { ...listen, CLAVIGER_ADMIN_URL: "https://admin.example.org" };
  expect(foundFor(named)).toBe("https://admin.example.org");

  const at = { host: "127.0.0.1", port: 8080 };
  const note = leaveServingNote(dataDir, { ...at, admin: { host: "::1", port: 9000 } });
  expect(foundFor({ ...listen, ...tls })).toBe("http://[::1]:9000");
  expect(foundFor(named)).toBe("https://admin.example.org");
  leaveServingNote(dataDir, at);
  expect(foundFor(listen)).toBeUndefined();
  // The service's user can write any note.
  leaveServingNote(dataDir, { ...at, admin: { host: "evil.example", port: 9000 } });
  expect(foundFor(listen)).toBeUndefined();
  note.remove();
});
