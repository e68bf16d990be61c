import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { isRefusal } from "../../../src/base/refusal.ts";
import { openGitHubApp } from "../../../src/models/repository_token/mod.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder();

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
const pkcs1 = privateKey.export({ type: "pkcs1", format: "pem" }).toString();
const pkcs8 = privateKey.export({ type: "pkcs8", format: "pem" }).toString();

function sentenceFor(privateKeyFile: string | undefined): string {
  const app = openGitHubApp({
    appId: "1",
    installationId: "2",
    repository: "core",
    apiUrl: "https://api.github.com",
    privateKeyFile,
  });
  return isRefusal(app) ? app.sentence : `accepted ${app.key.asymmetricKeyType}`;
}

let files = 0;

function fileWith(text: string | Uint8Array): string {
  const path = join(folder, `key-${++files}`);
  writeFileSync(path, text);
  return path;
}

const good: [what: string, text: string][] = [
  ["PKCS#1", pkcs1],
  ["PKCS#8", pkcs8],
  ["a text before it", `Downloaded today\n${pkcs1}`],
  ["Windows line ends", pkcs1.replaceAll("\n", "\r\n")],
];
test.each(good)("openGitHubApp() accepts a key in %s", (_, text) => {
  expect(sentenceFor(fileWith(text))).toBe("accepted rsa");
});

const small = generateKeyPairSync("rsa", { modulusLength: 1_024 }).privateKey;
const curve = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
const bad: [what: string, text: string, why: string][] = [
  ["an empty file", "", "it must hold a line -----BEGIN RSA PRIVATE KEY-----"],
  ["no key", "hello", "it must hold a line -----BEGIN RSA PRIVATE KEY-----"],
  ["a public key", publicKey.export({ type: "spki", format: "pem" }).toString(), "it must hold a line"],
  ["half a key", pkcs1.slice(0, 400), "the key in it is damaged"],
  ["a broken key", pkcs8.replace(/\n[^\n]{64}\n/, "\nAAAA\n"), "the key in it is damaged"],
  ["a key of a curve", curve.export({ type: "pkcs8", format: "pem" }).toString(), "must be an RSA key"],
  [
    "a short key",
    small.export({ type: "pkcs1", format: "pem" }).toString(),
    "from 2048 to 8192 bits, not 1024",
  ],
  [
    "an encrypted key",
    privateKey.export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "open" }).toString(),
    "it is encrypted",
  ],
  ["a file that is too large", pkcs1 + "x".repeat(16 * 1024), "at most 16384 bytes"],
];
test.each(bad)("openGitHubApp() refuses %s, and names the file but not its content", (_, text, why) => {
  const path = fileWith(text);
  const sentence = sentenceFor(path);
  expect(sentence).toStartWith(`Cannot use the GitHub App's private key ${path}: `);
  expect(sentence).toContain(why);
  expect(sentence).not.toContain("\n");
  for (const line of text.split("\n").filter((each) => each.length > 20 && !each.startsWith("-----"))) {
    expect(sentence).not.toContain(line);
  }
});

test("openGitHubApp() refuses a path that is not a regular file, without waiting for a pipe", () => {
  expect(sentenceFor(join(folder, "none"))).toEndWith("there is no such file");
  expect(sentenceFor(folder)).toEndWith("it must be a file of at most 16384 bytes");
  const pipe = join(folder, "pipe");
  spawnSync("mkfifo", [pipe]);
  expect(sentenceFor(pipe)).toEndWith("it must be a file of at most 16384 bytes");
});

test("openGitHubApp() without a key says where it looks for a key", () => {
  expect(sentenceFor(undefined)).toBe(
    "Cannot use the GitHub App: CLAVIGER_GITHUB_PRIVATE_KEY_FILE is missing, and there is no systemd " +
      "credential claviger-github-key",
  );
});
