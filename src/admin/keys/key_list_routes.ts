/** The list of keys. */
import * as v from "valibot";
import { described, timestamp } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { CURSOR_POSITION, listKeys, positionOf, renderKey } from "../../licensing/keys/mod.ts";
import { findAccountOfList, isRestricted } from "../../licensing/mod.ts";
import { findStoredLists, KEY_CONDITIONS, type KeyConditions, toKeyFilter } from "../../usage/figures/mod.ts";
import { conditionFields, findSearch, SEARCH_FIELD } from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { route } from "../frame/api/route.ts";
import type { AdminOptions } from "../frame/options.ts";
import { KEY } from "./key_schemas.ts";

/** The conditions of the list, in the API and in the console. */
export const KEY_ENTRIES = { search: v.optional(SEARCH_FIELD), ...conditionFields(KEY_CONDITIONS) };

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
  query: v.strictObject({ ...KEY_ENTRIES, ...PAGE_FIELDS }),
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
        const accountUuid = await findAccountOfList(database, who, "list keys");
        // Otherwise a restricted token could ask whether a customer exists whose keys it may not see.
        if (isRefusal(accountUuid)) return isRestricted(restriction) ? [] : accountUuid;
        const filter = { ...toKeyFilter(conditions), accountUuid, search, ...stored?.filter };
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
