/** The list of keys. */
import * as v from "valibot";
import { parseId } from "../../ids.ts";
import { listKeys, renderKey } from "../../keys/mod.ts";
import { EXTERNAL_ID_FORM, findAccountNamed, isExternalId, TIERS } from "../../licensing/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { inJsonSchema } from "../../wire/mod.ts";
import { KEY } from "./answers.ts";
import { ACCOUNT, oneOf, SEARCH, wholeNumber } from "./fields.ts";
import { findSearch } from "./find_search.ts";
import { operation } from "./operation.ts";
import { findPage, PAGE_FIELDS, pageOf } from "./page.ts";

export const listKeysOperation = operation({
  id: "listKeys",
  summary: "List the keys that meet every condition, oldest first",
  query: v.strictObject({
    search: SEARCH,
    account: ACCOUNT,
    tier: v.optional(oneOf("tier", TIERS)),
    state: v.optional(oneOf("state", ["active", "suspended", "revoked", "expired"])),
    mode: v.optional(oneOf("mode", ["live", "test"])),
    expiring_within: v.optional(
      v.pipe(
        wholeNumber("expiring_within", [0, 36_500]),
        inJsonSchema({ description: "Only keys that expire within this many days after the first page" }),
      ),
    ),
    external_id: v.optional(
      v.pipe(
        v.string(),
        v.check(isExternalId, `external_id must have ${EXTERNAL_ID_FORM}`),
        inJsonSchema({ minLength: 1, maxLength: 255 }),
      ),
    ),
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
