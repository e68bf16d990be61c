/** How long generated licenses are valid, and who gets one. `terms_proof.ts` does the same with many more. */
import { expect, test } from "bun:test";
import { checkTerms } from "./terms_model.ts";

test("a signed license never outlives tier, license or key, and only keys that validate accepts get one", async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  console.log(`seed ${seed}`);
  const { signed, outcomes } = await checkTerms({ seed, licenses: 300 });
  expect(signed).toBeGreaterThanOrEqual(300);
  expect([...outcomes].sort()).toEqual(["200", "INVALID_KEY", "KEY_EXPIRED", "OFFLINE_NOT_ALLOWED"]);
});
