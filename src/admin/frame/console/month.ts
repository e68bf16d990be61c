/** Months in addresses of pages, such as `?month=2026-11`. */
import * as v from "valibot";
import type { Month } from "../../../calendar.ts";
import { MONTH_FIELD } from "../api/fields.ts";

/** The month of an address. */
export const MONTH_ENTRY = { month: v.optional(MONTH_FIELD) } as const;

/** Returns a month as addresses and people write it: `2026-11`. */
export function toMonthText({ firstDay }: Month): string {
  return firstDay.slice(0, 7);
}
