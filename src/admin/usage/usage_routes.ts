/** The use of a month, for accounting, and the use by day. */
import * as v from "valibot";
import type { Actor, Right } from "../../audit/mod.ts";
import { count, described, oneOfThese, schemasOf, timestamp } from "../../base/answer_fields.ts";
import { type Month, monthOf, toMonthText } from "../../base/calendar.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { MODES, TIERS } from "../../licensing/mod.ts";
import {
  completePeriod,
  listUsage,
  MUST_BE_NEAR,
  readUsageCsv,
  readUsageDays,
  renderUsage,
  renderUsageDays,
  USAGE_DAYS_CONDITIONS,
  USAGE_FIELDS,
  USAGE_NAMES,
} from "../../usage/mod.ts";
import { conditionFields, MONTH_ENTRY } from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { route, titled } from "../frame/api/route.ts";
import type { AdminOptions } from "../frame/options.ts";
import { streamCsv } from "../frame/stream_csv.ts";

const USAGE = titled("Usage", schemasOf(USAGE_FIELDS));

export const listUsageRoute = route("GET /usage", "usage:read", {
  id: "listUsage",
  summary: "List what each license used in a month, oldest licenses first",
  description:
    "A license that used nothing in the month is left out. A `monthly_limit` of null means unlimited; in CSV it is " +
    "`unlimited`. With `Accept: text/csv` the answer is the whole month as comma-separated values (RFC 4180), without `limit` and " +
    "`after`. If the answer ends early, the connection is closed before its end.",
  query: v.strictObject({ ...MONTH_ENTRY, ...PAGE_FIELDS }),
  success: {
    schema: pageOf(USAGE),
    description: "A page of licenses",
    content: { "text/csv": { schema: { type: "string" } } },
  },
  async run(options, { query, now, request, actor, right }) {
    const { database } = options;
    if (/\btext\/csv\b/i.test(request.headers.get("accept") ?? "")) {
      const part = (["limit", "after"] as const).filter((field) => query[field] !== undefined);
      if (part.length > 0) return refuse("INVALID_REQUEST", WHOLE_MONTH, { fields: part.map(toWrong) });
      return await streamMonth({ options, actor, right }, query.month ?? monthOf(now.getTime()));
    }
    return await findPage({
      list: "usage",
      query,
      now,
      async find({ at, position, limit }, { month = monthOf(at.getTime()) }) {
        const rows = await listUsage(database, month, { afterUuid: position, limit });
        return rows.map((use) => ({ use, month }));
      },
      positionOf: ({ use }) => use.licenseUuid,
      render: ({ use, month }) => renderUsage(use, month),
    });
  },
});

const WHOLE_MONTH = "Leave out limit and after: the CSV has the whole month";
const toWrong = (field: string) => ({ field, error: WHOLE_MONTH });

/** Answers the CSV of a month for accounting. */
export function streamMonth(
  reader: { readonly options: AdminOptions; readonly actor: Actor; readonly right: Right },
  month: Month,
  { hasMark = false }: { readonly hasMark?: boolean } = {},
): Promise<Response | Refusal> {
  const parts = readUsageCsv(reader.options.database, month);
  return streamCsv({ name: `usage-${toMonthText(month)}`, parts, hasMark }, reader);
}

const day = (description: string) => described(v.nullable(v.string()), description);
const ofUse = {
  tier: v.optional(oneOfThese(TIERS)),
  mode: v.optional(oneOfThese([...MODES, "live+test"])),
  used: count(),
};

const FAR_APART = `from and to ${MUST_BE_NEAR}`;
const TOO_LONG = refuse("INVALID_REQUEST", `Cannot show use by day: ${FAR_APART}`, {
  fields: [{ field: "from", error: FAR_APART }],
});

export const listUsageByDay = route("GET /usage/daily", "usage:read", {
  id: "listUsageByDay",
  summary: "Show what all licenses together used each day",
  description:
    "The service adds the use of today once a minute. When a day is over, it is counted again, and then it is exact: the " +
    "days of a month and its imported use add up to the use in `GET /usage`. The tier is that of the license at the end " +
    "of the day. Without `by`, each day that was counted has a row; with it, each day and tier or mode with use.",
  query: v.strictObject(conditionFields(USAGE_DAYS_CONDITIONS)),
  success: {
    schema: v.object({
      from: v.string(),
      to: v.string(),
      by: v.nullable(v.picklist(USAGE_NAMES)),
      as_of: described(
        v.nullable(timestamp()),
        "Use that was received before this time is counted; null before the first count",
      ),
      exact_until: day("The days before are exact"),
      filled_from: day("The days before are not counted yet; null if all are"),
      data: v.array(v.object({ day: v.string(), ...ofUse })),
      imported: described(
        v.array(v.object({ month: v.string(), ...ofUse })),
        "Units without a day, that were imported with keys; counted when a day is over",
      ),
    }),
    description: "The use by day",
  },
  async run({ database }, { query, now }) {
    const period = completePeriod(query, now);
    if (period === undefined) return TOO_LONG;
    return renderUsageDays(period, await readUsageDays(database, period));
  },
});
