/** What another tier or another limit makes of the features that a license has now, and of its quota of the month. */
import { isDeepStrictEqual } from "node:util";
import { renderCount } from "../base/render_count.ts";
import { type Featured, featuresAt } from "./features.ts";

/** Returns the features that go and those that come with another tier; a feature that the license itself decides stays. */
export function tierFeatureEffects(before: Featured, after: Featured, now: Date) {
  if (before.tier === after.tier) return [];
  const [had, has] = [featuresAt(before, now), featuresAt(after, now)];
  const only = (names: readonly string[], others: readonly string[]) =>
    names.filter(
      (name) =>
        !others.includes(name) && isDeepStrictEqual(before.ownFeatures[name], after.ownFeatures[name]),
    );
  const [gone, gained] = [only(had, has), only(has, had)];
  return [
    { names: gone, from: "included", to: "not included", loss: "fewer features" },
    { names: gained, from: "not included", to: "included" },
  ].flatMap(({ names, ...effect }) =>
    names.length === 0
      ? []
      : [{ what: `${names.length === 1 ? "feature" : "features"} ${names.join(", ")}`, ...effect }],
  );
}

interface Limited {
  /** Null: unlimited. */
  readonly monthlyLimit: number | null;
}

/** Says that a change of the limit uses up the quota of the month, so that the service refuses the keys, or ends that. */
export function quotaEffects(before: Limited, after: Limited, used: number) {
  if (isUsedUp(before, used) === isUsedUp(after, used)) return [];
  const loss = usesUpQuota(before, after, used) ? "keys are refused" : undefined;
  const [from, to] = [describeQuota(before, used), describeQuota(after, used)];
  return [{ what: "quota of the month", from, to, loss }];
}

/** Tells whether a change of the limit uses up the quota of the month. */
export function usesUpQuota(before: Limited, after: Limited, used: number): boolean {
  return !isUsedUp(before, used) && isUsedUp(after, used);
}

function isUsedUp({ monthlyLimit }: Limited, used: number): boolean {
  return monthlyLimit !== null && used >= monthlyLimit;
}

function describeQuota(limited: Limited, used: number): string {
  if (isUsedUp(limited, used)) return `used up (${renderCount(used)} used)`;
  return limited.monthlyLimit === null ? "unlimited" : `${renderCount(limited.monthlyLimit - used)} left`;
}
