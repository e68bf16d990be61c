/** The finding of `doctor` about tokens that older versions issued with more scopes than a restricted token can have. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import type { Restriction } from "../../../src/licensing/mod.ts";
import { issueToken, revokeToken } from "../../../src/operators/mod.ts";
import { ACTOR, BRAND } from "../../support/issue.ts";
import { useTestDatabase } from "../../support/use.ts";
import { examineAll } from "./doctor_kit.ts";

const target = useTestDatabase();

const examineTokens = async () => (await examineAll(target))("tokens");

test("claviger doctor names restricted tokens with scopes beyond keys, until they are revoked", async () => {
  const { database } = target;
  const by = { brand: BRAND, actor: ACTOR, now: systemClock.now() };
  for (const name of ["wide", "narrow", "other"]) {
    const restriction: Restriction = name === "other" ? {} : { mode: "test" };
    await issueToken(database, { name, scopes: ["keys:read"], restriction }, by);
  }
  expect(await examineTokens()).toMatchObject({ state: "ok", message: expect.stringMatching(/^3 usable/) });
  await database.query((sql) => sql`update tokens set scopes = array['audit:read'] where name <> 'narrow'`);
  expect(await examineTokens()).toMatchObject({
    state: "warn",
    message: "restricted to tiers or to a mode, but with scopes beyond keys: wide",
    remedy: expect.stringContaining("claviger tokens revoke"),
  });
  // As a restore leaves it: `tokens resume` would give the scopes back.
  await database.query((sql) => sql`update tokens set state = 'disabled' where name = 'wide'`);
  expect(await examineTokens()).toMatchObject({ state: "warn", message: expect.stringMatching(/: wide$/) });
  await revokeToken(database, "wide", by);
  expect(await examineTokens()).toMatchObject({ state: "ok" });
});
