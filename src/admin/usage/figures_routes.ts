/** Use by day and figures over all customers, which are computed ahead. */

import * as v from "valibot";
import { DAY } from "../../calendar.ts";
import { EXPIRING_DAYS, NEAR_QUOTA_PERCENT, readFigures, renderFigures } from "../../figures/mod.ts";
import { LISTED_STATES, MODES, TIERS } from "../../licensing/mod.ts";
import { refuse } from "../../refusal.ts";
import { parsedField, wordField } from "../../rule.ts";
import {
  completePeriod,
  MUST_BE_NEAR,
  readUsageDays,
  renderUsageDays,
  USAGE_NAMES,
} from "../../usage/mod.ts";
import { count, identifier, oneOfThese, timestamp } from "../../wire/mod.ts";
import { route } from "../frame/api/route.ts";

const day = (description: string) => v.pipe(v.nullable(v.string()), v.description(description));
const ofUse = {
  tier: v.optional(oneOfThese(TIERS)),
  mode: v.optional(oneOfThese([...MODES, "live+test"])),
  used: count(),
};

const FAR_APART = `from and to ${MUST_BE_NEAR}`;
const TOO_LONG = refuse("INVALID_REQUEST", `Cannot show use by day: ${FAR_APART}`, {
  fields: [{ field: "from", error: FAR_APART }],
});

const CUSTOMER = { user_id: identifier("usr"), email: v.string(), organization: v.string() };
const LICENSE = { license_id: identifier("lic"), ...CUSTOMER, tier: oneOfThese(TIERS) };

const ALL_LICENSES = v.pipe(
  count(),
  v.description("The number of all these licenses; `data` has at most a hundred"),
);

function figure<Fields extends v.ObjectEntries>(description: string, fields: Fields) {
  return v.pipe(v.nullable(v.object({ as_of: timestamp(), ...fields })), v.description(description));
}

export const FIGURES_ROUTES = [
  route("GET /usage/daily", "usage:read", {
    id: "listUsageByDay",
    summary: "Show what all licenses together used each day",
    description:
      "The service adds the use of today once a minute. When a day is over, it is counted again, and then it is exact: the " +
      "days of a month and its imported use add up to the use in `GET /usage`. The tier is that of the license at the end " +
      "of the day. Without `by`, each day that was counted has a row; with it, each day and tier or mode with use.",
    query: v.strictObject({
      from: v.optional(
        parsedField(DAY, { description: "The first day; by default the thirty days until `to`" }),
      ),
      to: v.optional(parsedField(DAY, { description: "The last day; by default today, UTC" })),
      by: v.optional(wordField(USAGE_NAMES)),
    }),
    success: {
      schema: v.object({
        from: v.string(),
        to: v.string(),
        by: v.nullable(v.picklist(USAGE_NAMES)),
        as_of: v.pipe(
          v.nullable(timestamp()),
          v.description("Use that was received before this time is counted; null before the first count"),
        ),
        exact_until: day("The days before are exact"),
        filled_from: day("The days before are not counted yet; null if all are"),
        data: v.array(v.object({ day: v.string(), ...ofUse })),
        imported: v.pipe(
          v.array(v.object({ month: v.string(), ...ofUse })),
          v.description("Units without a day, that were imported with keys; counted when a day is over"),
        ),
      }),
      description: "The use by day",
    },
    async run({ database }, { query, now }) {
      const period = completePeriod(query, now);
      if (period === undefined) return TOO_LONG;
      return renderUsageDays(period, await readUsageDays(database, period));
    },
  }),

  route("GET /figures", "usage:read", {
    id: "getFigures",
    summary: "Show the figures over all customers that were computed last",
    description:
      "With a million keys these figures take seconds. So a request gets the figures that were computed last, and starts a " +
      "new computation if it is due. From the start of one computation to the start of the next there are at least ten " +
      "seconds, and at least twenty times the duration of the first. Each figure is exact at its `as_of`.",
    success: {
      schema: v.object({
        as_of: v.pipe(
          v.nullable(timestamp()),
          v.description(
            "When the oldest figure was counted; null if they are not computed yet: ask again in a minute",
          ),
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
          data: v.array(
            v.object({
              ...LICENSE,
              monthly_limit: count(),
              used: count(),
              percent: count(NEAR_QUOTA_PERCENT),
            }),
          ),
        }),
        expiring: figure(
          `The licenses that expire within ${EXPIRING_DAYS} days and have a key that is not revoked`,
          {
            licenses: ALL_LICENSES,
            data: v.array(v.object({ ...LICENSE, expires_at: timestamp() })),
          },
        ),
        unused: figure("Keys that were neither used nor issued for this many days", {
          data: v.array(v.object({ days: count(1), keys: count() })),
        }),
      }),
      description: "The last figures",
    },
    async run({ database, demandFigures }) {
      demandFigures();
      return renderFigures(await readFigures(database));
    },
  }),
];
