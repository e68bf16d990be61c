/** The conditions of the list of keys, as the address of the page has them. */
import { isStorableText } from "../../database/mod.ts";
import { type KeySummary, listKeys } from "../../keys/mod.ts";
import { findAccountNamed, type Search, searchAccounts, TEXTS, TIERS } from "../../licensing/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { UNUSED_DAYS } from "../../statistics/mod.ts";
import { findStored } from "../api/find_stored.ts";
import type { Visit } from "./visit.ts";

export const STATES = ["active", "suspended", "expired", "revoked"] as const;
export const MODES = ["live", "test"] as const;
export const MAX_SEARCH_LENGTH = 200;
export const NEAR_PERCENTAGES = ["80", "90", "100"] as const;
const MAX_DAYS = 36_500;

/** An empty text is no condition. */
export interface KeyConditions {
  readonly search: string;
  readonly state: (typeof STATES)[number] | undefined;
  readonly tier: (typeof TIERS)[number] | undefined;
  readonly mode: (typeof MODES)[number] | undefined;
  /** The id or the e-mail of an account. */
  readonly account: string;
  /** A number of days. */
  readonly expiring_within: string;
  readonly external_id: string;
  /** At least this percentage of the month's limit. */
  readonly near_quota: string;
  /** For how many days the key was neither used nor issued. */
  readonly unused_for: string;
}

/** Reads the conditions from the query. Unknown values are ignored. */
export function readConditions(query: URLSearchParams): KeyConditions {
  const text = (name: string, most: number) => {
    const given = (query.get(name) ?? "").trim().slice(0, most);
    return isStorableText(given) ? given : "";
  };
  const one = <Value extends string>(name: string, values: readonly Value[]) =>
    values.find((value) => value === query.get(name));
  const days = text("expiring_within", 5);
  const externalId = text("external_id", 255);
  return {
    search: text("search", MAX_SEARCH_LENGTH),
    state: one("state", STATES),
    tier: one("tier", TIERS),
    mode: one("mode", MODES),
    account: text("account", 254),
    expiring_within: /^\d+$/.test(days) && Number(days) <= MAX_DAYS ? days : "",
    external_id: TEXTS.external_id.allows(externalId) ? externalId : "",
    near_quota: one("near_quota", NEAR_PERCENTAGES) ?? "",
    unused_for: one("unused_for", UNUSED_DAYS.map(String)) ?? "",
  };
}

export interface KeysFound {
  /** Whether the search matches more accounts than are searched. */
  readonly isTooWide: boolean;
  /** When the figures were counted that some conditions need. */
  readonly asOf: Date | undefined;
  /** Reads the newest keys, or the keys that are older than a key. */
  read(afterUuid: string | undefined, limit: number): Promise<readonly KeySummary[]>;
}

/** Finds the keys that meet every condition. Refuses an unknown account, and a search without a word. */
export async function findKeys(
  { options, now }: Pick<Visit, "options" | "now">,
  conditions: KeyConditions,
): Promise<KeysFound | Refusal> {
  const { database } = options;
  const { search: text, account: who, expiring_within: days, external_id: externalId } = conditions;
  const { state, tier, mode, near_quota: percent, unused_for: unused } = conditions;
  const figures = { near_quota: toNumber(percent), unused_for: toNumber(unused) };
  const stored = await findStored(figures, options);
  if (isRefusal(stored)) return stored;
  const search: Search | Refusal | undefined = text === "" ? undefined : await searchAccounts(database, text);
  if (isRefusal(search)) return search;
  const account = who === "" ? undefined : await findAccountNamed(database, who, "list keys");
  if (isRefusal(account)) return account;
  const filter = {
    ...{ state, tier, mode, search },
    accountUuid: account?.uuid,
    expiringWithinDays: toNumber(days),
    figures: stored?.filter,
    externalId: externalId === "" ? undefined : externalId,
    newestFirst: true,
  };
  return {
    isTooWide: search?.isTooWide ?? false,
    asOf: stored?.asOf,
    read: (afterUuid, limit) => listKeys(database, { now, filter: { ...filter, afterUuid, limit } }),
  };
}

function toNumber(text: string): number | undefined {
  return text === "" ? undefined : Number(text);
}
