import { monthlyLimitOf, type Tier } from "../../../licensing/mod.ts";
import { renderCount } from "../../../render_count.ts";
import type { Option } from "./components/form.tsx";

/** Returns a tier as a choice of a field, with its monthly limit. */
export function toTierChoice(tier: Tier): Option {
  const limit = monthlyLimitOf(tier);
  return { value: tier, label: `${tier}, ${limit === null ? "unlimited" : `${renderCount(limit)} a month`}` };
}
