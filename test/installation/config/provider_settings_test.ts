/** The settings of the identity provider belong together. */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isRefusal } from "../../../src/base/refusal.ts";
import { type ConfigSource, readConfig } from "../../../src/installation/config/mod.ts";
import { orThrow } from "../../support/issue.ts";
import { testFolder } from "../../support/postgres.ts";

const ALL = {
  CLAVIGER_ADMIN_URL: "https://admin.example.org",
  CLAVIGER_OIDC_ISSUER: "https://login.example.org/realms/staff/",
  CLAVIGER_OIDC_CLIENT_ID: "claviger",
  CLAVIGER_OIDC_CLIENT_SECRET_FILE: "oidc/secret",
};

function readWith(env: ConfigSource["env"], more: Partial<ConfigSource> = {}) {
  return readConfig({ env, workingFolder: "/srv/app", isRoot: false, envFile: "/dev/null", ...more });
}

const read = (...given: Parameters<typeof readWith>) => orThrow(readWith(...given)).provider;

function refusal(...given: Parameters<typeof readWith>): string {
  const config = readWith(...given);
  return isRefusal(config) ? config.sentence : "accepted";
}

describe("readConfig()", () => {
  test("reads the settings of the provider, with groups for each role", () => {
    expect(read(ALL)).toEqual({
      issuer: "https://login.example.org/realms/staff/",
      clientId: "claviger",
      secretFile: "/srv/app/oidc/secret",
      caFile: undefined,
      name: "login.example.org",
      roles: [
        { role: "admin", group: "claviger-admin" },
        { role: "editor", group: "claviger-editor" },
        { role: "viewer", group: "claviger-viewer" },
      ],
      groupsClaim: "groups",
      scopes: undefined,
      adminUrl: "https://admin.example.org",
    });
    expect(read({})).toBeUndefined();
    const named = { CLAVIGER_OIDC_NAME: "Example Staff", CLAVIGER_OIDC_CA_FILE: "/etc/ca.pem" };
    expect(read({ ...ALL, ...named })).toMatchObject({ name: "Example Staff", caFile: "/etc/ca.pem" });
  });

  test("reads groups with commas and equals signs, and several for one role", () => {
    const CLAVIGER_OIDC_ROLES =
      "admin=CN=Licensing Admins,OU=Groups,DC=example, editor=support,editor=night=shift";
    expect(read({ ...ALL, CLAVIGER_OIDC_ROLES })?.roles).toEqual([
      { role: "admin", group: "CN=Licensing Admins,OU=Groups,DC=example" },
      { role: "editor", group: "support" },
      { role: "editor", group: "night=shift" },
    ]);
  });

  test("reads the claim of the groups and the scopes", () => {
    for (const claim of ["roles", "cognito:groups", "https://example.org/claims/groups", "realm.roles"])
      expect(read({ ...ALL, CLAVIGER_OIDC_GROUPS_CLAIM: claim })?.groupsClaim).toBe(claim);
    const scopes = "openid  profile https://example.org/groups ";
    expect(read({ ...ALL, CLAVIGER_OIDC_SCOPES: scopes })?.scopes).toBe(
      "openid profile https://example.org/groups",
    );
  });

  const wrong: readonly [string, string][] = [
    ["CLAVIGER_OIDC_ISSUER", "login.example.org"],
    ["CLAVIGER_OIDC_ISSUER", "http://login.example.org"],
    ["CLAVIGER_OIDC_ISSUER", "https://user:hidden@login.example.org"],
    ["CLAVIGER_OIDC_ISSUER", "https://login.example.org?tenant=1"],
    ["CLAVIGER_OIDC_CLIENT_ID", "with blanks"],
    ["CLAVIGER_OIDC_NAME", "a\u0007bell"],
    ["CLAVIGER_OIDC_ROLES", "owner=licensing-admins"],
    ["CLAVIGER_OIDC_ROLES", "admin="],
    ["CLAVIGER_OIDC_ROLES", "licensing-admins"],
    ["CLAVIGER_OIDC_ROLES", `admin=${"x".repeat(256)}`],
    // One wrong entry among good ones.
    ["CLAVIGER_OIDC_ROLES", "owner=licensing-admins,editor=support"],
    ["CLAVIGER_OIDC_ROLES", "admin=,editor=support"],
    ["CLAVIGER_OIDC_ROLES", `editor=support,admin=${"x".repeat(256)},viewer=sales`],
    // Entries that were separated by something else, or written wrongly.
    ["CLAVIGER_OIDC_ROLES", "admin=a;editor=b"],
    ["CLAVIGER_OIDC_ROLES", "admin=a; editor = b"],
    ["CLAVIGER_OIDC_ROLES", "admin=a viewer=b"],
    ["CLAVIGER_OIDC_ROLES", "admin=a,Editor=b"],
    ["CLAVIGER_OIDC_ROLES", "admin=a,editor =b"],
    ["CLAVIGER_OIDC_ROLES", "admin=admin=a"],
    ["CLAVIGER_OIDC_ROLES", "admin=a,"],
    ["CLAVIGER_OIDC_ROLES", "admin=a;"],
    ["CLAVIGER_OIDC_ROLES", 'admin="a"'],
    ["CLAVIGER_OIDC_GROUPS_CLAIM", "two words"],
    ["CLAVIGER_OIDC_GROUPS_CLAIM", "a\u0007bell"],
    ["CLAVIGER_OIDC_GROUPS_CLAIM", "x".repeat(256)],
    ["CLAVIGER_OIDC_SCOPES", "profile groups"],
    ["CLAVIGER_OIDC_SCOPES", "openid,profile"],
    ["CLAVIGER_OIDC_SCOPES", 'openid "profile"'],
    ["CLAVIGER_OIDC_SCOPES", `openid ${"x".repeat(1_000)}`],
    ["CLAVIGER_OIDC_ROLES", Array(101).fill("admin=licensing-admins").join(",")],
  ];
  test.each(wrong)("refuses %s=%s and says what is allowed", (name, value) => {
    expect(refusal({ ...ALL, [name]: value })).toStartWith(`${name} must be `);
  });

  test("says which setting is missing", () => {
    const without = (name: keyof typeof ALL) => refusal({ ...ALL, [name]: undefined });
    expect(without("CLAVIGER_OIDC_ISSUER")).toContain("are given, but not CLAVIGER_OIDC_ISSUER");
    for (const alone of [{ CLAVIGER_OIDC_GROUPS_CLAIM: "roles" }, { CLAVIGER_OIDC_SCOPES: "openid email" }])
      expect(refusal(alone)).toContain("are given, but not CLAVIGER_OIDC_ISSUER");
    expect(without("CLAVIGER_OIDC_CLIENT_ID")).toStartWith(
      "CLAVIGER_OIDC_ISSUER needs CLAVIGER_OIDC_CLIENT_ID",
    );
    expect(without("CLAVIGER_ADMIN_URL")).toStartWith("CLAVIGER_OIDC_ISSUER needs CLAVIGER_ADMIN_URL");
    expect(without("CLAVIGER_OIDC_CLIENT_SECRET_FILE")).toContain(
      "or the systemd credential claviger-oidc-secret",
    );
  });

  test("finds the secret among the credentials of the service, which a command may not see", () => {
    const folder = mkdtempSync(join(testFolder(), "credentials-"));
    writeFileSync(join(folder, "claviger-oidc-secret"), "secret");
    const env = { ...ALL, CLAVIGER_OIDC_CLIENT_SECRET_FILE: undefined };
    expect(read({ ...env, CREDENTIALS_DIRECTORY: folder })?.secretFile).toBe(
      join(folder, "claviger-oidc-secret"),
    );
    const unseen = { why: "it belongs to the service", remedy: "run it as root" };
    expect(read(env, { unseen })).toMatchObject({ clientId: "claviger", secretFile: undefined });
  });
});
