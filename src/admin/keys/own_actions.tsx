/** @jsxImportSource hono/jsx */
/** The actions that change the features and the values that a license has beside its tier. */
import * as v from "valibot";
import { END, toTimestamp } from "../../base/calendar.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { parsedField, wordField } from "../../base/rule.ts";
import {
  ENTITLEMENT_CHANGES,
  entitlementsOf,
  FEATURE,
  type FeatureChanges,
  featuresOf,
  refusePastFeature,
  renderEntitlements,
} from "../../licensing/mod.ts";
import { action, type FormProps } from "../frame/console/action.ts";
import { SHORTEN_ENTRY, ShortenField } from "../frame/console/components/end.tsx";
import { optionsOf, RadioButtons, TextField } from "../frame/console/components/form.tsx";
import { Foreign } from "../frame/console/components/values.tsx";
import { cutText } from "../frame/console/cut_text.ts";
import { type FieldsOf, refuseFields, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { changesLicense, forAllKeys } from "./changes_license.ts";
import { describeOwnFeatures } from "./grants.tsx";
import { type ActedKey, CHANGE_GROUP, type KeyAction, mayStay } from "./key_action.ts";
import { ValuesField } from "./license_fields.tsx";

/** A list in a form is cut to so many characters. */
const MOST_LISTED_CHARACTERS = 400;

/** One feature of a license, and what is to decide it. */
function FeatureFields({ field }: Pick<FormProps<unknown>, "field">) {
  return (
    <>
      <TextField
        {...field("feature")}
        label="Feature"
        hint={`One of the tiers' features (${featuresOf("enterprise").join(", ")}), or a name of your own.`}
        required
      />
      <RadioButtons
        {...field("decided", "granted")}
        label="The license"
        choices={optionsOf(DECIDED, (decided) => DECIDED_LABELS[decided])}
      />
      <TextField
        {...field("until")}
        label="Until (optional)"
        hint="The last day, UTC, after which the tier decides again; empty: without an end."
      />
    </>
  );
}

const DECIDED = ["granted", "withdrawn", "tier"] as const;
type Decided = (typeof DECIDED)[number];
const DECIDED_LABELS: Readonly<Record<Decided, string>> = {
  granted: "has it",
  withdrawn: "does not have it",
  tier: "has it if its tier has it",
};

/** The fields of a feature. */
const FEATURE_ENTRIES = {
  feature: v.pipe(TEXT, parsedField(FEATURE)),
  decided: v.pipe(TEXT, wordField(DECIDED)),
  until: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(END))),
} as const;

/** Returns the change that the fields mean. Refuses an end that is past, and an end of what the tier decides. */
function featureChangeOf(
  { feature, decided, until }: FieldsOf<typeof FEATURE_ENTRIES>,
  now: Date,
): FeatureChanges | Refusal {
  const wrong = (error: string) => refuseFields([{ field: "until", error }]);
  if (decided === "tier")
    return until === undefined ? { [feature]: null } : wrong("It must be empty if the tier decides");
  const granted = decided === "granted";
  const change = { [feature]: until === undefined ? { granted } : { granted, until: toTimestamp(until) } };
  const past = refusePastFeature("change features", change, now);
  return past === undefined ? change : wrong(past.fields?.[0]?.error ?? past.stem);
}

export const changeFeatures: KeyAction = action({
  name: "features",
  isRare: true,
  scope: "keys:manage",
  label: "Change features",
  group: CHANGE_GROUP,
  submit: "Change the feature",
  toMany: true,
  fits: mayStay,
  Form: ({ of, of: { key }, field, now, isMany }) => (
    <>
      <p>{`${forAllKeys(of)} The other features stay.`}</p>
      {!isMany && <p>{`Now: ${shorten(key.features.join(", "))}.`}</p>}
      {!isMany && (
        <p>{`Beside the tier ${key.tier}: ${shorten(describeOwnFeatures(key.ownFeatures, now))}.`}</p>
      )}
      <FeatureFields field={field} />
      <ShortenField field={field} />
    </>
  ),
  ...changesLicense(
    "change features",
    { ...FEATURE_ENTRIES, ...SHORTEN_ENTRY },
    ({ shorten, ...fields }, { now }) => {
      const ownFeatures = featureChangeOf(fields, now);
      return isRefusal(ownFeatures) ? ownFeatures : { ownFeatures, shorten };
    },
  ),
  done: { "license.features": sayFeatures },
});

/** Cuts features or values for a form; the page above has all of them. */
function shorten(list: string): string {
  return cutText(list, MOST_LISTED_CHARACTERS) || "none";
}

function sayFeatures({ key: { features } }: ActedKey): string {
  return `All keys of the license have now: ${features.join(", ") || "no feature"}.`;
}

/** The field of changes of values: at least one. */
const VALUES_ENTRY = {
  own_entitlements: v.pipe(
    TEXT,
    v.nonEmpty(`must be ${ENTITLEMENT_CHANGES.expects}`),
    parsedField(ENTITLEMENT_CHANGES),
  ),
} as const;

export const changeValues: KeyAction = action({
  name: "values",
  isRare: true,
  scope: "keys:manage",
  label: "Change values",
  group: CHANGE_GROUP,
  submit: "Change the values",
  toMany: true,
  fits: mayStay,
  Form: ({ of, of: { key }, field, isMany }) => (
    <>
      <p>{`${forAllKeys(of)} The values that are not named stay.`}</p>
      {!isMany && (
        <p>
          Of the license itself: <Foreign text={shorten(renderEntitlements(key.ownEntitlements))} />.
        </p>
      )}
      {!isMany && (
        <p>
          {`Of the tier ${key.tier}: `}
          <Foreign text={shorten(renderEntitlements(key.tierEntitlements))} />.
        </p>
      )}
      <ValuesField
        field={field}
        label="Values"
        hint="Such as channels=64, region=eu. Nothing behind = removes a value of the license, so that the tier's counts."
        required
      />
    </>
  ),
  ...changesLicense("change values", VALUES_ENTRY, ({ own_entitlements: ownEntitlements }) => ({
    ownEntitlements,
  })),
  done: { "license.values": sayValues },
});

function sayValues({ key }: ActedKey): string {
  return `All keys of the license have now: ${renderEntitlements(entitlementsOf(key)) || "no value"}.`;
}
