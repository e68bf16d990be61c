/**
 * What a change makes of a license: each value before and after, and what the customer loses by it. The console shows it
 * before the change, and every door afterwards.
 */
import { isDeepStrictEqual } from "node:util";
import { renderFields } from "../base/answer_fields.ts";
import { NEVER_EXPIRES, toDay, toTimestamp } from "../base/calendar.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { renderCount } from "../base/render_count.ts";
import {
  type Allowances,
  changedAllowances,
  describeOfflineDays,
  describeSelfReleases,
  describeShowsMachines,
  type RequestedAllowances,
  renderAllowances,
  showsNames,
} from "./allowances.ts";
import {
  areTooMany,
  describeEntitlement,
  type Entitlement,
  type EntitlementChanges,
  type Entitlements,
  refuseTooManyEntitlements,
} from "./entitlements.ts";
import {
  areTooManyFeatures,
  describeFeature,
  type FeatureChanges,
  type OwnFeatures,
  refuseTooManyFeatures,
} from "./features.ts";
import { describePlaces, PLACES_LOST, takenEffect } from "./places.ts";
import { changedTerm, describeTerm, TERM_FIELDS, type Term } from "./terms.ts";
import { QUOTA, quotaEffects, tierFeatureEffects } from "./tier_effects.ts";
import { featuresOf, includesTier, monthlyLimitOf, type Tier } from "./tiers.ts";
import { describeUpdates, type Updates } from "./updates.ts";

/**
 * The new values of a license. What is undefined stays, but a machine limit of null removes the seat minutes, too, and an
 * expiry takes the place of a term that has not begun.
 */
export interface LicenseChange extends RequestedAllowances {
  readonly tier?: Tier | undefined;
  /** Null: the tier's own limit. */
  readonly monthlyLimit?: number | null | undefined;
  readonly expiresAt?: Date | undefined;
  /** Null: every version of a model. */
  readonly updatesUntil?: Date | null | undefined;
  /** The features that are named; the others stay. */
  readonly ownFeatures?: FeatureChanges | undefined;
  /** The values that are named; the others stay. */
  readonly ownEntitlements?: EntitlementChanges | undefined;
  /** Null removes it. */
  readonly externalId?: string | null | undefined;
}

/** The values of a license that a change shows. */
export interface LicenseValues extends Allowances, Term, Updates {
  readonly tier: Tier;
  /** The limit that counts, the license's own or the tier's; null: unlimited. */
  readonly monthlyLimit: number | null;
  readonly expiresAt: Date;
  readonly ownFeatures: OwnFeatures;
  readonly ownEntitlements: Entitlements;
  /** The values of its tier, which count where it has none of its own; undefined where they are not known. */
  readonly tierEntitlements?: Entitlements | undefined;
  /** The operator's own name; null if there is none, undefined where it is not shown. */
  readonly externalId?: string | null;
}

/** A value before and after a change, in words. */
export interface Effect {
  /** The name of the value, such as `expiry`. */
  readonly what: string;
  readonly from: string;
  readonly to: string;
  /** What the customer loses, such as `earlier end`; undefined if nothing. */
  readonly loss?: string | undefined;
}

/** Returns the values that the license gets; `hasOwnLimit` tells whether its limit is its own and not the tier's. */
export function changedValues(
  { hasOwnLimit, ...values }: LicenseValues & { readonly hasOwnLimit: boolean },
  change: LicenseChange,
): LicenseValues {
  const { tier = values.tier, monthlyLimit, expiresAt, updatesUntil = values.updatesUntil } = change;
  const { ownFeatures = {}, ownEntitlements = {} } = change;
  const ownLimit = monthlyLimit === undefined ? (hasOwnLimit ? values.monthlyLimit : null) : monthlyLimit;
  return {
    tier,
    monthlyLimit: ownLimit ?? monthlyLimitOf(tier),
    ...changedAllowances(values, change),
    expiresAt: expiresAt ?? values.expiresAt,
    ...changedTerm(values, expiresAt),
    updatesUntil,
    ownFeatures: merge(values.ownFeatures, ownFeatures),
    ownEntitlements: merge(values.ownEntitlements, ownEntitlements),
  };
}

/** Returns the values of both by their names, those of the change first, without the names that the change removes. */
function merge<Value>(
  values: Readonly<Record<string, Value>>,
  changes: Readonly<Record<string, Value | null>>,
): Record<string, Value> {
  const merged = Object.entries({ ...values, ...changes });
  return Object.fromEntries(merged.flatMap(([name, value]) => (value === null ? [] : [[name, value]])));
}

/**
 * Returns the values that differ, the tier first. At `now` it also returns which features go and come with another tier,
 * and with `used`, the use of this month, whether the quota is used up by the change. With `taken` it also returns how many of the
 * places are taken, if any are.
 */
export function effectsOf(
  before: LicenseValues,
  after: LicenseValues,
  { now, used, taken = 0 }: { readonly now?: Date; readonly used?: number; readonly taken?: number } = {},
): Effect[] {
  const isLess = (was: number | null, is: number | null) =>
    (is ?? Number.POSITIVE_INFINITY) < (was ?? Number.POSITIVE_INFINITY);
  const [endsOn, endsAt] = [before, after].map(({ expiresAt }) => renderEnd(expiresAt));
  const effects: Effect[] = [
    {
      what: "tier",
      from: before.tier,
      to: after.tier,
      loss: includesTier(after.tier, before.tier) ? undefined : "lower tier",
    },
    {
      what: "monthly limit",
      from: renderLimit(before.monthlyLimit),
      to: renderLimit(after.monthlyLimit),
      loss: isLess(before.monthlyLimit, after.monthlyLimit) ? "lower monthly limit" : undefined,
    },
    ...(used === undefined ? [] : quotaEffects(before, after, used)),
    ...(now === undefined ? [] : tierFeatureEffects(before, after, now)),
    {
      what: "machines",
      from: describePlaces(before),
      to: describePlaces(after),
      loss: isLess(before.maxMachines, after.maxMachines)
        ? "fewer machines"
        : isLess(before.seatMinutes, after.seatMinutes) && before.seatMinutes !== null
          ? "shorter seats"
          : undefined,
    },
    ...(taken > 0 ? [takenEffect(before, after, taken)] : []),
    ...ofClients(before, after),
    {
      what: "offline days",
      from: describeOfflineDays(before),
      to: describeOfflineDays(after),
      loss: isFewerThan(after.maxOfflineDays, before.maxOfflineDays) ? "fewer offline days" : undefined,
    },
    { what: "term", from: describeTerm(before), to: describeTerm(after) },
    {
      what: "expiry",
      from: endsOn === endsAt ? toTimestamp(before.expiresAt) : (endsOn ?? ""),
      to: endsOn === endsAt ? toTimestamp(after.expiresAt) : (endsAt ?? ""),
      loss: after.expiresAt < before.expiresAt ? "earlier end" : undefined,
    },
    {
      what: "updates until",
      ...describeEnds(before.updatesUntil, after.updatesUntil),
      loss: isEarlier(before.updatesUntil, after.updatesUntil) ? "earlier end of updates" : undefined,
    },
    ...namesOf(before.ownFeatures, after.ownFeatures).map((name) => ({
      what: `feature ${name}`,
      from: describeFeature(before.ownFeatures[name]),
      to: describeFeature(after.ownFeatures[name]),
      loss: losesFeature(before, after, name) ? "fewer features" : undefined,
    })),
    ...valueEffectsOf(before, after),
    { what: "external id", from: before.externalId ?? "none", to: after.externalId ?? "none" },
  ];
  return effects.filter(({ from, to }) => from !== to);
}

/** Tells whether a change uses up the quota of the month, so that the service refuses the keys. */
export function usesUp(effects: readonly Effect[]): boolean {
  return effects.some(({ what, loss }) => what === QUOTA && loss !== undefined);
}

/** Tells whether machines lose places by a change of the limit: all of them, or only further ones. */
export function placesLostBy(effects: readonly Effect[]): keyof typeof PLACES_LOST | undefined {
  const has = (lost: keyof typeof PLACES_LOST) => effects.some(({ loss }) => loss === PLACES_LOST[lost]);
  return has("all") ? "all" : has("further") ? "further" : undefined;
}

/** Returns what differs of what clients may do with machines: also the usual, where seats decide it and machines are counted. */
function ofClients(before: Allowances, after: Allowances): Effect[] {
  const areCounted = before.maxMachines !== null && after.maxMachines !== null;
  const effects: Effect[] = [];
  if (areCounted || before.selfReleases !== after.selfReleases)
    effects.push({
      what: "releases by clients",
      from: describeSelfReleases(before),
      to: describeSelfReleases(after),
      loss: isFewerThan(after.selfReleases, before.selfReleases) ? "fewer releases by clients" : undefined,
    });
  if (areCounted || before.showsMachines !== after.showsMachines)
    effects.push({
      what: "names of machines for clients",
      from: describeShowsMachines(before),
      to: describeShowsMachines(after),
      loss: showsNames(before) && !showsNames(after) ? "no names of machines" : undefined,
    });
  return effects;
}

/** Tells whether a license gets fewer of something than before. Null is the usual number, which is not known here. */
function isFewerThan(is: number | null, was: number | null): boolean {
  return is === 0 ? was !== 0 : is !== null && was !== null && is < was;
}

/** What decides the values of a license, as far as it is known. */
type Valued = Pick<LicenseValues, "ownEntitlements" | "tierEntitlements">;

/** Returns the values such as `channels` that differ: the own ones of the license, and those of its tier. */
export function valueEffectsOf(before: Valued, after: Valued): Effect[] {
  const [was, is] = [before, after].map(({ tierEntitlements, ownEntitlements }) => ({
    ...tierEntitlements,
    ...ownEntitlements,
  }));
  const effects = namesOf({ ...was }, { ...is }).map((name) => ({
    what: `value ${name}`,
    from: describeValue(before, name),
    to: describeValue(after, name),
    loss: lossOf(was?.[name], is?.[name]),
  }));
  return effects.filter(({ from, to }) => from !== to);
}

/** Says a value of a license, and whether it is that of the tier. */
function describeValue({ ownEntitlements, tierEntitlements = {} }: Valued, name: string): string {
  const [own, ofTier] = [ownEntitlements[name], tierEntitlements[name]];
  return own === undefined && ofTier !== undefined
    ? `${describeEntitlement(ofTier)} by the tier`
    : describeEntitlement(own);
}

function namesOf(before: object, after: object): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
}

/** Tells whether a license has a feature for a shorter time than before, apart from what its tier gives. */
function losesFeature(before: LicenseValues, after: LicenseValues, name: string): boolean {
  const [was, is] = [before, after].map(({ ownFeatures: { [name]: own } }) => own);
  const had = was?.granted ?? featuresOf(before.tier).includes(name);
  if (is?.granted === false) return had || isShorter(was?.until, is.until);
  if (!was?.granted) return false;
  return !featuresOf(after.tier).includes(name) && (is === undefined || isShorter(is.until, was.until));
}

/** Tells whether a time until the first instant ends before that until the second one. */
function isShorter(one: string | undefined, other: string | undefined): boolean {
  return (
    (one ? Date.parse(one) : Number.POSITIVE_INFINITY) <
    (other ? Date.parse(other) : Number.POSITIVE_INFINITY)
  );
}

/** Says what is lost of a value that is removed or becomes a lower number; what a text means is not known here. */
function lossOf(was: Entitlement | undefined, is: Entitlement | undefined): string | undefined {
  if (was === undefined) return undefined;
  if (is === undefined) return "value removed";
  const isLower = typeof was === "number" && typeof is === "number" && is < was;
  return isLower || (was === true && is === false) ? "lower value" : undefined;
}

/** Describes two ends of updates by their days, or by their times if both are on one day. */
function describeEnds(before: Date | null, after: Date | null): Pick<Effect, "from" | "to"> {
  const [from, to] = [before, after].map((updatesUntil) => describeUpdates({ updatesUntil }));
  return from === to && before && after
    ? { from: toTimestamp(before), to: toTimestamp(after) }
    : { from: from ?? "", to: to ?? "" };
}

/** Tells whether an end becomes earlier; null is no end. */
function isEarlier(from: Date | null, to: Date | null): boolean {
  return to !== null && (from === null || to < from);
}

/** Renders the day of an end, or `never`. */
function renderEnd(at: Date): string {
  return at.getTime() === NEVER_EXPIRES.getTime() ? "never" : toDay(at);
}

function renderLimit(limit: number | null): string {
  return limit === null ? "unlimited" : renderCount(limit);
}

/** Renders effects as one line: `tier from research to free; monthly limit from 50,000 to 10,000`. */
export function renderEffects(effects: readonly Effect[]): string {
  return effects.map(({ what, from, to }) => `${what} from ${from} to ${to}`).join("; ");
}

/** Renders the values before a change as JSON, without those that stay: commands and the API show the same. */
export function renderBefore(before: LicenseValues, after: LicenseValues) {
  const [was, is] = [before, after].map(
    ({
      tier,
      monthlyLimit,
      expiresAt,
      updatesUntil,
      ownFeatures,
      ownEntitlements,
      externalId,
      ...terms
    }) => ({
      tier,
      monthly_limit: monthlyLimit,
      ...renderAllowances(terms),
      ...renderFields(TERM_FIELDS, terms),
      expires_at: toTimestamp(expiresAt),
      updates_until: updatesUntil && toTimestamp(updatesUntil),
      own_features: ownFeatures,
      own_entitlements: ownEntitlements,
      external_id: externalId,
    }),
  );
  const entries = Object.entries(was ?? {}).filter(
    ([name, value]) => !isDeepStrictEqual(value, Object(is)[name]),
  );
  return Object.fromEntries(entries) as Partial<typeof was>;
}

/** Refuses more features and values than a license can have at an instant; undefined if it can have them. */
export function refuseTooMuch(
  what: string,
  { ownFeatures, ownEntitlements }: Pick<LicenseValues, "ownFeatures" | "ownEntitlements">,
  now: Date,
): Refusal | undefined {
  if (areTooManyFeatures(ownFeatures, now)) return refuseTooManyFeatures(what);
  return areTooMany(ownEntitlements)
    ? refuseTooManyEntitlements(what, "license", "own_entitlements")
    : undefined;
}

/** Refuses a change that gives a license, its updates or a granted feature an earlier end; undefined if it does not. */
export function refuseShorter(
  what: string,
  before: LicenseValues,
  after: LicenseValues,
): Refusal | undefined {
  if (after.expiresAt < before.expiresAt)
    return refuseEarlierEnd(what, { from: before.expiresAt, to: after.expiresAt });
  const { updatesUntil: to } = after;
  if (to !== null && isEarlier(before.updatesUntil, to))
    return refuseEarlierEnd(what, { from: before.updatesUntil, to, of: "end of updates" });
  for (const [name, is] of Object.entries(after.ownFeatures)) {
    const was = before.ownFeatures[name];
    if (!is.granted || !was?.granted || is.until === undefined || !isShorter(is.until, was.until)) continue;
    const from = was.until === undefined ? null : new Date(was.until);
    return refuseEarlierEnd(what, { from, to: new Date(is.until), of: `end of the feature ${name}` });
  }
  return undefined;
}

/**
 * Refuses an earlier end that nobody has asked for expressly. `what` is the refused action, such as `renew license`, and `of`
 * the end.
 */
export function refuseEarlierEnd(
  what: string,
  { from, to, of = "expiry" }: { readonly from: Date | null; readonly to: Date; readonly of?: string },
): Refusal {
  const was = from === null || from.getTime() === NEVER_EXPIRES.getTime() ? "never" : toTimestamp(from);
  return refuse(
    "CONFLICT",
    `Cannot ${what}: the ${of} would become earlier, from ${was} to ${toTimestamp(to)}`,
    {
      remedy: { name: "shorten" },
    },
  );
}
