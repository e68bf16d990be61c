/** The import of reports of use. The body is the report. */
import * as v from "valibot";
import { isHeld } from "../../audit/mod.ts";
import { schemasOf } from "../../base/answer_fields.ts";
import { isRefusal, refuse } from "../../base/refusal.ts";
import { inJsonSchema } from "../../base/rule.ts";
import { REPORT_FIELDS, REPORT_LIMIT_BYTES, renderReport } from "../../usage/mod.ts";
import { readText } from "../../wire/mod.ts";
import { REASON } from "../frame/api/fields.ts";
import { route, titled } from "../frame/api/route.ts";

const REPORT = titled("UsageReport", schemasOf(REPORT_FIELDS));

/** A large report over a slow line. */
const BODY_MS = 120_000;

/** Returns the schema of true or false in a query; absent means false. */
function switchField(says: string) {
  return v.pipe(
    v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
    inJsonSchema({ description: says, default: "false" }),
  );
}

export const importReportRoute = route("POST /usage/reports", "usage:import", {
  id: "importUsageReport",
  summary: "Import a report of use from a machine without a network",
  description:
    "The body is the report as the machine wrote it. Each report is imported once: the same one again is answered with " +
    "`known` and what it changed then. A report out of turn is refused, and the sentence says which one is missing; so is " +
    "one that does not follow the reports before it, unless `new_journal` says that the machine begins another journal, with " +
    "a `reason`. Units beyond the limit of the month are counted as `over`, which makes no room. One report is imported at a " +
    "time: after a 503 send it again.",
  query: v.strictObject({
    dry_run: switchField("Only says what would change"),
    new_journal: switchField("The machine begins another journal with this report, whatever its number"),
    ...REASON,
  }),
  file: "The report: one line, at most 32 MiB",
  success: { schema: REPORT, description: "What the report has changed, or would" },
  codes: ["NOT_FOUND", "CONFLICT"],
  async run({ reportImports, database, clock }, { query, request, actor, now, right }) {
    const taken = await reportImports.take(
      async () => {
        const text = await readText(request, { limitBytes: REPORT_LIMIT_BYTES + 1, withinMs: BODY_MS });
        if (isRefusal(text) || (await isHeld(database, right, clock.now()))) return text;
        return refuse(right.lost.code, `Cannot import report: ${right.lost.why}`);
      },
      {
        actor: { ...actor, reason: query.reason },
        now,
        newJournal: query.new_journal === "true",
        isDryRun: query.dry_run === "true",
      },
    );
    return isRefusal(taken) ? taken : renderReport(taken);
  },
});
