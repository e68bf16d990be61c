/** Accounts: list, look at, change, renew and erase. */
import * as v from "valibot";
import { count, described, identifier, schemasOf, timestamp } from "../../base/answer_fields.ts";
import { monthOf } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { isRefusal, refuse } from "../../base/refusal.ts";
import { booleanField, parsedField } from "../../base/rule.ts";
import { ERASURE_REQUEST_MS, eraseWithKeys } from "../../licensing/keys/mod.ts";
import {
  ACCOUNT_CONDITIONS,
  ACCOUNT_FIELDS,
  findAccount,
  isRestricted,
  listAccounts,
  renderRenewal,
  renderWithErasure,
  renewAccount,
  TEXT_RULES,
  toAccountOrder,
  updateAccount,
} from "../../licensing/mod.ts";
import { findUsageByMonth, OVER, renderUsageByMonth } from "../../usage/mod.ts";
import {
  changeOf,
  conditionFields,
  findSearch,
  MONTH_ENTRY,
  REASON,
  SEARCH_FIELD,
} from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { accountFor } from "../frame/api/path_ids.ts";
import { route, titled } from "../frame/api/route.ts";

const FIELDS = schemasOf(ACCOUNT_FIELDS);
const ACCOUNT = titled("Account", FIELDS);

/** The conditions of the list, in the API and in the console. */
export const ACCOUNT_ENTRIES = { search: v.optional(SEARCH_FIELD), ...conditionFields(ACCOUNT_CONDITIONS) };

export const ACCOUNT_ROUTES = [
  route("GET /accounts", "accounts:read", {
    id: "listAccounts",
    summary: "List accounts, by default oldest first",
    query: v.strictObject({ ...ACCOUNT_ENTRIES, ...PAGE_FIELDS }),
    success: { schema: pageOf(ACCOUNT), description: "A page of accounts" },
    run: ({ database }, { query, now }) =>
      findPage({
        list: "accounts",
        query,
        now,
        async find({ position, limit }, { search: text, sort }) {
          const search = await findSearch(database, text);
          if (isRefusal(search)) return search;
          return await listAccounts(database, {
            search,
            afterUuid: position,
            limit,
            ...toAccountOrder(sort),
          });
        },
        positionOf: ({ uuid }) => uuid,
        render: renderWithErasure,
      }),
  }),

  route("GET /accounts/:id", "accounts:read", {
    id: "getAccount",
    summary: "Show one account",
    path: accountFor("show account"),
    success: { schema: ACCOUNT, description: "The account" },
    async run({ database }, { uuid }) {
      const account = await findAccount(database, { uuid });
      return account === undefined ? UNKNOWN : renderWithErasure(account);
    },
  }),

  route("GET /accounts/:id/usage", "usage:read", {
    id: "getAccountUsage",
    summary: "Show the use of an account by month",
    path: accountFor("show usage"),
    query: v.strictObject(MONTH_ENTRY),
    success: {
      schema: v.object({
        id: identifier("usr"),
        months: v.array(v.object({ month: v.string(), used: count(), over: described(count(), OVER) })),
      }),
      description:
        "The use of all its licenses in twelve months, oldest first; `month` is the last, by default this month",
    },
    async run({ database }, { uuid, query, now }) {
      const account = await findAccount(database, { uuid });
      if (account === undefined) return refuse("NOT_FOUND", "Cannot show usage: no account has that id");
      const last = query.month ?? monthOf(now.getTime());
      return renderUsageByMonth(account.id, await findUsageByMonth(database, uuid, last));
    },
  }),

  route("PATCH /accounts/:id", "accounts:write", {
    id: "changeAccount",
    summary: "Change an account's e-mail, name or organization",
    description:
      "Its licenses, keys, machines, custom models and history stay with it, and its keys answer with the new e-mail within a " +
      "second. A name that repeats the old e-mail follows. From then on the old e-mail names no account: a key that is issued " +
      "for it gets a new account.",
    path: accountFor("update account"),
    body: changeOf({
      email: v.optional(parsedField(TEXT_RULES.email)),
      name: v.optional(parsedField(TEXT_RULES.name)),
      organization: v.optional(parsedField(TEXT_RULES.organization)),
    }),
    success: {
      schema: v.object({
        id: FIELDS.id,
        email: FIELDS.email,
        name: FIELDS.name,
        organization: FIELDS.organization,
        former_email: described(v.nullable(v.string()), "The e-mail before this request; null if it stayed"),
        changed: described(v.boolean(), "False if the account had these values already"),
      }),
      description: "The account's values after the change",
    },
    codes: ["ALREADY_EXISTS", "CONFLICT"],
    async run({ database }, { uuid, actor, now, body: { email, name, organization } }) {
      const updated = await updateAccount(database, { uuid, email, name, organization, actor, now });
      if (isRefusal(updated)) return updated;
      const { isChanged, formerEmail = null, ...values } = updated;
      return { id: toId("usr", uuid), ...values, former_email: formerEmail, changed: isChanged };
    },
  }),

  route("POST /accounts/:id/renew", "keys:manage", {
    id: "renewAccount",
    summary: "Add a year to every license of an account that expires and has a key that is not revoked",
    description:
      "An expired license gets a year from now. A license that was renewed in the last 24 hours stays as it is, so a " +
      "repeated request adds no second year. A restricted token may not call it.",
    path: accountFor("renew account"),
    body: v.strictObject(REASON),
    success: {
      schema: v.object({
        id: identifier("usr"),
        licenses: v.array(
          v.object({
            id: identifier("lic"),
            before: v.object({ expires_at: timestamp() }),
            expires_at: timestamp(),
          }),
        ),
      }),
      description:
        "The licenses that this request renewed, with their expiry before and after it, oldest first",
    },
    async run({ database, licenseChanges }, { uuid, restriction, actor, now }) {
      if (isRestricted(restriction)) return NO_RENEWAL;
      if ((await findAccount(database, { uuid })) === undefined) return UNKNOWN_TO_RENEW;
      return renderRenewal(uuid, await renewAccount(licenseChanges, uuid, { actor, now }));
    },
  }),

  route("POST /accounts/:id/erase", "accounts:erase", {
    id: "eraseAccount",
    summary:
      "Remove a person's name, e-mail, organization and external ids for good, and keep the counts of use",
    path: accountFor("erase account"),
    description:
      "With `revoke_keys` it first revokes every key of the account, which needs the scope keys:revoke, too. An account with " +
      "very many keys takes several requests: repeat the request until `erased` is true. Without it, an account with a " +
      "key that is not revoked is refused.",
    body: v.strictObject({ ...REASON, revoke_keys: v.optional(booleanField(), false) }),
    success: {
      schema: v.object({
        id: identifier("usr"),
        erased: described(v.boolean(), "False if keys are left: repeat the request"),
        changed: described(v.boolean(), "False if the account was erased before"),
        keys_revoked: described(count(), "The keys that this request revoked"),
      }),
      description: "The account is erased, or some of its keys are revoked",
    },
    codes: ["CONFLICT"],
    async run({ licenseChanges }, { uuid, token, restriction, actor, now, body }) {
      if (body.revoke_keys && (isRestricted(restriction) || !token.scopes.includes("keys:revoke")))
        return NO_REVOCATION;
      const options = { actor, now, revokesKeys: body.revoke_keys, mostMs: ERASURE_REQUEST_MS };
      const erased = await eraseWithKeys(licenseChanges, uuid, options);
      if (isRefusal(erased)) return erased;
      const { isErased, isPersonal, revoked } = erased;
      return { id: toId("usr", uuid), erased: isErased, changed: isPersonal, keys_revoked: revoked };
    },
  }),
];

const NO_RENEWAL = refuse(
  "NOT_ALLOWED",
  "Cannot renew account: a restricted token may not give an expiry later than in a year",
);
const NO_REVOCATION = refuse(
  "NOT_ALLOWED",
  "Cannot erase account: to revoke its keys a token needs the scope keys:revoke, and no restriction",
);
const UNKNOWN_TO_RENEW = refuse("NOT_FOUND", "Cannot renew account: no account has that id");
const UNKNOWN = refuse("NOT_FOUND", "Cannot show account: no account has that id");
