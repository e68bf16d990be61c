/** The use of a month, for accounting. */
import * as v from "valibot";
import { type Month, monthOf } from "../../calendar.ts";
import { parseId } from "../../ids.ts";
import { refuse } from "../../refusal.ts";
import { reasonOf } from "../../system_error.ts";
import {
  listUsage,
  type MonthOfUse,
  renderUsage,
  renderUsageCsv,
  USAGE_CSV_HEADING,
} from "../../usage/mod.ts";
import type { AdminOptions } from "../options.ts";
import { USAGE } from "./answers.ts";
import { MONTH_FIELD } from "./fields.ts";
import { operation } from "./operation.ts";
import { findPage, PAGE_FIELDS, pageOf } from "./page.ts";

export const listUsageOperation = operation({
  id: "listUsage",
  summary: "List what each license used in a month, oldest licenses first",
  description:
    "With `Accept: text/csv` the answer is the whole month as comma-separated values (RFC 4180), without `limit` and " +
    "`after`. If the answer ends early, the connection is closed before its end.",
  query: v.strictObject({ month: v.optional(MONTH_FIELD), ...PAGE_FIELDS }),
  success: { schema: pageOf(USAGE), description: "A page of licenses", otherTypes: ["text/csv"] },
  codes: [],
  async run(options, { query, now, request }) {
    const { database } = options;
    if (/\btext\/csv\b/i.test(request.headers.get("accept") ?? "")) {
      if (query.limit !== undefined || query.after !== undefined) return WHOLE_MONTH;
      return await streamMonth(options, query.month ?? monthOf(now.getTime()));
    }
    return await findPage({
      list: "usage",
      query,
      now,
      async find({ at, position, limit }, { month = monthOf(at.getTime()) }) {
        const rows = await listUsage(database, month, { afterUuid: position, limit });
        return rows.map((use) => ({ use, month }));
      },
      positionOf: ({ use }) => positionOf(use),
      render: ({ use, month }) => renderUsage(use, month),
    });
  },
});

const WHOLE_MONTH = refuse("INVALID_REQUEST", "Leave out limit and after: the CSV has the whole month");

/** The rows of one statement for the CSV. */
const CSV_ROWS = 1_000;

function positionOf({ licenseId }: MonthOfUse): string {
  return parseId("lic", licenseId) ?? "";
}

/**
 * Answers the CSV of a month. The next part is read after the client has received the previous part, so neither a large
 * month nor a slow client uses much memory. A client that disconnects ends the reading.
 */
async function streamMonth({ database, log }: AdminOptions, month: Month): Promise<Response> {
  const read = async (afterUuid?: string) => await listUsage(database, month, { afterUuid, limit: CSV_ROWS });
  const render = (rows: readonly MonthOfUse[]) => renderUsageCsv(rows.map((use) => renderUsage(use, month)));
  const encoder = new TextEncoder();
  // Read before the answer begins, so that a failure still gets its own status.
  let rows = await read();
  let heading = USAGE_CSV_HEADING;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(encoder.encode(heading + render(rows)));
      heading = "";
      const last = rows.at(-1);
      if (last === undefined || rows.length < CSV_ROWS) return controller.close();
      try {
        rows = await read(positionOf(last));
      } catch (error) {
        // The status is sent already: the client sees that the connection is closed too early.
        log.warn("The CSV of a month ended too early", { reason: reasonOf(error) });
        throw error;
      }
    },
  });
  return new Response(stream, {
    headers: {
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": `attachment; filename="usage-${month.firstDay.slice(0, 7)}.csv"`,
    },
  });
}
