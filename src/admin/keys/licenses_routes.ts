/** Reads and changes licenses. */
import * as v from "valibot";
import { changeLicense, findLicense, refuseUnknownLicense, renderLicense } from "../../licensing/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { readAfterChange } from "../frame/api/after_change.ts";
import {
  changeOf,
  EXPIRY_FIELD,
  EXTERNAL_ID_FIELD,
  LIMIT_FIELD,
  PLACES_ENTRIES,
  TIER_FIELD,
} from "../frame/api/fields.ts";
import { licenseFor } from "../frame/api/path_ids.ts";
import { route } from "../frame/api/route.ts";
import { CHANGED_LICENSE, LICENSE } from "./key_schemas.ts";
import { withoutHiddenId } from "./keys_routes.ts";

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
      "machines of the license are counted, such a token may only lower their number.",
    path: licenseFor("change license"),
    body: changeOf({
      tier: v.optional(TIER_FIELD),
      monthly_limit: v.optional(LIMIT_FIELD),
      ...PLACES_ENTRIES,
      expires_at: v.optional(EXPIRY_FIELD),
      external_id: v.optional(v.nullable(EXTERNAL_ID_FIELD)),
    }),
    success: { schema: CHANGED_LICENSE, description: "The license with its new values" },
    codes: ["ALREADY_EXISTS", "CONFLICT"],
    async run({ database, licenseChanges }, call) {
      const { uuid: licenseUuid, what, body: fields } = call;
      const change = {
        tier: fields.tier,
        monthlyLimit: fields.monthly_limit,
        maxMachines: fields.max_machines,
        seatMinutes: fields.seat_minutes,
        expiresAt: fields.expires_at,
        externalId: fields.external_id,
      };
      const changed = await changeLicense(licenseChanges, { licenseUuid }, { ...call, change });
      if (isRefusal(changed)) return withoutHiddenId(changed, call);
      const license = await readAfterChange(() => findLicense(database, licenseUuid, call));
      if (isRefusal(license)) return license;
      if (license === undefined) return refuseUnknownLicense(what, licenseUuid);
      return { ...renderLicense(license), changed: changed.isChanged };
    },
  }),
];
