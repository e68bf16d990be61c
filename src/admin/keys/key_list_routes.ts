/** The list of keys. */
import * as v from "valibot";
import { toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { parsedField, wholeNumber, wordField } from "../../base/rule.ts";
import {
  CURSOR_POSITION,
  DAYS_OF_FILTER,
  KEY_SORTS,
  type KeyFilter,
  listKeys,
  positionOf,
  renderKey,
  toOrder,
} from "../../licensing/keys/mod.ts";
import { findAccountNamed, isRestricted, LISTED_STATES } from "../../licensing/mod.ts";
import {
  findStoredLists,
  MOST_DAYS_LEFT,
  MOST_SORTED,
  NEAR_QUOTA_PERCENT,
  UNUSED_DAYS,
} from "../../usage/figures/mod.ts";
import { described, timestamp } from "../../wire/mod.ts";
import {
  ACCOUNT_FIELD,
  EXTERNAL_ID_FIELD,
  findSearch,
  MODE_FIELD,
  SEARCH_FIELD,
  TIER_FIELD,
} from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { route } from "../frame/api/route.ts";
import type { AdminOptions } from "../frame/options.ts";
import { KEY } from "./key_schemas.ts";

const PERCENT = wholeNumber(NEAR_QUOTA_PERCENT, 100);

const NEAR_QUOTA_FIELD = parsedField({
  ...PERCENT,
  expects: `${PERCENT.expects}: the stored figures have only the licenses that used at least ${NEAR_QUOTA_PERCENT} % of their quota`,
  keywords: {
    ...PERCENT.keywords,
    description:
      "Only keys whose license used at least this percentage of its month's limit, by the stored figures",
  },
});

const UNUSED_FOR_FIELD = parsedField({
  expects: `one of ${UNUSED_DAYS.join(", ")}: the stored figures have only these days`,
  keywords: {
    type: "integer",
    enum: UNUSED_DAYS,
    description: "Only keys that were neither used nor issued for this many days, by the stored figures",
  },
  parse: (text) => UNUSED_DAYS.find((days) => text === `${days}`),
});

/** The rule for a condition without a value. */
const YES = wordField(["true"]);

/** The conditions of the list, in the API and in the console. */
export const KEY_CONDITIONS = {
  search: v.optional(SEARCH_FIELD),
  account: v.optional(ACCOUNT_FIELD),
  tier: v.optional(TIER_FIELD),
  state: v.optional(wordField(LISTED_STATES)),
  mode: v.optional(MODE_FIELD),
  expiring_within: v.optional(
    parsedField(DAYS_OF_FILTER, {
      description: "Only keys whose license expires within this many days after the first page",
    }),
  ),
  sort: v.optional(
    described(
      wordField(KEY_SORTS),
      `The order. most_used and latest_used are those of the stored figures, with the first ${MOST_SORTED} keys alone`,
    ),
  ),
  external_id: v.optional(EXTERNAL_ID_FIELD),
  near_quota: v.optional(NEAR_QUOTA_FIELD),
  unused_for: v.optional(UNUSED_FOR_FIELD),
  runs_out_within: v.optional(
    parsedField(wholeNumber(0, MOST_DAYS_LEFT), {
      description:
        "Only keys whose quota is used up now, or will be within this many days and before the month ends, at the rate of the last seven days that are over, by the stored figures; neither revoked nor of a license that has expired",
    }),
  ),
  refused_now: v.optional(
    described(
      YES,
      "Only keys that are refused now and not revoked: suspended, expired, quota used up by the stored figures, or too many requests in the last hour",
    ),
  ),
  all_places_taken: v.optional(
    described(YES, "Only keys without a free place for a machine, by the stored figures"),
  ),
} as const;

type KeyConditions = v.InferOutput<v.ObjectSchema<typeof KEY_CONDITIONS, undefined>>;

/** Returns the conditions as a filter, without those that need a look-up: `search`, `account`, the stored figures. */
export function toKeyFilter({ sort = "oldest", ...conditions }: KeyConditions): KeyFilter {
  const { tier, state, mode, external_id: externalId, expiring_within: expiringWithinDays } = conditions;
  return { tier, state, mode, externalId, expiringWithinDays, ...toOrder(sort) };
}

/** Returns the conditions that only the stored figures can answer as a filter, and demands new figures for the next time. */
export async function findStored(
  conditions: KeyConditions,
  { database, demandFigures }: Pick<AdminOptions, "database" | "demandFigures">,
  now: Date,
) {
  const found = await findStoredLists(database, conditions, now);
  if (found !== undefined) demandFigures();
  return found;
}

export const listKeysRoute = route("GET /keys", "keys:read", {
  id: "listKeys",
  summary: "List the keys that meet every condition, by default oldest first",
  query: v.strictObject({ ...KEY_CONDITIONS, ...PAGE_FIELDS }),
  success: {
    schema: v.object({
      ...pageOf(KEY).entries,
      as_of: described(
        v.optional(timestamp()),
        "With a condition by the stored figures: when they were counted",
      ),
    }),
    description: "A page of keys",
  },
  codes: ["NOT_FOUND"],
  async run({ database, demandFigures }, { query, now, restriction }) {
    const stored = await findStored(query, { database, demandFigures }, now);
    if (isRefusal(stored)) return stored;
    const page = await findPage({
      list: "keys",
      query,
      now,
      async find({ at, position, limit }, { search: text, account: who, ...conditions }) {
        const search = await findSearch(database, text);
        if (isRefusal(search)) return search;
        const account = who === undefined ? undefined : await findAccountNamed(database, who, "list keys");
        // Otherwise a restricted token could ask whether a customer exists whose keys it may not see.
        if (isRefusal(account)) return isRestricted(restriction) ? [] : account;
        const filter = { ...toKeyFilter(conditions), accountUuid: account?.uuid, search, ...stored?.filter };
        const part = { restriction, afterUuid: position, limit };
        return await listKeys(database, { now: at, filter: { ...filter, ...part } });
      },
      position: CURSOR_POSITION,
      positionOf: (key) => positionOf(key, parseId("key", key.id) ?? ""),
      render: renderKey,
    });
    return isRefusal(page) || stored === undefined ? page : { ...page, as_of: toTimestamp(stored.asOf) };
  },
});
