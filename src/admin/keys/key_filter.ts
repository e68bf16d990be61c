/** The keys that meet the conditions of the list of keys. */
import * as v from "valibot";
import { type KeySummary, listKeys } from "../../keys/mod.ts";
import { findAccountNamed, searchAccounts } from "../../licensing/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { findStored } from "../frame/api/find_stored.ts";
import { idField } from "../frame/api/list_fields.ts";
import { type Asked, readConditions } from "../frame/console/conditions.ts";
import type { Visit } from "../frame/console/visit.ts";
import { KEY_CONDITIONS } from "./key_list_routes.ts";

const ENTRIES = { ...KEY_CONDITIONS, after: v.optional(idField("after", "key")) } as const;
export type AskedKeys = Asked<typeof ENTRIES>;

export function readKeyConditions(query: URLSearchParams): AskedKeys {
  return readConditions(query, ENTRIES);
}

export interface KeysFound {
  /** Whether the search matches more accounts than are searched. */
  readonly isTooWide: boolean;
  /** When the figures were counted that some conditions need. */
  readonly asOf: Date | undefined;
  /** Reads the newest keys, or the keys that are older than a key. */
  read(afterUuid: string | undefined, limit: number): Promise<readonly KeySummary[]>;
}

/**
 * Finds the keys that meet every condition. Refuses a condition that cannot be read, and an unknown account.
 */
export async function findKeys(
  { options, now }: Pick<Visit, "options" | "now">,
  { values }: AskedKeys,
): Promise<KeysFound | Refusal> {
  if (isRefusal(values)) return values;
  const { database } = options;
  const stored = await findStored(values, options);
  if (isRefusal(stored)) return stored;
  const search = values.search && (await searchAccounts(database, values.search));
  const account = values.account && (await findAccountNamed(database, values.account, "list keys"));
  if (isRefusal(account)) return account;
  const { state, tier, mode, expiring_within: expiringWithinDays, external_id: externalId } = values;
  const filter = {
    ...{ state, tier, mode, expiringWithinDays, externalId },
    search: search || undefined,
    accountUuid: account ? account.uuid : undefined,
    figures: stored?.filter,
    newestFirst: true,
  };
  return {
    isTooWide: search ? search.isTooWide : false,
    asOf: stored?.asOf,
    read: (afterUuid, limit) => listKeys(database, { now, filter: { ...filter, afterUuid, limit } }),
  };
}
