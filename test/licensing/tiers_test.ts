/** The tables of tiers and features, copied literally from the contract and its decisions. */
import { describe, expect, test } from "bun:test";
import { effectiveLimit, featuresOf, includesTier, monthlyLimitOf, TIERS } from "../../src/licensing/mod.ts";
import { useTestDatabase } from "../support/use.ts";

const TABLE = {
  free: { limit: 10_000, features: ["batch_inference"] },
  research: {
    limit: 50_000,
    features: ["batch_inference", "streaming", "training", "calibration", "model_export"],
  },
  commercial: {
    limit: 500_000,
    features: [
      "batch_inference",
      "streaming",
      "training",
      "calibration",
      "model_export",
      "custom_models",
      "priority_support",
    ],
  },
  enterprise: {
    limit: null,
    features: [
      "batch_inference",
      "streaming",
      "training",
      "calibration",
      "model_export",
      "custom_models",
      "priority_support",
      "on_premise",
    ],
  },
};

const server = useTestDatabase({ empty: true });

test("TIERS lists the four tiers of the contract, from the lowest to the highest", () => {
  expect([...TIERS]).toEqual(["free", "research", "commercial", "enterprise"]);
});

describe.each([...TIERS])("%s", (tier) => {
  test("monthlyLimitOf() returns the limit in the table", () => {
    expect(monthlyLimitOf(tier)).toBe(TABLE[tier].limit);
  });

  test("featuresOf() returns the features in the table, in its order", () => {
    expect(featuresOf(tier)).toEqual(TABLE[tier].features);
  });

  test("effectiveLimit() returns the license's own limit, even 0, and otherwise the tier's limit", async () => {
    for (const own of [null, 0, 7]) {
      const [row] = await server.database.query<{ limit: number | null }>(
        (sql) => sql`
          select ${effectiveLimit(sql)} as limit
            from (select ${tier}::text as tier, ${own}::bigint as monthly_limit) as l`,
      );
      expect(row?.limit).toBe(own ?? TABLE[tier].limit);
    }
  });
});

test("includesTier() compares by the order of the tiers", () => {
  for (const [held, heldTier] of TIERS.entries()) {
    for (const [required, requiredTier] of TIERS.entries()) {
      expect(includesTier(heldTier, requiredTier)).toBe(held >= required);
    }
  }
});
