import { monthlyLimitOf, type Tier } from "../../licensing/mod.ts";
import type { Option } from "./components/form.tsx";

/** Returns a tier as a choice of a field, with its monthly limit. */
export function toTierChoice(tier: Tier): Option {
  const limit = monthlyLimitOf(tier)?.toLocaleString("en-US");
  return { value: tier, label: `${tier}, ${limit ? `${limit} a month` : "unlimited"}` };
}
