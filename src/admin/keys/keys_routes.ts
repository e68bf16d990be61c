/** Issues and reads keys. `key_changes_routes.ts` changes them. */
import * as v from "valibot";
import { described } from "../../base/answer_fields.ts";
import { END, monthOf, toTimestamp } from "../../base/calendar.ts";
import { parseId, toId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { booleanField, numberField, parsedField } from "../../base/rule.ts";
import {
  explainKey,
  findKey,
  hashApiKey,
  type IssuedKey,
  issueKey,
  keyForm,
  keyPattern,
  renderExplanation,
  renderKey,
  repeatIssue,
} from "../../licensing/keys/mod.ts";
import {
  allowancesOfBody,
  leastLimitOf,
  OWN_ENTITLEMENTS_FIELD,
  OWN_FEATURES_FIELD,
  oneYearAfter,
  planEnd,
  refuseNewKey,
  refuseUnknownKey,
  requestedEndOf,
  TERM_DAYS,
  TEXT_RULES,
} from "../../licensing/mod.ts";
import { findUsageByDay, renderUsageByDay } from "../../usage/mod.ts";
import { limitsOfKey } from "../../wire/mod.ts";
import {
  ALLOWANCES_BODY,
  EXPIRY_FIELD,
  EXTERNAL_ID_FIELD,
  LIMIT_FIELD,
  MODE_FIELD,
  MONTH_ENTRY,
  TIER_FIELD,
  UPDATES_FIELD,
} from "../frame/api/fields.ts";
import { keyFor } from "../frame/api/path_ids.ts";
import { type Call, route } from "../frame/api/route.ts";
import { answerKeyOnce } from "./key_once.ts";
import { EXPLANATION, ISSUED_KEY, KEY, USAGE_BY_DAY } from "./key_schemas.ts";

const newKeyFields = v.strictObject({
  email: parsedField(TEXT_RULES.email, {
    description: "The account's e-mail; a new account is made for a new e-mail",
  }),
  tier: TIER_FIELD,
  name: v.nullish(parsedField(TEXT_RULES.name)),
  organization: v.nullish(parsedField(TEXT_RULES.organization)),
  mode: v.optional(MODE_FIELD, "live"),
  expires_at: v.nullish(EXPIRY_FIELD),
  starts_on_first_use: v.nullish(
    described(booleanField(), "The license ends `term_days` after its first use, so it has no `expires_at`"),
  ),
  term_days: v.nullish(described(numberField(TERM_DAYS), "The days from the first use to the expiry")),
  latest_start: v.nullish(
    parsedField(END, {
      description: "The days count from then at the latest, also without a use; by default in a year",
    }),
  ),
  updates_until: v.nullish(UPDATES_FIELD),
  monthly_limit: v.optional(LIMIT_FIELD),
  ...ALLOWANCES_BODY,
  own_features: v.nullish(
    described(
      OWN_FEATURES_FIELD,
      "What the license has beside its tier, by name: granted or withdrawn, until when",
    ),
  ),
  own_entitlements: v.nullish(
    described(OWN_ENTITLEMENTS_FIELD, "Values of the license by name, before those of its tier"),
  ),
  external_id: v.nullish(EXTERNAL_ID_FIELD),
});

/**
 * Returns the refusal without the id of the license that exists, if the token may not read licenses. It does not
 * hide whether an e-mail has an account: every answer with a key shows that, because its `user_id` contains the time when
 * the account was made.
 */
export function withoutHiddenId(refusal: Refusal, { token }: Call): Refusal {
  return refusal.id === undefined || token.scopes.includes("keys:read")
    ? refusal
    : refuse(refusal.code, refusal.sentence);
}

export const KEY_ROUTES = [
  route("POST /keys", "keys:issue", {
    id: "issueKey",
    summary: "Issue a key",
    description:
      "Makes a license with its first key, under the account of the e-mail. Without `expires_at` the license " +
      "expires in a year; with `starts_on_first_use`, the answer has its latest expiry. A restricted token may not give a limit above the tier's own, an expiry later than in a year, or " +
      "features and values beside the tier, " +
      "and gets 409 for the e-mail of an existing account, unless it has the scope `accounts:join`.",
    body: newKeyFields,
    success: { status: 201, schema: ISSUED_KEY, description: "The key, which is shown only in this answer" },
    codes: ["ALREADY_EXISTS", "CONFLICT"],
    needsIdempotencyKey: true,
    async run(options, call) {
      const { email, tier, name, organization, mode, monthly_limit, external_id } = call.body;
      const { now, actor, restriction } = call;
      const usual = oneYearAfter(now);
      const end = planEnd(requestedEndOf(call.body), { what: "issue key", now, usual });
      if (isRefusal(end)) return end;
      const request = {
        email,
        tier,
        mode,
        now,
        name: name ?? undefined,
        organization: organization ?? undefined,
        ...end,
        updatesUntil: call.body.updates_until ?? undefined,
        monthlyLimit: monthly_limit ?? undefined,
        ...allowancesOfBody(call.body),
        ownFeatures: call.body.own_features ?? undefined,
        ownEntitlements: call.body.own_entitlements ?? undefined,
        externalId: external_id ?? undefined,
      };
      const issued = await answerKeyOnce<IssuedKey>(options, call, {
        what: "issue key",
        perform: (storeAnswer) =>
          issueKey(options.database, request, { ...options, actor, restriction, storeAnswer }),
        // The token may have another restriction now. A repeated request has the same fields as the first.
        repeat: (stored) => refuseNewKey(restriction, request) ?? repeatIssue(stored),
      });
      if (isRefusal(issued)) return withoutHiddenId(issued, call);
      return {
        id: issued.id,
        api_key: issued.apiKey,
        user_id: issued.userId,
        license_id: toId("lic", issued.licenseUuid),
        email,
        tier,
        mode,
        expires_at: toTimestamp(issued.expiresAt),
        external_id: external_id ?? null,
      };
    },
  }),

  // Stands before `/keys/:id`, which matches this path, too: otherwise a wrong method would get the 405 of that one.
  route("POST /keys/find", "keys:read", {
    id: "findKey",
    summary: "Find a key by its text",
    description: "The key is in the body, because addresses are logged.",
    body(brand) {
      const must = `must be ${keyForm(brand)}`;
      return v.strictObject({ api_key: v.pipe(v.string(must), v.regex(keyPattern(brand), must)) });
    },
    success: { schema: KEY, description: "The data of the key, without its text" },
    codes: ["KEY_NOT_FOUND"],
    async run({ database }, call) {
      const key = await findKey(database, { hash: hashApiKey(call.body.api_key) }, call);
      if (key !== undefined) return renderKey(key);
      return refuse("KEY_NOT_FOUND", "Cannot find key: it was never issued or imported here");
    },
  }),

  route("GET /keys/:id", "keys:read", {
    id: "getKey",
    summary: "Show a key",
    path: keyFor("show key"),
    success: { schema: KEY, description: "The data of the key, without its text" },
    async run({ database }, call) {
      const { uuid, what } = call;
      const key = await findKey(database, { uuid }, call);
      return key === undefined ? refuseUnknownKey(what, uuid) : renderKey(key);
    },
  }),

  route("GET /keys/:id/why", "keys:read", {
    id: "explainKey",
    summary: "Explain why a key works or does not",
    description: "Its state, who changed it, its limits, and for which reasons it was refused.",
    path: keyFor("explain key"),
    success: { schema: EXPLANATION, description: "The explanation" },
    async run({ database, limits }, call) {
      const { uuid, what } = call;
      const explanation = await explainKey(database, uuid, call);
      if (explanation === undefined) return refuseUnknownKey(what, uuid);
      return renderExplanation(explanation, limitsOfKey(limits, leastLimitOf(explanation.key)));
    },
  }),

  route("GET /keys/:id/usage", "keys:read", {
    id: "getKeyUsage",
    summary: "Show the use of a key's license by day",
    path: keyFor("show usage"),
    query: v.strictObject(MONTH_ENTRY),
    success: { schema: USAGE_BY_DAY, description: "Every day of the month, by default of this month" },
    async run({ database }, call) {
      const { uuid, what } = call;
      const key = await findKey(database, { uuid }, call);
      if (key === undefined) return refuseUnknownKey(what, uuid);
      const month = call.query.month ?? monthOf(call.now.getTime());
      const usage = await findUsageByDay(database, parseId("lic", key.licenseId) ?? "", month);
      return renderUsageByDay(key, month, usage);
    },
  }),
];
