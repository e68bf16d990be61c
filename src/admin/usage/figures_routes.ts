/** Figures over all customers, which are computed ahead. */

import * as v from "valibot";
import { count, described, identifier, oneOfThese, timestamp } from "../../base/answer_fields.ts";
import { LISTED_STATES, TIERS } from "../../licensing/mod.ts";
import { EXPIRING_DAYS, NEAR_QUOTA_PERCENT, readFigures, renderFigures } from "../../usage/figures/mod.ts";
import { route } from "../frame/api/route.ts";

const CUSTOMER = { user_id: identifier("usr"), email: v.string(), organization: v.string() };
const LICENSE = { license_id: identifier("lic"), ...CUSTOMER, tier: oneOfThese(TIERS) };

const ALL_LICENSES = described(count(), "The number of all these licenses; `data` has at most a hundred");

const ofLicenses = (fields: v.ObjectEntries) => v.array(v.object({ ...LICENSE, ...fields }));

function figure<Fields extends v.ObjectEntries>(description: string, fields: Fields) {
  return described(v.nullable(v.object({ as_of: timestamp(), ...fields })), description);
}

export const getFigures = route("GET /figures", "usage:read", {
  id: "getFigures",
  summary: "Show the figures over all customers that were computed last",
  description:
    "With a million keys these figures take seconds. So a request gets the figures that were computed last, and starts a " +
    "new computation if it is due. From the start of one computation to the start of the next there are at least ten " +
    "seconds, and at least twenty times the duration of the first. Each figure is exact at its `as_of`.",
  success: {
    schema: v.object({
      as_of: described(
        v.nullable(timestamp()),
        "When the oldest figure was counted; null if they are not computed yet: ask again in a minute",
      ),
      keys: figure("Keys by tier and state", {
        data: v.array(
          v.object({ tier: oneOfThese(TIERS), state: oneOfThese(LISTED_STATES), keys: count(1) }),
        ),
      }),
      consumers: figure("The hundred accounts that used most in the month", {
        month: v.string(),
        data: v.array(v.object({ ...CUSTOMER, licenses: count(1), used: count(1) })),
      }),
      near_quota: figure(`The licenses that used ${NEAR_QUOTA_PERCENT} % of their month's limit or more`, {
        licenses: ALL_LICENSES,
        data: ofLicenses({ monthly_limit: count(), used: count(), percent: count(NEAR_QUOTA_PERCENT) }),
      }),
      runs_out: figure(
        "The licenses whose quota is used up before the month ends, at the rate of the last seven days that are over",
        {
          licenses: ALL_LICENSES,
          data: described(
            ofLicenses({
              monthly_limit: count(1),
              used: count(),
              used_a_day: described(count(), "The mean of the seven days"),
              day: described(v.string(), "When the quota is used up: a day, UTC"),
            }),
            "Enterprise first, and then those that run out first",
          ),
        },
      ),
      expiring: figure(`The licenses that expire within ${EXPIRING_DAYS} days and have an active key`, {
        licenses: ALL_LICENSES,
        data: ofLicenses({ expires_at: timestamp() }),
      }),
      unused: figure("Keys that were neither used nor issued for this many days", {
        data: v.array(v.object({ days: count(1), keys: count() })),
      }),
      machines: figure("The licenses that count machines, and those of them whose places are all taken", {
        tiers: v.array(
          v.object({
            tier: oneOfThese(TIERS),
            licenses: count(1),
            places: count(1),
            taken: count(),
            full: described(
              count(),
              "The licenses whose places are all taken, and that have a key that is not revoked",
            ),
          }),
        ),
        data: described(
          ofLicenses({ max_machines: count(1), used: count(1) }),
          "At most a hundred licenses whose places are all taken, the oldest first",
        ),
      }),
    }),
    description: "The last figures",
  },
  async run({ database, demandFigures }) {
    demandFigures();
    return renderFigures(await readFigures(database));
  },
});
