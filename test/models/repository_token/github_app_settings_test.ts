import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isRefusal } from "../../../src/base/refusal.ts";
import { readConfig } from "../../../src/installation/config/config.ts";
import { SETTINGS } from "../../../src/installation/config/settings.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder();
const envFile = join(folder, "empty.env");
writeFileSync(envFile, "");

const ALL = {
  CLAVIGER_GITHUB_APP_ID: "190219",
  CLAVIGER_GITHUB_INSTALLATION_ID: "4711",
  CLAVIGER_GITHUB_PRIVATE_KEY_FILE: "/etc/claviger/app.pem",
  CLAVIGER_GITHUB_REPOSITORY: "core-package",
};

function read(env: Record<string, string>) {
  const config = readConfig({ env, envFile, workingFolder: "/srv/app", isRoot: false });
  return isRefusal(config) ? config.sentence : config.gitHubApp;
}

test("readConfig() accepts a GitHub App, on github.com by default", () => {
  expect(read(ALL)).toEqual({
    appId: "190219",
    installationId: "4711",
    repository: "core-package",
    apiUrl: "https://api.github.com",
    privateKeyFile: "/etc/claviger/app.pem",
  });
  expect(read({})).toBeUndefined();
});

const accepted: [name: string, value: string, expected: object][] = [
  ["CLAVIGER_GITHUB_APP_ID", "Iv23liABCdef01234567", { appId: "Iv23liABCdef01234567" }],
  ["CLAVIGER_GITHUB_APP_ID", "Iv1.8a61f9b3a7aba766", { appId: "Iv1.8a61f9b3a7aba766" }],
  ["CLAVIGER_GITHUB_PRIVATE_KEY_FILE", "app.pem", { privateKeyFile: "/srv/app/app.pem" }],
  ["CLAVIGER_GITHUB_REPOSITORY", ".github", { repository: ".github" }],
  ["CLAVIGER_GITHUB_URL", "https://ghe.example/api/v3", { apiUrl: "https://ghe.example/api/v3" }],
  ["CLAVIGER_GITHUB_URL", "https://ghe.example:8443/api/v3//", { apiUrl: "https://ghe.example:8443/api/v3" }],
  ["CLAVIGER_GITHUB_URL", "http://127.0.0.1:1234", { apiUrl: "http://127.0.0.1:1234" }],
  ["CLAVIGER_GITHUB_URL", "http://localhost:1234/", { apiUrl: "http://localhost:1234" }],
  ["CLAVIGER_GITHUB_URL", "http://[::1]:1234/x", { apiUrl: "http://[::1]:1234/x" }],
];
test.each(accepted)("readConfig() accepts %s=%s", (name, value, expected) => {
  expect(read({ ...ALL, [name]: value })).toMatchObject(expected);
});

const refused: [name: string, value: string][] = [
  ["CLAVIGER_GITHUB_APP_ID", "my-app"],
  ["CLAVIGER_GITHUB_APP_ID", "0"],
  ["CLAVIGER_GITHUB_INSTALLATION_ID", "1/../2"],
  ["CLAVIGER_GITHUB_INSTALLATION_ID", "-1"],
  ["CLAVIGER_GITHUB_REPOSITORY", "octo/core"],
  ["CLAVIGER_GITHUB_REPOSITORY", ".."],
  ["CLAVIGER_GITHUB_REPOSITORY", "a,b"],
  ["CLAVIGER_GITHUB_URL", "http://ghe.example/api/v3"],
  ["CLAVIGER_GITHUB_URL", "http://localhost.example/"],
  ["CLAVIGER_GITHUB_URL", "http://127.0.0.1.example/"],
  ["CLAVIGER_GITHUB_URL", "https://user:hidden@ghe.example/"],
  ["CLAVIGER_GITHUB_URL", "https://ghe.example/?hidden"],
  ["CLAVIGER_GITHUB_URL", "https://ghe.example/#hidden"],
  ["CLAVIGER_GITHUB_URL", "ftp://ghe.example/"],
  ["CLAVIGER_GITHUB_URL", "ghe.example"],
];
test.each(refused)(
  "readConfig() refuses %s=%s and names the setting and its allowed values",
  (name, value) => {
    const { expects } = SETTINGS.find((setting) => setting.name === name)!;
    const sentence = read({ ...ALL, [name]: value });
    expect(sentence).toStartWith(`${name} must be ${expects}`);
    expect(sentence).not.toContain("hidden");
  },
);

const needed = ["CLAVIGER_GITHUB_APP_ID", "CLAVIGER_GITHUB_INSTALLATION_ID", "CLAVIGER_GITHUB_REPOSITORY"];
test.each(needed)("readConfig() refuses a GitHub App without %s", (name) => {
  expect(read({ ...ALL, [name]: "" })).toBe(`Some settings of the GitHub App are given, but not ${name}`);
});

test("readConfig() refuses a part of the settings of a GitHub App, and names all missing settings", () => {
  const sentence = `Some settings of the GitHub App are given, but not ${needed.join(", ")}`;
  expect(read({ CLAVIGER_GITHUB_PRIVATE_KEY_FILE: "/x" })).toBe(sentence);
  expect(read({ CLAVIGER_GITHUB_URL: "https://ghe.example/api/v3" })).toBe(sentence);
  expect(read({ CREDENTIALS_DIRECTORY: credentials() })).toBe(sentence);
});

test("readConfig() finds the key in a systemd credential, unless a setting names a file", () => {
  const CREDENTIALS_DIRECTORY = credentials();
  const privateKeyFile = join(CREDENTIALS_DIRECTORY, "claviger-github-key");
  const { CLAVIGER_GITHUB_PRIVATE_KEY_FILE: _, ...rest } = ALL;
  expect(read({ ...rest, CREDENTIALS_DIRECTORY })).toMatchObject({ privateKeyFile });
  expect(read({ ...ALL, CREDENTIALS_DIRECTORY })).toMatchObject({ privateKeyFile: "/etc/claviger/app.pem" });
});

test("readConfig() accepts a GitHub App without the key, because only the service needs it", () => {
  const { CLAVIGER_GITHUB_PRIVATE_KEY_FILE: _, ...rest } = ALL;
  expect(read(rest)).toMatchObject({ appId: "190219", privateKeyFile: undefined });
});

function credentials(): string {
  const path = join(folder, "credentials");
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "claviger-github-key"), "a key");
  return path;
}
