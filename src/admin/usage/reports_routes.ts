/** The import of reports of use. The body is the report. */
import * as v from "valibot";
import { isHeld } from "../../audit/mod.ts";
import { described, identifier, schemasOf, timestamp } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { idRule, toId } from "../../base/ids.ts";
import { bytesToRead } from "../../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { inJsonSchema, parsedField } from "../../base/rule.ts";
import { GIVEN_FINGERPRINT } from "../../licensing/machines/mod.ts";
import {
  DAYS_BY_DEFAULT,
  type ForeseenLicense,
  renderExport,
  SIGNED_DAYS,
} from "../../licensing/signed_licenses/mod.ts";
import type { Scope } from "../../operators/mod.ts";
import {
  nothingImported,
  REPORT_FIELDS,
  REPORT_LIMIT_BYTES,
  renderReport,
  type Taken,
} from "../../usage/mod.ts";
import { readText, toWireCode } from "../../wire/mod.ts";
import { EXPORTED_LICENSE } from "../frame/api/exported_license.ts";
import { REASON } from "../frame/api/fields.ts";
import { route, titled } from "../frame/api/route.ts";

const REPORT = titled("UsageReport", {
  ...schemasOf(REPORT_FIELDS),
  license_foreseen: described(
    v.nullable(
      v.object({
        key_id: identifier("key"),
        expires_at: timestamp(),
        place_until: described(
          v.nullable(timestamp()),
          "Until when the machine then has a place, also if it is released earlier; null if machines are not counted",
        ),
        term_ends_at: described(
          v.nullable(timestamp()),
          "The end of the license, if its term begins with this file; otherwise null",
        ),
      }),
    ),
    "With `dry_run` and `fingerprint`: the license that would be signed; otherwise null",
  ),
  license: described(v.nullable(EXPORTED_LICENSE), "The next license; null if none was asked for or signed"),
  license_refusal: described(
    v.nullable(v.object({ error: v.string(), code: v.string() })),
    "Why the next license was not signed, although the report was imported; otherwise null",
  ),
});

/** A large report over a slow line. */
const BODY_MS = 120_000;

/** Returns the schema of true or false in a query; absent means false. */
function switchField(says: string) {
  return v.pipe(
    v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
    inJsonSchema({ description: says, default: "false" }),
  );
}

const SIGNING: Scope = "keys:issue";
const NEEDS_SCOPE = refuse(
  "SCOPE_REQUIRED",
  `Cannot sign the next license: the token needs the scope ${SIGNING}, too`,
);

export const importReportRoute = route("POST /usage/reports", "usage:import", {
  id: "importUsageReport",
  summary: "Import a report of use from a machine without a network",
  description:
    "The body is the report as the machine wrote it. Each report is imported once: the same one again is answered with " +
    "`known` and what it changed then. A report out of turn is refused, and the sentence says which ones are missing; so is " +
    "one that does not follow the reports before it, unless `new_journal` says that the machine begins another journal, and " +
    "one that was made more than a day from now, unless `clock_ahead` lets it pass. Both need a `reason`. Units beyond the " +
    "limit of the month are counted as `over`, which makes no room. One report is imported at a time: after a 503 send it " +
    `again. With \`fingerprint\` the next license of the machine is signed after the import, as by \`POST /keys/{id}/license\`, ` +
    `which needs the scope \`${SIGNING}\`, too. What would refuse it is checked before the import. If it is refused after the ` +
    "import nevertheless, the answer says so in `license_refusal`.",
  query: v.strictObject({
    dry_run: switchField("Only says what would change"),
    new_journal: switchField("The machine begins another journal with this report, whatever its number"),
    clock_ahead: switchField(
      "The report counts with the days that it has, although the clock of its machine is ahead",
    ),
    fingerprint: v.optional(
      parsedField(GIVEN_FINGERPRINT, { description: "That of the machine: then its next license is signed" }),
    ),
    days: v.optional(
      parsedField(SIGNED_DAYS, {
        description: `How many days the license is valid; ${DAYS_BY_DEFAULT}`,
      }),
    ),
    key_id: v.optional(
      parsedField(idRule("key"), {
        description: "The key for which the license is signed: by default the newest active one",
      }),
    ),
    ...REASON,
  }),
  file: "The report: one line, at most 32 MiB",
  success: {
    schema: REPORT,
    description: "What the report has changed, or would, and the license if it was asked for",
  },
  codes: ["NOT_FOUND", "CONFLICT"],
  async run({ reportImports, database, clock }, call) {
    const { query, request, restriction, now } = call;
    const { fingerprint, days, key_id: keyUuid } = query;
    if (fingerprint === undefined && (days !== undefined || keyUuid !== undefined)) return NEEDS_FINGERPRINT;
    const needed: Scope[] = fingerprint === undefined ? ["usage:import"] : ["usage:import", SIGNING];
    if (!needed.every((scope) => call.token.scopes.includes(scope))) return nothingImported(NEEDS_SCOPE);
    const limitBytes = REPORT_LIMIT_BYTES + 1;
    const leave = reportImports.takeRoom(call, bytesToRead(request, limitBytes));
    if (isRefusal(leave)) return leave;
    try {
      const text = await readText(request, { limitBytes, withinMs: BODY_MS });
      if (isRefusal(text)) return nothingImported(text);
      for (const scope of needed) {
        const right = call.rightTo(scope);
        if (!(await isHeld(database, right, clock.now())))
          return nothingImported(refuse(right.lost.code, `Cannot import report: ${right.lost.why}`));
      }
      const taken = await reportImports.take(text, {
        actor: { ...call.actor, reason: query.reason },
        now,
        allowed: { newJournal: query.new_journal === "true", clockAhead: query.clock_ahead === "true" },
        isDryRun: query.dry_run === "true",
        next: fingerprint === undefined ? undefined : { fingerprint, days, keyUuid, restriction },
      });
      return isRefusal(taken) ? taken : renderTaken(taken);
    } finally {
      leave();
    }
  },
});

const NEEDS_FINGERPRINT = refuse(
  "INVALID_REQUEST",
  "Cannot sign the next license: days and key_id need the fingerprint of its machine; nothing was imported",
  { fields: [{ field: "fingerprint", error: "is required with days or key_id" }] },
);

function renderTaken({ result, foreseen, signed }: Taken) {
  return {
    ...renderReport(result),
    license_foreseen: foreseen && signed === undefined ? renderForeseen(foreseen) : null,
    license: signed === undefined || isRefusal(signed) ? null : renderExport(signed),
    license_refusal: isRefusal(signed) ? renderRefused(signed) : null,
  };
}

function renderForeseen({ keyUuid, expiresAt, placeUntil, termEndsAt }: ForeseenLicense) {
  return {
    key_id: toId("key", keyUuid),
    expires_at: toTimestamp(expiresAt),
    place_until: placeUntil ? toTimestamp(placeUntil) : null,
    term_ends_at: termEndsAt && toTimestamp(termEndsAt),
  };
}

function renderRefused({ sentence, code }: Refusal) {
  return { error: `The report is imported, but no license was signed: ${sentence}`, code: toWireCode(code) };
}
