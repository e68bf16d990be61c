/**
 * The features of a license: those of its tier, and those that it was granted, without those that were withdrawn.
 *
 * A license stores only the differences, and its features are computed when they are read. So a feature that a tier gets
 * later reaches every license that exists.
 */
import * as v from "valibot";
import { fieldsOf } from "../base/answer_fields.ts";
import { describeEnd, END, toTimestamp } from "../base/calendar.ts";
import { condition } from "../base/condition.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { booleanField, inJsonSchema, type ParsingRule, parsedField, type Rule } from "../base/rule.ts";
import { redactKeys } from "../base/secrets/mod.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { featuresOf, type Tier } from "./tiers.ts";

/** A feature of a license that its tier does not decide. */
export interface OwnFeature {
  /** Granted, or withdrawn. */
  readonly granted: boolean;
  /** When the tier decides again, as a timestamp; missing: never. */
  readonly until?: string;
}

/** The features of a license that its tier does not decide, by their names. */
export type OwnFeatures = Readonly<Record<string, OwnFeature>>;

/** A change of features, by their names; null leaves a feature to the tier. */
export type FeatureChanges = Readonly<Record<string, OwnFeature | null>>;

/** What decides the features of a license. */
export interface Featured {
  readonly tier: Tier;
  readonly ownFeatures: OwnFeatures;
}

/** The most features that a license can have beside its tier. */
export const MOST_OWN_FEATURES = 32;

/** The constraint of that number. */
export const FEATURES_BOUNDED = "own_features_bounded";

/**
 * Not the two names that every object of JavaScript has: a client would find them in an answer without them. Nor the claims of
 * a signed license that the module in shell of version 0.5 finds by their names, also within its values.
 */
const NAME_FORM =
  /^(?!(?:constructor|prototype|aud|exp|fingerprint|iat|key_id|license_type|nbf)$)[a-z][a-z0-9_]{0,63}$/;

/** The rule for the name of a feature or of a value. A name that no tier has is the vendor's own. */
export const FEATURE: Rule<string> = {
  expects:
    "a name of 1 to 64 of the characters a to z, 0 to 9 and _ that begins with a letter; not constructor, prototype, or a claim of signed licenses such as exp",
  keywords: { pattern: NAME_FORM.source },
  parse: (text) => (isName(text) ? text : undefined),
};

/** The condition of lists of keys. */
export const FEATURE_CONDITION = condition(
  "only keys whose license has this feature now, by its tier or beside it",
  FEATURE,
  { as: "name" },
);

/** Returns the names that a license has at an instant: those of the tiers in their order, then the vendor's own. */
export function featuresAt({ tier, ownFeatures }: Featured, now: Date): string[] {
  const ofTier = featuresOf(tier);
  const own = Object.entries(ownFeatures).filter(([, each]) => holdsAt(each, now));
  if (own.length === 0) return ofTier;
  const has = new Map([...ofTier.map((name) => [name, true] as const), ...own.map(toGranted)]);
  const known = featuresOf("enterprise").filter((name) => has.get(name));
  const others = [...has.keys()].filter((name) => has.get(name) && !known.includes(name));
  return [...known, ...others.sort()];
}

function toGranted([name, { granted }]: readonly [string, OwnFeature]) {
  return [name, granted] as const;
}

function holdsAt({ until }: OwnFeature, now: Date): boolean {
  return until === undefined || Date.parse(until) > now.getTime();
}

/**
 * Returns what a license that is signed for use without a network says: the features that it has from `now` to `end`, and
 * those that end earlier with their ends. A feature that is withdrawn now and comes back earlier is in neither.
 */
export function featuresThrough(
  { tier, ownFeatures }: Featured,
  { now, end }: { readonly now: Date; readonly end: Date },
): { readonly features: string[]; readonly ends: Readonly<Record<string, string>> } {
  const ofTier = featuresOf(tier);
  const present = featuresAt({ tier, ownFeatures }, now);
  const ends: Record<string, string> = {};
  for (const name of present) {
    const { until } = ownFeatures[name] ?? {};
    if (until !== undefined && !ofTier.includes(name) && Date.parse(until) < end.getTime())
      ends[name] = until;
  }
  return { features: present.filter((name) => !(name in ends)), ends };
}

/** Refuses a feature whose end has passed; undefined if none has. `what` is what cannot be done, such as `issue key`. */
export function refusePastFeature(
  what: string,
  changes: FeatureChanges | undefined,
  now: Date,
): Refusal | undefined {
  const past = Object.entries(changes ?? {}).find(([, own]) => own !== null && !holdsAt(own, now));
  if (past === undefined) return undefined;
  const why = `the end of the feature ${past[0]} has passed`;
  const fields = [{ field: "own_features", error: why }];
  return refuse("INVALID_REQUEST", `Cannot ${what}: ${why}`, { fields });
}

/** Tells whether there are too many, without those that have ended: a change drops these then. */
export function areTooManyFeatures(own: OwnFeatures, now: Date): boolean {
  return Object.values(own).filter((each) => holdsAt(each, now)).length > MOST_OWN_FEATURES;
}

/** Refuses more features beside the tier than a license can have. */
export function refuseTooManyFeatures(what: string): Refusal {
  const why = `a license has at most ${MOST_OWN_FEATURES} features beside its tier; leave some to the tier again`;
  const fields = [{ field: "own_features", error: why }];
  return refuse("INVALID_REQUEST", `Cannot ${what}: ${why}`, { fields });
}

/** Returns the next instant at which the features of a license differ by the clock alone, in milliseconds; infinite if none. */
export function featuresChangeAt({ ownFeatures }: Pick<Featured, "ownFeatures">, nowMs: number): number {
  return Object.values(ownFeatures).reduce((soonest, { until }) => {
    const endMs = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until);
    return endMs > nowMs ? Math.min(soonest, endMs) : soonest;
  }, Number.POSITIVE_INFINITY);
}

/**
 * Tells what `custom_models` decides beside the tier for the models of the license's own account: all of them if it is
 * granted, none if it is withdrawn; undefined: the tier decides.
 */
export function customModelsAt(
  { ownFeatures }: Pick<Featured, "ownFeatures">,
  now: Date,
): boolean | undefined {
  const own = ownFeatures[CUSTOM_MODELS];
  return own !== undefined && holdsAt(own, now) ? own.granted : undefined;
}

const CUSTOM_MODELS = "custom_models";

/** Returns the same for a row of `licenses` with the alias `l`, as SQL. */
export function hasCustomModels(sql: Sql, now: Date): Fragment {
  return sql`
    (select (own->>'granted')::boolean from (select l.own_features->${CUSTOM_MODELS}::text as own) of
      where coalesce((own->>'until')::timestamptz, 'infinity') > ${now}::timestamptz)`;
}

/** Says in words what a license has of a feature beside its tier. */
export function describeFeature(own: OwnFeature | undefined): string {
  if (own === undefined) return "as the tier has it";
  const end = own.until === undefined ? "" : ` until ${describeEnd(own.until)}`;
  return `${own.granted ? "granted" : "withdrawn"}${end}`;
}

/**
 * Renders the features beside the tier as {@linkcode OWN_FEATURES} reads them, such as
 * `custom_models until 2027-06-30, no streaming`.
 */
export function renderOwnFeatures(own: OwnFeatures): string {
  return Object.entries(own)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, { granted, until }]) => {
      const end = until === undefined ? "" : ` until ${describeEnd(until)}`;
      return `${granted ? "" : "no "}${name}${end}`;
    })
    .join(", ");
}

const FEATURE_TEXT = /^(no |-|\+)?([^\s]+)(?: until (\S+))?$/;

/** The rule for features beside the tier as one text, for commands, forms and CSV. */
export const OWN_FEATURES: ParsingRule<OwnFeatures> = {
  expects:
    "names of features separated by commas, such as custom_models until 2027-06-30, no streaming: at most " +
    `${MOST_OWN_FEATURES}, each once, and each ${FEATURE.expects}`,
  parse(text) {
    const parts = text.split(",").map((part) => FEATURE_TEXT.exec(part.trim().replaceAll(/\s+/g, " ")));
    const own = parts.flatMap((part) => {
      const [, sign, name = "", end] = part ?? [];
      const until = end === undefined ? undefined : END.parse(end);
      if (!isName(name) || (end !== undefined && until === undefined)) return [];
      const granted = sign !== "no " && sign !== "-";
      return [[name, until === undefined ? { granted } : { granted, until: toTimestamp(until) }] as const];
    });
    const isWhole = own.length === parts.length && new Set(own.map(([name]) => name)).size === own.length;
    return isWhole && own.length <= MOST_OWN_FEATURES ? Object.fromEntries(own) : undefined;
  },
};

/** The schema of an end in a request: its last day, or a time. It is stored in whole seconds. */
const untilField = v.pipe(parsedField(END), v.transform(toTimestamp));

const ownFeature = v.pipe(
  v.strictObject(
    { granted: booleanField(), until: v.nullish(untilField) },
    "must be an object with granted and, if it ends, until",
  ),
  v.transform(({ granted, until }): OwnFeature => (until == null ? { granted } : { granted, until })),
);

/** Returns the schema of an object whose names follow {@linkcode FEATURE}. */
export function byName<Value extends v.GenericSchema<unknown, unknown>>(value: Value, most: number) {
  const name = v.pipe(v.string(), v.check(isName, `has a name that must be ${FEATURE.expects}`));
  const record = v.record(name, value, "must be an object");
  return v.pipe(
    // The library takes a list for an object without names, and leaves out names that every object has.
    { ...record, "~run": (sent, config) => record["~run"](withoutOdd(sent), config) } as typeof record,
    v.check((given) => Object.keys(given).length <= most, `must have at most ${most} names`),
    inJsonSchema({ propertyNames: FEATURE.keywords, maxProperties: most }),
  );
}

function withoutOdd({ value }: { readonly value: unknown }): v.UnknownDataset {
  const isOdd =
    Array.isArray(value) ||
    ["__proto__", "constructor", "prototype"].some((name) => Object.hasOwn(Object(value), name));
  return { value: isOdd ? null : value };
}

/** A name that looks like a key would be stored in clear, and shown. */
function isName(name: string): boolean {
  return NAME_FORM.test(name) && redactKeys(name) === name;
}

/** The features that a new license has beside its tier. */
export const OWN_FEATURES_FIELD = byName(ownFeature, MOST_OWN_FEATURES);

/** The schema of a change of features. */
export const FEATURE_CHANGES_FIELD = byName(v.nullable(ownFeature), MOST_OWN_FEATURES);

const field = fieldsOf<Featured & { readonly features: readonly string[] }>();

/** The features of a license, for every answer to operators that has its tier. */
export const FEATURES_FIELDS = {
  features: field(
    v.array(v.string()),
    ({ features }) => [...features],
    "What the license has now: the features of its tier and those granted, without those withdrawn",
  ),
  own_features: field(
    v.record(v.string(), v.object({ granted: v.boolean(), until: v.optional(v.string()) })),
    ({ ownFeatures }) => ownFeatures,
    "What the tier does not decide, by name: granted or withdrawn, until when",
  ),
} as const;

/** Returns SQL that adds the features of a license beside its tier to a `jsonb` of the audit log, if there are some. */
export function withFeatures(sql: Sql, row: Fragment): Fragment {
  return sql`|| case when ${row}.own_features = '{}' then '{}'::jsonb
                     else jsonb_build_object('own_features', ${row}.own_features) end`;
}
