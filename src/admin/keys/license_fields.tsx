/** @jsxImportSource hono/jsx */
/** Fields that a form of a new key and the forms of its license have: how they look, and what they mean. */
import * as v from "valibot";
import { DAY, END, isForEver, NEVER_EXPIRES, PAST_EXPIRY, TIMESTAMP, toDay } from "../../base/calendar.ts";
import type { Refusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField, wordField } from "../../base/rule.ts";
import {
  type Allowances,
  MAX_MACHINES,
  MAX_OFFLINE_DAYS,
  MONTHLY_LIMIT,
  monthlyLimitOf,
  SEAT_MINUTES,
  SELF_RELEASES,
  TERM_DAYS,
  TIERS,
  type Updates,
  YES_OR_NO,
} from "../../licensing/mod.ts";
import type { FormProps } from "../frame/console/action.ts";
import { CheckBox, optionsOf, RadioButtons, Select, TextField } from "../frame/console/components/form.tsx";
import { type FieldsOf, refuseFields, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";

interface FieldProps {
  readonly field: FormProps<unknown>["field"];
  /** The text of the field before anything is entered. */
  readonly proposed?: string | undefined;
}

/** The tiers as choices of a field, each with its monthly limit. */
export const TIER_CHOICES = TIERS.map((tier) => ({
  value: tier,
  label: `${tier}, ${describeLimit(monthlyLimitOf(tier))}`,
}));

/** Says a monthly limit in words: `50,000 a month`. */
export function describeLimit(limit: number | null): string {
  return limit === null ? "unlimited" : `${renderCount(limit)} a month`;
}

/** The last day of a license, or that it has none. */
export function ExpiryFields({ field, proposed, hint }: FieldProps & { readonly hint: string }) {
  return (
    <>
      <TextField {...field("last_day", proposed)} label="Last day" hint={hint} />
      <CheckBox {...field("never")} label="It never expires" />
      <LastingHint />
    </>
  );
}

const LastingHint = () => (
  <p class="hint">
    An end that is never, or more than ten years ahead, needs a login of the last five minutes.
  </p>
);

/** The end that each of many licenses gets. */
export function ManyExpiryFields({ field }: Pick<FieldProps, "field">) {
  return (
    <RadioButtons
      {...field("term", "year")}
      label="New expiry"
      choices={optionsOf(TERMS, (term) => TERM_LABELS[term])}
    >
      <TextField
        {...field("last_day")}
        label="Last day"
        hint="The keys work until the end of this day, UTC."
      />
      <LastingHint />
    </RadioButtons>
  );
}

const TERMS = ["year", "never", "day"] as const;
type Term = (typeof TERMS)[number];
const TERM_LABELS: Readonly<Record<Term, string>> = {
  year: "One year from each expiry; from now, if it has expired",
  never: "Never",
  day: "The same last day for all:",
};

/** The fields of an expiry of many licenses; a form for one has no term. */
export const MANY_EXPIRY_ENTRIES = {
  term: v.optional(wordField(TERMS)),
  /** When the page showed what would change: a year from then is what an expired license gets. */
  shown_at: v.optional(parsedField(TIMESTAMP)),
} as const;

/** The fields of an expiry. */
export const EXPIRY_ENTRIES = {
  last_day: v.optional(v.string(), ""),
  never: v.optional(v.string()),
} as const;

/** Returns the expiry that the fields mean: the last second of the last day. Refuses one that is past. */
export function expiryOf(
  { last_day: day, never }: FieldsOf<typeof EXPIRY_ENTRIES>,
  now: Date,
): Date | Refusal {
  if (never !== undefined) return NEVER_EXPIRES;
  const expiresAt = DAY.parse(day) && END.parse(day);
  if (expiresAt && expiresAt > now) return expiresAt;
  const error = expiresAt ? PAST_EXPIRY : `It must be ${DAY.expects}`;
  return refuseFields([{ field: "last_day", error }]);
}

/** Says what only a fresh proof of who the operator is allows, if a license is to end so late; otherwise undefined. */
export function proofForEnd(expiresAt: Date, now: Date): string | undefined {
  return isForEver(expiresAt, now) ? "let a license last for more than ten years" : undefined;
}

/**
 * Says what only a fresh proof of who the operator is allows, if clients are to get signed licenses for more days than before
 * and than the `usual` ones of the tier: no revocation ends these licenses. Otherwise undefined.
 */
export function proofForDays(
  days: number | null | undefined,
  { usual, before = null }: { readonly usual: number; readonly before?: number | null },
): string | undefined {
  if (days === null || days === undefined || days <= Math.max(usual, before ?? 0)) return undefined;
  return `let clients have signed licenses for more than the ${counted(usual, "offline day")} of the tier`;
}

/** A monthly limit; empty for the tier's own. */
export function LimitField({ field, proposed, label }: FieldProps & { readonly label: string }) {
  return (
    <TextField
      {...field("monthly_limit", proposed)}
      label={label}
      inputmode="numeric"
      hint="Inferences a month, such as 50,000; empty for the tier's limit. With 0 the service refuses the key."
    />
  );
}

/** The field of a monthly limit: undefined for the tier's own. */
export const LIMIT_ENTRY = {
  monthly_limit: v.pipe(
    TEXT_OR_NOTHING,
    // As pages print a count: 50,000. Some people write blanks in place of commas.
    v.transform((text) => text?.replaceAll(/(?<=\d)[,\s](?=\d{3}(\D|$))/g, "")),
    v.optional(parsedField(MONTHLY_LIMIT)),
  ),
} as const;

/** The machine limit of a license, and what its clients may do with its machines; empty for none, or the usual. */
export function PlacesFields({ field, of }: Pick<FieldProps, "field"> & { readonly of?: Allowances }) {
  const shown = of?.showsMachines;
  return (
    <>
      <TextField
        {...field("max_machines", String(of?.maxMachines ?? ""))}
        label="Machine limit (optional)"
        inputmode="numeric"
        hint="On how many machines the license may run; empty: they are not counted."
      />
      <TextField
        {...field("seat_minutes", String(of?.seatMinutes ?? ""))}
        label="Seat minutes (optional)"
        inputmode="numeric"
        hint="How long a machine keeps its place after its last heartbeat: up to 1,440 for a floating seat, up to 129,600 (90 days) for node-locked machines that check in; empty: until it is released."
      />
      <TextField
        {...field("self_releases", String(of?.selfReleases ?? ""))}
        label="Releases by clients (optional)"
        inputmode="numeric"
        hint="How many machines clients may release by their ids in 30 days; empty: 3, or for floating seats ten times the places in a day."
      />
      <Select
        {...field("shows_machines", shown === true ? "yes" : shown === false ? "no" : "")}
        label="Clients see the names of the machines"
        choices={[
          { value: "", label: "if they are node-locked" },
          { value: "yes", label: "yes" },
          { value: "no", label: "no" },
        ]}
      />
    </>
  );
}

/** For how many days clients get signed licenses; empty: as the tier says. */
export function OfflineDaysField({ field, of }: Pick<FieldProps, "field"> & { readonly of?: Allowances }) {
  return (
    <TextField
      {...field("max_offline_days", String(of?.maxOfflineDays ?? ""))}
      label="Offline days (optional)"
      inputmode="numeric"
      hint="For how many days clients get signed licenses, which work without a network; 0: none; empty: as the tier says. More than the tier has need a login of the last five minutes."
    />
  );
}

/** The field of the offline days: undefined for those of the tier. */
export const OFFLINE_DAYS_ENTRY = {
  max_offline_days: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(MAX_OFFLINE_DAYS))),
} as const;

/** The term of a new license that starts on its first use. */
export function TermFields({ field }: Pick<FieldProps, "field">) {
  return (
    <>
      <CheckBox {...field("starts_on_first_use")} label="It starts on its first use, and has no last day" />
      <TextField
        {...field("term_days")}
        label="Term days (only with a start on first use)"
        inputmode="numeric"
        hint="How many days after its first use the license ends."
      />
      <TextField
        {...field("latest_start")}
        label="Latest start (optional)"
        hint="The days count from this day, UTC, at the latest, also without a use; empty: from a year from now."
      />
    </>
  );
}

/** The fields of a term. */
export const TERM_ENTRIES = {
  starts_on_first_use: v.optional(v.string()),
  term_days: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(TERM_DAYS))),
  latest_start: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(END))),
} as const;

/** The last day of updates; empty for every version. */
export function UpdatesField({
  field,
  of,
}: Pick<FieldProps, "field"> & { readonly of?: Updates | undefined }) {
  return (
    <TextField
      {...field("updates_until", of?.updatesUntil ? toDay(of.updatesUntil) : "")}
      label="Updates until (optional)"
      hint="The last day, UTC, on which new versions of models are for the license; empty: every version is."
    />
  );
}

/** The field of the end of updates: undefined for every version. */
export const UPDATES_ENTRY = {
  updates_until: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(END))),
} as const;

/** The fields of the places: undefined for none. */
export const PLACES_ENTRIES = {
  max_machines: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(MAX_MACHINES))),
  seat_minutes: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(SEAT_MINUTES))),
  self_releases: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(SELF_RELEASES))),
  shows_machines: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(YES_OR_NO))),
} as const;

/** The values of a license as one text. */
export function ValuesField({
  field,
  ...shown
}: Pick<FieldProps, "field"> & {
  readonly label: string;
  readonly hint: string;
  readonly required?: boolean;
}) {
  return <TextField {...field("own_entitlements")} {...shown} />;
}
