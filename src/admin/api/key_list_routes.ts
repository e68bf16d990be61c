/** The list of keys. */
import * as v from "valibot";
import { parseId } from "../../ids.ts";
import { listKeys, renderKey } from "../../keys/mod.ts";
import { findAccountNamed } from "../../licensing/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { inJsonSchema } from "../../wire/mod.ts";
import { EXTERNAL_ID_FIELD, MODE_FIELD, TIER_FIELD } from "./fields.ts";
import { findSearch } from "./find_search.ts";
import { KEY } from "./key_schemas.ts";
import { ACCOUNT_FIELD, SEARCH_FIELD, wholeNumberField } from "./list_fields.ts";
import { operation } from "./operation.ts";
import { findPage, PAGE_FIELDS, pageOf } from "./page.ts";

const STATES = ["active", "suspended", "revoked", "expired"] as const;

export const listKeysOperation = operation({
  id: "listKeys",
  summary: "List the keys that meet every condition, oldest first",
  query: v.strictObject({
    search: v.optional(SEARCH_FIELD),
    account: v.optional(ACCOUNT_FIELD),
    tier: v.optional(TIER_FIELD),
    state: v.optional(v.picklist(STATES, `state must be one of ${STATES.join(", ")}`)),
    mode: v.optional(MODE_FIELD),
    expiring_within: v.optional(
      v.pipe(
        wholeNumberField("expiring_within", 0, 36_500),
        inJsonSchema({ description: "Only keys that expire within this many days after the first page" }),
      ),
    ),
    external_id: v.optional(EXTERNAL_ID_FIELD),
    ...PAGE_FIELDS,
  }),
  success: { schema: pageOf(KEY), description: "A page of keys" },
  codes: ["NOT_FOUND"],
  run: ({ database }, { query, now }) =>
    findPage({
      list: "keys",
      query,
      now,
      async find({ at, position, limit }, { search: text, account: who, ...filter }) {
        const search = await findSearch(database, text);
        if (isRefusal(search)) return search;
        const account = who === undefined ? undefined : await findAccountNamed(database, who, "list keys");
        if (isRefusal(account)) return account;
        return await listKeys(database, {
          now: at,
          filter: {
            tier: filter.tier,
            state: filter.state,
            mode: filter.mode,
            externalId: filter.external_id,
            expiringWithinDays: filter.expiring_within,
            accountUuid: account?.uuid,
            search,
            afterUuid: position,
            limit,
          },
        });
      },
      positionOf: ({ id }) => parseId("key", id) ?? "",
      render: renderKey,
    }),
});
