/** Reads and changes licenses, and signs them for customers without a network. */
import * as v from "valibot";
import { count, described, identifier } from "../../base/answer_fields.ts";
import { isRefusal } from "../../base/refusal.ts";
import { booleanField, inJsonSchema, parsedField } from "../../base/rule.ts";
import {
  allowancesOfBody,
  changeLicense,
  ENTITLEMENT_CHANGES_FIELD,
  FEATURE_CHANGES_FIELD,
  findLicense,
  MOST_MODELS,
  moveLicense,
  refuseUnknownLicense,
  renderBefore,
  renderLicense,
  renderMove,
  TEXT_RULES,
} from "../../licensing/mod.ts";
import { NONCE, renderExport } from "../../licensing/signed_licenses/mod.ts";
import { EXPORTED_LICENSE } from "../frame/api/exported_license.ts";
import {
  ALLOWANCES_BODY,
  changeOf,
  EXPIRY_FIELD,
  EXTERNAL_ID_FIELD,
  LIMIT_FIELD,
  REASON,
  REASON_IS_NO_CHANGE,
  SHORTEN_FIELD,
  TIER_FIELD,
  UPDATES_FIELD,
} from "../frame/api/fields.ts";
import { keyFor, licenseFor } from "../frame/api/path_ids.ts";
import { route } from "../frame/api/route.ts";
import { readAfterChange } from "../frame/log_failure.ts";
import { EXPORT_BODY } from "./export_body.ts";
import { CHANGED_LICENSE, LICENSE } from "./key_schemas.ts";
import { withoutHiddenId } from "./keys_routes.ts";

/** The fields with an end, which `shorten` is for. */
const SHORTENED = ["expires_at", "updates_until", "own_features"] as const;

export const LICENSE_ROUTES = [
  route("GET /licenses/:id", "keys:read", {
    id: "getLicense",
    summary: "Show a license",
    path: licenseFor("show license"),
    success: { schema: LICENSE, description: "The license with its keys" },
    async run({ database }, call) {
      const { uuid, what } = call;
      const license = await findLicense(database, uuid, call);
      return license === undefined ? refuseUnknownLicense(what, uuid) : renderLicense(license);
    },
  }),

  route("PATCH /licenses/:id", "keys:manage", {
    id: "updateLicense",
    summary: "Change a license, for all its keys",
    description:
      "All fields are one change with one row in the audit log. Without `max_machines` a license has no `seat_minutes` " +
      "either. A restricted token may not give a limit above the tier's own or an expiry later than in a year. If the " +
      "machines of the license are counted, such a token may only lower their number, and it may not change the end of " +
      "updates, features or values. An expiry, an end of updates or of a granted feature that is earlier than the present " +
      "one needs `shorten`. The answer has what " +
      "changed with the values before.",
    path: licenseFor("change license"),
    body: v.pipe(
      changeOf({
        tier: v.optional(TIER_FIELD),
        monthly_limit: v.optional(LIMIT_FIELD),
        ...ALLOWANCES_BODY,
        expires_at: v.optional(EXPIRY_FIELD),
        updates_until: v.optional(v.nullable(UPDATES_FIELD)),
        own_features: v.optional(
          described(FEATURE_CHANGES_FIELD, "The named features alone; null leaves one to the tier"),
        ),
        own_entitlements: v.optional(
          described(
            ENTITLEMENT_CHANGES_FIELD,
            "The named values alone; null removes one, so that the tier's counts",
          ),
        ),
        external_id: v.optional(v.nullable(EXTERNAL_ID_FIELD)),
        shorten: v.optional(SHORTEN_FIELD),
      }),
      v.check(
        (values) => !("shorten" in values) || SHORTENED.some((name) => name in values),
        `shorten needs one of ${SHORTENED.join(", ")}`,
      ),
      inJsonSchema({
        dependentSchemas: {
          ...REASON_IS_NO_CHANGE,
          shorten: { anyOf: SHORTENED.map((name) => ({ required: [name] })) },
        },
      }),
    ),
    success: { schema: CHANGED_LICENSE, description: "The license with its new values" },
    codes: ["ALREADY_EXISTS", "CONFLICT"],
    async run({ database, licenseChanges }, call) {
      const { uuid: licenseUuid, what, body: fields } = call;
      const change = {
        tier: fields.tier,
        monthlyLimit: fields.monthly_limit,
        ...allowancesOfBody(fields),
        expiresAt: fields.expires_at,
        updatesUntil: fields.updates_until,
        ownFeatures: fields.own_features,
        ownEntitlements: fields.own_entitlements,
        externalId: fields.external_id,
      };
      const { shorten } = fields;
      const changed = await changeLicense(licenseChanges, { licenseUuid }, { ...call, change, shorten });
      if (isRefusal(changed)) return withoutHiddenId(changed, call);
      const license = await readAfterChange(() => findLicense(database, licenseUuid, call));
      if (isRefusal(license)) return license;
      if (license === undefined) return refuseUnknownLicense(what, licenseUuid);
      const before = renderBefore(changed.before, changed.after);
      return { ...renderLicense(license), changed: changed.isChanged, before };
    },
  }),
];

const ACCOUNT_OF_MOVE = { user_id: identifier("usr"), email: v.string() };
const MODELS_OF_MOVE = v.array(v.string());

export const moveLicenseRoute = route("POST /licenses/:id/move", "keys:manage", {
  id: "moveLicense",
  summary: "Move a license to another account",
  description:
    "Its keys, machines, use, events and external id go along, and its keys answer with the other account within a second. " +
    "Custom models stay with their account. A signed license that was made before keeps the old names until it ends. A " +
    "restricted token may not call it.",
  path: licenseFor("move license"),
  body: v.strictObject({
    to: parsedField(TEXT_RULES.email, { description: "The e-mail of the other account" }),
    new_account: described(
      v.optional(booleanField(), false),
      "Makes the account if no account has this e-mail, which is refused otherwise",
    ),
    dry_run: described(v.optional(booleanField(), false), "Only says what would be done"),
    ...REASON,
  }),
  success: {
    schema: v.object({
      id: identifier("lic"),
      from: v.object(ACCOUNT_OF_MOVE),
      to: v.object({ ...ACCOUNT_OF_MOVE, is_new: v.boolean() }),
      keys: described(count(), "How many keys go along, with those that are revoked"),
      machines: described(count(), "How many machines go along, with those that have ended"),
      loses_models: described(
        MODELS_OF_MOVE,
        `The custom models of the old account that the license cannot load any more, at most ${MOST_MODELS}`,
      ),
      gets_models: described(
        MODELS_OF_MOVE,
        `The custom models of the new account that it can load now, at most ${MOST_MODELS}`,
      ),
      moved: described(v.boolean(), "False with dry_run"),
    }),
    description: "What went along and what stayed",
  },
  codes: ["CONFLICT"],
  async run({ licenseChanges }, { uuid, actor, now, restriction, body }) {
    const to = { email: body.to, mayBeNew: body.new_account };
    const options = { to, isDryRun: body.dry_run, actor, now, restriction };
    const move = await moveLicense(licenseChanges, uuid, options);
    return isRefusal(move) ? move : { ...renderMove(uuid, move), moved: !body.dry_run };
  },
});

export const exportLicenseRoute = route("POST /keys/:id/license", "keys:issue", {
  id: "exportLicense",
  summary: "Sign the license of a key for a customer without a network",
  description:
    "The days of the tier do not limit it, but those of the license itself do, and the expiry of the license and of the key. " +
    "A later revocation does not end it. A restricted token may not choose more days than a year has. A license with a number " +
    "of machines needs a fingerprint of 8 to 200 characters: the machine gets a place of the license until the end of the " +
    "file, also if it is released earlier. A license that starts on its first use (`started_at` is null) starts with the file.",
  path: keyFor("export license"),
  body: v.strictObject({
    ...EXPORT_BODY,
    nonce: v.nullish(parsedField(NONCE)),
    ...REASON,
  }),
  success: { status: 201, schema: EXPORTED_LICENSE, description: "The signed license" },
  codes: ["CONFLICT"],
  async run({ licenseSigner }, { uuid: keyUuid, actor, now, restriction, body }) {
    const signed = await licenseSigner.export({
      keyUuid,
      actor,
      now,
      restriction,
      days: body.days,
      fingerprint: body.fingerprint ?? undefined,
      nonce: body.nonce ?? undefined,
    });
    return isRefusal(signed) ? signed : renderExport(signed);
  },
});
