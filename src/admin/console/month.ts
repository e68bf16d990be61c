/** Months in addresses of pages, such as `?month=2026-11`. */
import * as v from "valibot";
import type { Month } from "../../calendar.ts";
import { MONTH_FIELD } from "../api/fields.ts";

/** Reads the month of the query; undefined if there is none. */
export function readMonth(query: URLSearchParams): Month | undefined {
  const parsed = v.safeParse(MONTH_FIELD, query.get("month"));
  return parsed.success ? parsed.output : undefined;
}

/** Returns a month as addresses and people write it: `2026-11`. */
export function toMonthText({ firstDay }: Month): string {
  return firstDay.slice(0, 7);
}
