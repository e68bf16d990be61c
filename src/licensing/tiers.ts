/**
 * The tiers and what each includes. Source: the contract's tables of tiers and features, and the decision on the
 * feature identifiers.
 */

/** From the lowest to the highest. A tier includes the models of all lower tiers. */
export const TIERS = ["free", "research", "commercial", "enterprise"] as const;
export type Tier = (typeof TIERS)[number];

/** How many days a signed license of each tier is valid without a network; 0: the tier gets none. */
export type OfflineDays = Readonly<Record<Tier, number>>;

/** Inferences a month; null means unlimited. */
const MONTHLY_LIMITS: Readonly<Record<Tier, number | null>> = {
  free: 10_000,
  research: 50_000,
  commercial: 500_000,
  enterprise: null,
};

/** Feature identifiers in the order of lists, each with the lowest tier that includes it. */
const FEATURES: readonly (readonly [feature: string, from: Tier])[] = [
  ["batch_inference", "free"],
  ["streaming", "research"],
  ["training", "research"],
  ["calibration", "research"],
  ["model_export", "research"],
  ["custom_models", "commercial"],
  ["priority_support", "commercial"],
  ["on_premise", "enterprise"],
];

/** Tells whether a license of tier `held` may use a model that requires tier `required`. */
export function includesTier(held: Tier, required: Tier): boolean {
  return TIERS.indexOf(held) >= TIERS.indexOf(required);
}

/** Returns the tier's inferences a month; null means unlimited. */
export function monthlyLimitOf(tier: Tier): number | null {
  return MONTHLY_LIMITS[tier];
}

/** Returns the tier's feature identifiers in the contract's order. */
export function featuresOf(tier: Tier): string[] {
  return FEATURES.filter(([, from]) => includesTier(tier, from)).map(([feature]) => feature);
}
