/** What all actions share that change the license of a key: what they would do, and the change itself. */
import type * as v from "valibot";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import {
  changedValues,
  changeLicense,
  type Effect,
  effectsOf,
  FOR_ALL_KEYS,
  type LicenseChange,
  type LicenseName,
  type LicenseValues,
  lacksPlaces,
  refuseSeatsWithoutPlaces,
  refuseShorter,
  refuseTooMuch,
} from "../../licensing/mod.ts";
import type { Change } from "../frame/console/action.ts";
import { askForShorten } from "../frame/console/components/end.tsx";
import type { FieldsOf } from "../frame/console/form_fields.ts";
import { askForBelowUse } from "./below_use.tsx";
import { type ActedKey, isNotRevoked, licenseValuesOf, OF_LICENSE, takenOf, uuidOf } from "./key_action.ts";
import { proofForDays, proofForEnd } from "./license_fields.tsx";

/** Says which keys a change of the license changes, before and after: how many, where the page knows it. */
export function forAllKeys({ keysOfLicense: keys }: ActedKey): string {
  const count =
    keys === undefined ? "" : `: ${renderCount(keys)} that ${keys === 1 ? "is" : "are"} not revoked`;
  return `${FOR_ALL_KEYS}${count}.`;
}

interface Wanted extends LicenseChange {
  /** The expiry may become earlier. */
  readonly shorten?: boolean | undefined;
  /** The new limit may be below the use; undefined where the change cannot do that. */
  readonly belowUse?: boolean | undefined;
}

/**
 * Returns what all actions have in common that change the license of a key, for all its keys. `what` is what a refusal says
 * that cannot be done, such as `renew license`.
 */
export function changesLicense<Entries extends v.ObjectEntries>(
  what: string,
  entries: Entries,
  toWanted: (
    fields: FieldsOf<Entries>,
    on: { readonly of: ActedKey; readonly now: Date },
  ) => Wanted | Refusal,
) {
  type Fields = Change<ActedKey> & { readonly fields: FieldsOf<Entries> };
  return {
    shared: OF_LICENSE,
    entries,
    foresee({ of, fields, by: { now } }: Fields): readonly Effect[] | Refusal {
      const wanted = toWanted(fields, { of, now });
      if (isRefusal(wanted)) return wanted;
      const { shorten, belowUse: _, ...change } = wanted;
      if (lacksPlaces(change)) return refuseSeatsWithoutPlaces("change machines");
      const [before, after] = valuesBeforeAndAfter(of, change);
      const tooMuch = refuseTooMuch(what, after, now);
      if (tooMuch !== undefined) return ofThisLicense(tooMuch);
      return (!shorten && refuseShorter(what, before, after)) || effectsOfChange(of, change, now);
    },
    proofFor({ of, fields, by: { now }, visit }: Fields): string | undefined {
      const wanted = toWanted(fields, { of, now });
      if (isRefusal(wanted)) return undefined;
      const usual = visit.options.licenseSigner.offlineDays[of.key.tier];
      const forDays = proofForDays(wanted.maxOfflineDays, { usual, before: of.key.maxOfflineDays });
      if (wanted.expiresAt === undefined) return forDays;
      // An end that stays gives nothing. A page may have shown another one: then the change is refused.
      return wanted.expiresAt > licenseValuesOf(of).expiresAt ? proofForEnd(wanted.expiresAt, now) : forDays;
    },
    async perform({ of, fields, by, visit }: Fields): Promise<object | Refusal> {
      const wanted = toWanted(fields, { of, now: by.now });
      if (isRefusal(wanted)) return wanted;
      const { shorten, belowUse, ...change } = wanted;
      // The page of many keys has shown it before.
      const asked =
        belowUse === false && of.seen === undefined
          ? askForBelowUse(of, effectsOfChange(of, change, by.now), by.now)
          : undefined;
      if (asked !== undefined) return asked;
      const options = { ...by, change, shorten, seen: of.seen };
      const changes = visit.options.licenseChanges;
      const result = await changeLicense(changes, nameOf(of), options);
      return askForShorten(isRefusal(result) ? ofThisLicense(result) : result);
    },
  };
}

/** Returns what a change makes of the license: what its customer gains and loses. */
export function effectsOfChange(of: ActedKey, change: LicenseChange, now: Date): readonly Effect[] {
  const [before, after] = valuesBeforeAndAfter(of, change);
  return effectsOf(before, after, { now, used: of.key.used, taken: takenOf(of) });
}

function valuesBeforeAndAfter(of: ActedKey, change: LicenseChange): [LicenseValues, LicenseValues] {
  const before = licenseValuesOf(of);
  const changed = changedValues({ ...before, hasOwnLimit: of.key.hasOwnLimit }, change);
  const ofTier = changed.tier === before.tier ? undefined : of.tiers?.get(changed.tier);
  return [before, { ...changed, tierEntitlements: ofTier ?? before.tierEntitlements }];
}

/** Names the license by its key, whose history then has the change, unless the key is revoked. */
function nameOf(of: ActedKey): LicenseName {
  return isNotRevoked(of) ? { keyUuid: uuidOf(of) } : { licenseUuid: parseId("lic", of.key.licenseId) ?? "" };
}

/**
 * Returns the refusal of too many features or values without its field: the form is right, but not for this license. For
 * others it may be.
 */
function ofThisLicense(refusal: Refusal): Refusal {
  const isOfLicense = refusal.fields?.some(({ field }) => field.startsWith("own_"));
  return isOfLicense ? refuse(refusal.code, refusal.stem) : refusal;
}
