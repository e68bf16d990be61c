/** @jsxImportSource hono/jsx */
/**
 * The actions that change the license of a key, and so all keys of that license; those of its own features and values are in
 * `own_actions.tsx`.
 */
import * as v from "valibot";
import { NEVER_EXPIRES, toDay } from "../../base/calendar.ts";
import { isRefusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import {
  describeOfflineDays,
  describePlaces,
  describeTerm,
  describeUpdates,
  isWaiting,
  monthlyLimitOf,
  oneYearAfter,
  renewedByYear,
  TIERS,
  usesUp,
} from "../../licensing/mod.ts";
import { EXTERNAL_ID_FIELD, TIER_FIELD } from "../frame/api/fields.ts";
import { action } from "../frame/console/action.ts";
import { Effects } from "../frame/console/components/changes.tsx";
import { SHORTEN_ENTRY, ShortenField } from "../frame/console/components/end.tsx";
import { Select, TextField } from "../frame/console/components/form.tsx";
import { Day } from "../frame/console/components/values.tsx";
import { TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { BELOW_USE_ENTRY, BelowUseField } from "./below_use.tsx";
import { changesLicense, effectsOfChange, forAllKeys } from "./changes_license.ts";
import { exportLicense } from "./export_license.tsx";
import { type ActedKey, CHANGE_GROUP, HELP_GROUP, type KeyAction, mayStay, takenOf } from "./key_action.ts";
import {
  describeLimit,
  EXPIRY_ENTRIES,
  ExpiryFields,
  expiryOf,
  LIMIT_ENTRY,
  LimitField,
  MANY_EXPIRY_ENTRIES,
  ManyExpiryFields,
  OFFLINE_DAYS_ENTRY,
  OfflineDaysField,
  PLACES_ENTRIES,
  PlacesFields,
  TIER_CHOICES,
  UPDATES_ENTRY,
  UpdatesField,
} from "./license_fields.tsx";

export const renew: KeyAction = action({
  name: "renew",
  scope: "keys:manage",
  label: "Renew",
  group: HELP_GROUP,
  submit: "Renew the license",
  toMany: true,
  fits: mayStay,
  Form({ of, field, now, isMany }) {
    const { key } = of;
    const at = key.licenseExpiresAt;
    const isEndless = at.getTime() === NEVER_EXPIRES.getTime();
    const proposed = oneYearAfter(isEndless || at < now ? now : at);
    return (
      <>
        <p>{isMany ? `${forAllKeys(of)} A rotated key still ends with its overlap.` : renewedOf(of)}</p>
        {isMany ? (
          <ManyExpiryFields field={field} />
        ) : (
          <>
            <p>
              Now the license ends: <Day at={at} now={now} />
            </p>
            {isWaiting(key, now) && (
              <p>{`It waits for its first use: ${describeTerm(key)}. Another end takes the place of this term.`}</p>
            )}
            <ExpiryFields
              field={field}
              proposed={toDay(proposed)}
              hint="The keys work until the end of this day, UTC."
            />
          </>
        )}
        <ShortenField
          field={field}
          label={isMany ? "Allow earlier ends than now" : "Allow an earlier end than now"}
        />
      </>
    );
  },
  ...changesLicense(
    "renew license",
    { ...EXPIRY_ENTRIES, ...MANY_EXPIRY_ENTRIES, ...SHORTEN_ENTRY },
    (fields, { of, now }) => {
      const { term, shown_at: shownAt = now, shorten } = fields;
      const expiresAt =
        term === "year"
          ? renewedByYear(of.key.licenseExpiresAt, shownAt)
          : expiryOf(term === "never" ? { ...fields, never: "yes" } : fields, now);
      return isRefusal(expiresAt) ? expiresAt : { expiresAt, shorten };
    },
  ),
  done: { "license.renew": renewedOf },
  leadsTo: exportLicense.name,
});

/** Says which keys of a license a renewal changes. */
function renewedOf(of: ActedKey): string {
  const { key } = of;
  return key.overlapsSince && key.expiresAt < key.licenseExpiresAt
    ? `This key still ends on ${toDay(key.expiresAt)}; the key that replaced it is renewed.`
    : forAllKeys(of);
}

export const changeTier: KeyAction = action({
  name: "tier",
  scope: "keys:manage",
  label: "Change tier",
  group: CHANGE_GROUP,
  submit: "Change the tier",
  toMany: true,
  fits: mayStay,
  Form: ({ of, field, now, isMany }) => (
    <>
      <p>
        {`${forAllKeys(of)} A monthly limit, features and values of the license's own stay.`}
        {!isMany &&
          ` Now: ${of.key.tier}, ${describeLimit(of.key.monthlyLimit)}. Used this month: ${renderCount(of.key.used)}.`}
      </p>
      {!isMany && <OtherTiers of={of} now={now} />}
      <Select {...field("tier", of.key.tier)} label="Tier" choices={TIER_CHOICES} required />
      {!isMany && TIERS.some((tier) => usesUp(effectsOfChange(of, { tier }, now))) && (
        <BelowUseField field={field} />
      )}
    </>
  ),
  ...changesLicense(
    "change tier",
    { tier: v.pipe(TEXT, TIER_FIELD), ...BELOW_USE_ENTRY },
    ({ tier, below_use: belowUse }) => ({ tier, belowUse }),
  ),
  done: {
    "license.tier": (of) => `${quotaOf(of)} Features now: ${of.key.features.join(", ") || "none"}.`,
  },
  originsOf: ({ key }) => [`/accounts/${key.userId}`],
});

export const changeLimit: KeyAction = action({
  name: "limit",
  scope: "keys:manage",
  label: "Change limit",
  group: CHANGE_GROUP,
  submit: "Change the limit",
  toMany: true,
  fits: mayStay,
  Form({ of, field, isMany }) {
    const { key } = of;
    const { used, monthlyLimit: limit } = key;
    const tierLimit = monthlyLimitOf(key.tier);
    const stays = limit !== null && used >= limit ? "stays" : "is";
    return (
      <>
        <p>{forAllKeys(of)}</p>
        {!isMany && (
          <p>
            {`Now: ${describeLimit(limit)}. Used: ${renderCount(used)}. The tier's limit: ${describeLimit(tierLimit)}. `}
            {`At ${renderCount(used)} or less the key ${stays} refused.`}
          </p>
        )}
        {/* Sent unchanged, the tier's limit would become the license's own. */}
        <LimitField
          field={field}
          proposed={String(limit === tierLimit ? "" : (limit ?? ""))}
          label="Monthly limit"
        />
        {!isMany && <BelowUseField field={field} />}
      </>
    );
  },
  ...changesLicense(
    "change monthly limit",
    { ...LIMIT_ENTRY, ...BELOW_USE_ENTRY },
    ({ monthly_limit: limit = null, below_use: belowUse }) => ({ monthlyLimit: limit, belowUse }),
  ),
  done: { "license.limit": quotaOf },
});

export const changeMachines: KeyAction = action({
  name: "machines",
  scope: "keys:manage",
  label: "Change machines",
  group: CHANGE_GROUP,
  submit: "Change the machines",
  toMany: true,
  fits: mayStay,
  Form: ({ of, field, isMany }) => (
    <>
      <p>{`${forAllKeys(of)} A limit below the places that are taken ends none of them: the machines keep them, and no other machine gets one until fewer are taken. Other seat minutes count from the change on: a machine that sends no heartbeat within them loses its place. Without a limit every machine loses its place. A license that was signed for a machine holds its place in both cases.`}</p>
      {!isMany && <p>{`Now: ${describePlaces(of.key)}. ${placesOf(of)}`}</p>}
      <PlacesFields field={field} of={of.key} />
      {!isMany && takenOf(of) > 0 && (
        <BelowUseField field={field} label="Allow a limit below the places that are taken, or none" />
      )}
    </>
  ),
  ...changesLicense(
    "change machines",
    { ...PLACES_ENTRIES, ...BELOW_USE_ENTRY },
    ({ max_machines, seat_minutes, self_releases, shows_machines, below_use: belowUse }) => ({
      belowUse,
      maxMachines: max_machines ?? null,
      seatMinutes: seat_minutes ?? null,
      selfReleases: self_releases ?? null,
      showsMachines: shows_machines ?? null,
    }),
  ),
  done: {
    "license.machines": (of) =>
      `${forAllKeys(of)} ${placesOf(of) || "Machines are not counted now, and none holds a place."}`,
  },
});

export const changeOfflineDays: KeyAction = action({
  name: "offline",
  isRare: true,
  scope: "keys:manage",
  label: "Change offline days",
  group: CHANGE_GROUP,
  submit: "Change the offline days",
  toMany: true,
  fits: mayStay,
  Form: ({ of, field, isMany }) => (
    <>
      <p>{`${forAllKeys(of)} A license that was signed before works until its own end.`}</p>
      {!isMany && <p>{`Now: ${describeOfflineDays(of.key)}.`}</p>}
      <OfflineDaysField field={field} of={of.key} />
    </>
  ),
  ...changesLicense("change offline days", OFFLINE_DAYS_ENTRY, ({ max_offline_days: days = null }) => ({
    maxOfflineDays: days,
  })),
  done: { "license.offline": forAllKeys },
});

export const changeUpdates: KeyAction = action({
  name: "updates",
  isRare: true,
  scope: "keys:manage",
  label: "Change updates",
  group: CHANGE_GROUP,
  submit: "Change the end of updates",
  toMany: true,
  fits: mayStay,
  Form: ({ of, field, isMany }) => (
    <>
      <p>{`${forAllKeys(of)} Versions of models that are registered later are neither listed nor loaded. Earlier ones stay, and the license itself does not end.`}</p>
      {!isMany && <p>{`Now updates until: ${describeUpdates(of.key)}.`}</p>}
      <UpdatesField field={field} of={isMany ? undefined : of.key} />
      <ShortenField field={field} label="Allow updates to end earlier than now" />
    </>
  ),
  ...changesLicense(
    "change updates",
    { ...UPDATES_ENTRY, ...SHORTEN_ENTRY },
    ({ updates_until: end = null, shorten }) => ({
      updatesUntil: end,
      shorten,
    }),
  ),
  done: { "license.updates": forAllKeys },
});

export const changeExternalId: KeyAction = action({
  name: "external-id",
  isRare: true,
  scope: "keys:manage",
  label: "Change external id",
  group: CHANGE_GROUP,
  // It fits always: the name of a revoked or erased license can be taken away, so that another license can have it.
  submit: "Change the external id",
  Form: ({ of, field }) => (
    <TextField
      {...field("external_id", of.key.externalId ?? "")}
      label="External id"
      hint="Your own name for the license, such as an order number; empty for none."
    />
  ),
  ...changesLicense(
    "change license",
    { external_id: v.pipe(TEXT_OR_NOTHING, v.optional(EXTERNAL_ID_FIELD)) },
    ({ external_id: externalId = null }) => ({ externalId }),
  ),
  done: { "license.change": ({ key }) => `The external id is ${key.externalId ?? "removed"} now.` },
});

/** Says what each other tier would change for the license. */
function OtherTiers({ of, now }: { readonly of: ActedKey; readonly now: Date }) {
  return (
    <ul>
      {TIERS.filter((tier) => tier !== of.key.tier).map((tier) => (
        <li>
          {`With ${tier}: `}
          <Effects of={effectsOfChange(of, { tier }, now).filter(({ what }) => what !== "tier")} />
        </li>
      ))}
    </ul>
  );
}

/** Says how many places are taken: `Places taken: 4 of 5.` Machines that are not counted can hold some by signed licenses. */
function placesOf(of: ActedKey): string {
  const [taken, { maxMachines }] = [takenOf(of), of.key];
  if (maxMachines !== null) return `Places taken: ${renderCount(taken)} of ${renderCount(maxMachines)}.`;
  return taken === 0 ? "" : `Places that signed licenses hold: ${renderCount(taken)}.`;
}

/** Says what a change leaves of the month's quota: `500,000 a month, of which 5,300 are used.` */
function quotaOf({ key: { monthlyLimit, used } }: ActedKey): string {
  if (monthlyLimit === null) return `Unlimited; ${renderCount(used)} are used this month.`;
  return `${describeLimit(monthlyLimit)}, of which ${renderCount(used)} are used.`;
}
