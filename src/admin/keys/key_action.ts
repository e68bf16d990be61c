/** What the actions of a key share: how they name the key, and in which states they are offered. */
import { parseId } from "../../base/ids.ts";
import type { Database } from "../../database/mod.ts";
import type { KeyExplanation } from "../../licensing/keys/mod.ts";
import {
  allowancesOf,
  findTierEntitlements,
  isErased,
  type LicenseSummary,
  type LicenseValues,
  MAX_KEYS,
  type TierEntitlements,
  termOf,
} from "../../licensing/mod.ts";
import type { OutstandingLicense } from "../../licensing/signed_licenses/mod.ts";
import type { Action } from "../frame/console/action.ts";

/** What the actions need of a key, so that they can be done to rows of a list, too. */
export interface ActedKey extends Pick<KeyExplanation, "key"> {
  /** The values of the license that a page showed before the change: it is made to these values alone. */
  readonly seen?: LicenseValues;
  /** The values of each tier, which another tier would give the license. */
  readonly tiers?: TierEntitlements;
  /** How many keys of the license are not revoked; undefined where that is not known. */
  readonly keysOfLicense?: number | undefined;
  /** What goes on working when the key is ended; undefined for a row of a list. */
  readonly remains?: { readonly files: readonly OutstandingLicense[] };
  /** How many places of the license machines hold; undefined for a row of a list, and if the operator may not see machines. */
  readonly taken?: number | undefined;
}
export type KeyAction = Action<ActedKey>;

/** The titles of the groups of actions. */
export const HELP_GROUP = "Help the customer";
export const CHANGE_GROUP = "Change the license";
export const STOP_GROUP = "Stop the key";

/** Of an action that changes the license of a key, for all its keys. */
export const OF_LICENSE = { one: "license", idOf: ({ key }: ActedKey) => key.licenseId } as const;

/** Counts the keys of a license that are not revoked; undefined if it has more than are read. */
export function countKeys(license: Pick<LicenseSummary, "keys"> | undefined): number | undefined {
  if (license === undefined || license.keys.length === MAX_KEYS) return undefined;
  return license.keys.filter(({ state }) => state !== "revoked").length;
}

/** Returns how many places of the license machines hold. A row of a list counts them up to `MOST_PLACES`. */
export function takenOf({ taken, key: { placesTaken } }: ActedKey): number {
  return taken ?? placesTaken ?? 0;
}

/** Adds the values of each tier to what a page shows. */
export async function withTiers<Shown>(database: Database, shown: Shown) {
  return { ...shown, tiers: await findTierEntitlements(database) };
}

/** Returns what the license of a key is worth to its customer. */
export function licenseValuesOf({ key }: ActedKey): LicenseValues {
  const { tier, monthlyLimit, licenseExpiresAt: expiresAt, updatesUntil } = key;
  const { ownFeatures, ownEntitlements, tierEntitlements } = key;
  return {
    tier,
    monthlyLimit,
    ...allowancesOf(key),
    expiresAt,
    ...termOf(key),
    updatesUntil,
    ownFeatures,
    ownEntitlements,
    tierEntitlements,
  };
}

/** Returns the UUID of the key. */
export function uuidOf({ key: { id } }: ActedKey): string {
  return parseId("key", id) ?? "";
}

export const isNotRevoked = ({ key: { state } }: ActedKey) => state !== "revoked";
export const isActive = ({ key: { state } }: ActedKey) => state === "active";
/** Tells whether the key may stay in use: a key of an erased account may not. */
export const mayStay = (of: ActedKey) => isNotRevoked(of) && !isErased(of.key);
