/** The tiers: what they include, and the values of their licenses. */
import * as v from "valibot";
import { count, described, schemasOf } from "../../base/answer_fields.ts";
import { isRefusal, refuse } from "../../base/refusal.ts";
import { booleanField } from "../../base/rule.ts";
import {
  changeTier,
  ENTITLEMENT_CHANGES_FIELD,
  isRestricted,
  listTiers,
  renderChangedTier,
  renderTier,
  TIER_FIELDS,
} from "../../licensing/mod.ts";
import { REASON } from "../frame/api/fields.ts";
import { tierFor } from "../frame/api/path_ids.ts";
import { route, titled } from "../frame/api/route.ts";

const { tier, entitlements, ...others } = schemasOf(TIER_FIELDS);
const TIER = titled("Tier", { tier, entitlements, ...others });

export const TIER_ROUTES = [
  route("GET /tiers", "keys:read", {
    id: "listTiers",
    summary: "List the tiers, the lowest first",
    success: { schema: v.object({ tiers: v.array(TIER) }), description: "All tiers" },
    run: async ({ database }, call) => ({ tiers: (await listTiers(database, call)).map(renderTier) }),
  }),

  route("PATCH /tiers/:tier", "keys:manage", {
    id: "updateTier",
    summary: "Change values of a tier, for all its licenses",
    description:
      "A license keeps a value of its own with the same name. Each process answers with the new values within a second; a " +
      "signed license that was made before keeps the old ones until it ends. A restricted token may not call it.",
    path: tierFor("change values of tier"),
    body: v.strictObject({
      entitlements: described(ENTITLEMENT_CHANGES_FIELD, "The named values alone; null removes one"),
      dry_run: described(v.optional(booleanField(), false), "Only says what would be changed"),
      ...REASON,
    }),
    success: {
      schema: v.object({
        tier,
        before: described(entitlements, "The values of the tier before the change"),
        entitlements,
        licenses: described(
          count(),
          "How many licenses get other values by it: those of the tier that have not expired, without those with values of " +
            "their own of all these names",
        ),
        changed: described(v.boolean(), "False with dry_run, and if the tier already had these values"),
      }),
      description: "What changed, or would change",
    },
    async run({ licenseChanges }, { tier, what, actor, now, restriction, body }) {
      if (isRestricted(restriction))
        return refuse(
          "NOT_ALLOWED",
          `Cannot ${what}: a restricted token may not change what other licenses have`,
        );
      const change = { tier, change: body.entitlements, isDryRun: body.dry_run, actor, now };
      const changed = await changeTier(licenseChanges, change);
      return isRefusal(changed) ? changed : renderChangedTier(changed);
    },
  }),
];
