/** Checks generated licenses as `terms_test.ts` does: 10,000 by default, in about a minute, or `LICENSES=100000`. */
import { test } from "bun:test";
import { checkTerms } from "./terms_model.ts";

// Takes over a minute.

const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const LICENSES = Number(process.env.LICENSES ?? 10_000);

test(`${LICENSES} signed licenses never outlive tier, license or key, and only keys that validate accepts get one`, async () => {
  console.log(`HOSTILE_SEED=${seed}`);
  let signed = 0;
  // Each part begins in the present with a new database, because a generated history takes months.
  for (let part = 0; signed < LICENSES; part++) {
    signed += (await checkTerms({ seed: seed + part * 1_000, licenses: 5_000 })).signed;
  }
  console.log(`${signed} licenses`);
});
