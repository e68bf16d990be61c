/** The tiers and their limits, copied literally from the contract. `test/clients/validate_test.ts` has their features. */
import { expect, test } from "bun:test";
import { effectiveLimit, includesTier, TIERS } from "../../src/licensing/mod.ts";
import { useTestDatabase } from "../support/use.ts";

const LIMITS = { free: 10_000, research: 50_000, commercial: 500_000, enterprise: null };

const server = useTestDatabase({ empty: true });

test("TIERS lists the four tiers of the contract, from the lowest to the highest", () => {
  expect([...TIERS]).toEqual(["free", "research", "commercial", "enterprise"]);
});

test.each([...TIERS])(
  "effectiveLimit() of %s is the license's own limit, even 0, and otherwise the tier's",
  async (tier) => {
    for (const own of [null, 0, 7]) {
      const [row] = await server.database.query<{ limit: number | null }>(
        (sql) => sql`
        select ${effectiveLimit(sql)} as limit
          from (select ${tier}::text as tier, ${own}::bigint as monthly_limit) as l`,
      );
      expect(row?.limit).toBe(own ?? LIMITS[tier]);
    }
  },
);

test("includesTier() compares by the order of the tiers", () => {
  for (const [held, heldTier] of TIERS.entries()) {
    for (const [required, requiredTier] of TIERS.entries()) {
      expect(includesTier(heldTier, requiredTier)).toBe(held >= required);
    }
  }
});
