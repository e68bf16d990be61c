import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import type { Tier } from "./tiers.ts";

/** The keys that an actor may change or be given: only those of certain tiers, or of one mode. */
export interface Restriction {
  /** All tiers by default. */
  readonly tiers?: readonly Tier[] | undefined;
  /** Both modes by default. */
  readonly mode?: "live" | "test" | undefined;
}

/** Tells whether there is a restriction at all. Then limits and expiries beyond the tier's defaults are refused too. */
export function isRestricted({ tiers, mode }: Restriction): boolean {
  return tiers !== undefined || mode !== undefined;
}

/** Returns the condition, as SQL, that the restriction allows a tier. The statement of a change must contain it. */
export function allowsTier(sql: Sql, { tiers }: Restriction, tier: Fragment): Fragment {
  return tiers === undefined ? sql`true` : sql`${tier} = any(${toTextArray(tiers)}::text[])`;
}

/** Returns the condition, as SQL, that the restriction allows a mode. The statement of a change must contain it. */
export function allowsMode(sql: Sql, { mode }: Restriction, ofKey: Fragment): Fragment {
  return mode === undefined ? sql`true` : sql`${ofKey} = ${mode}::text`;
}
