import { beforeEach, describe, expect, test } from "bun:test";
import { generateRootSecret, type Secrets } from "../../../src/base/secrets/mod.ts";
import { proveSecret } from "../../../src/installation/mod.ts";
import {
  clearInstallerToken,
  createTokenSource,
  parseInstallerToken,
  setInstallerToken,
} from "../../../src/models/repository_token/mod.ts";
import { createTestClock, type TestClock } from "../../support/clock.ts";
import { createTestDatabase } from "../../support/database.ts";
import { dumpText } from "../../support/dump.ts";
import { ACTOR, NOW, sentenceOf } from "../../support/issue.ts";
import { openSecrets } from "../../support/secrets.ts";
import { useForEach } from "../../support/use.ts";

const TOKEN = "read_only_0123456789";

const server = useForEach(createTestDatabase);
let clock: TestClock;
let secrets: Secrets;

beforeEach(() => {
  clock = createTestClock(NOW.toISOString());
  secrets = newSecrets();
});

function newSecrets() {
  return openSecrets(generateRootSecret());
}

const set = (token: string, expiresAt: Date | null = null) =>
  setInstallerToken(server.database, { token, expiresAt }, { secrets, actor: ACTOR, now: NOW });
const source = (others = secrets) => createTokenSource({ database: server.database, secrets: others, clock });

describe("parseInstallerToken()", () => {
  test("parseInstallerToken() reads one line, with or without its line end", () => {
    for (const end of ["", "\n", "\r\n"]) expect(parseInstallerToken(`${TOKEN}${end}`)).toBe(TOKEN);
  });

  for (const text of ["", "\n", "two words", "two\nlines", "t\u0000", "tökën", "x".repeat(4_097)]) {
    test(`parseInstallerToken() refuses ${JSON.stringify(text).slice(0, 20)} of ${text.length}`, () => {
      const refused = sentenceOf(parseInstallerToken(text));
      expect(refused).toStartWith("Cannot set token: ");
      if (text.trim() !== "") expect(refused).not.toContain(text.trim());
    });
  }
});

describe("createTokenSource()", () => {
  test("current() returns the token that was set last, until it is cleared", async () => {
    expect(await source().current()).toMatchObject({ code: "NOT_CONFIGURED" });
    await set("the_first_one");
    await set(TOKEN);
    expect(await source().current()).toEqual({ token: TOKEN, expiresAt: null });
    expect(await clearInstallerToken(server.database, { actor: ACTOR, now: NOW })).toBeUndefined();
    expect(await source().current()).toMatchObject({ code: "NOT_CONFIGURED" });
    const again = await clearInstallerToken(server.database, { actor: ACTOR, now: NOW });
    expect(again).toMatchObject({ code: "NOT_FOUND" });
  });

  test("current() returns a token before its expiry, and refuses from then on", async () => {
    const expiresAt = new Date(NOW.getTime() + 60_000);
    await set(TOKEN, expiresAt);
    expect(await source().current()).toEqual({ token: TOKEN, expiresAt });
    clock.advance(60_000);
    expect(sentenceOf(await source().current())).toContain("has expired");
  });

  test("setInstallerToken() refuses an expiry in the past, and keeps the previous token", async () => {
    await set(TOKEN);
    expect(sentenceOf(await set("another_one", NOW))).toContain("the expiry lies in the past");
    expect(await source().current()).toMatchObject({ token: TOKEN });
  });

  test("setInstallerToken() stores neither the plain token nor the secret in any table", async () => {
    await proveSecret(server.database, secrets, NOW);
    await set(TOKEN);
    await set(TOKEN, new Date(NOW.getTime() + 60_000));
    const dump = await dumpText(server.database);
    expect(dump).toContain("installer.set_token");
    for (const form of [
      TOKEN,
      Buffer.from(TOKEN).toString("hex"),
      Buffer.from(TOKEN).toString("base64url"),
    ]) {
      expect(dump).not.toContain(form);
    }
  });

  test("current() throws for a token that was tampered with, or sealed with another secret", async () => {
    await set(TOKEN);
    await expect(source(newSecrets()).current()).rejects.toThrow("does not open with this secret");
    await server.database.query((sql) => sql`update installer_token set sealed = reverse(sealed)`);
    await expect(source().current()).rejects.toThrow("does not open with this secret");
  });
});

describe("proveSecret()", () => {
  test("proveSecret() accepts the secret of the first start, and no other", async () => {
    expect(await proveSecret(server.database, secrets, NOW)).toBeUndefined();
    expect(await proveSecret(server.database, newSecrets(), NOW)).toMatch(
      /sealed with another one; give the secret/,
    );
    expect(await proveSecret(server.database, secrets, NOW)).toBeUndefined();
  });

  test("proveSecret() accepts one secret of two first starts at the same time", async () => {
    const [first, second] = [newSecrets(), newSecrets()];
    const proofs = await Promise.all([first, second].map((one) => proveSecret(server.database, one, NOW)));
    expect(proofs.filter((proof) => proof === undefined)).toHaveLength(1);
  });
});
