import { renderCsv } from "../../base/text/mod.ts";
import { percentUsed, renderOwnTexts } from "../mod.ts";
import { KEY_FIELDS, renderKey } from "./key_fields.ts";
import type { KeySummary } from "./list_keys.ts";
import { renderObstacles } from "./obstacles.ts";

/** The columns that files had first, in their order. */
const FIRST = [
  "id",
  "key",
  "user_id",
  "email",
  "name",
  "organization",
  "license_id",
  "external_id",
  "tier",
  "mode",
  "state",
  "monthly_limit",
  "used",
  "expires_at",
  "created_at",
  "last_used_at",
  "replaced_by",
  "max_machines",
  "seat_minutes",
  "places_taken",
  "refused_now",
  "runs_out_on",
  "used_percent",
];

/** Each further field of a key has a column, too: at the end, so that the others keep their places. */
const COLUMNS = [...FIRST, ...Object.keys(KEY_FIELDS).filter((name) => !FIRST.includes(name))];

/** Renders pages of a list of keys as CSV. No line contains a key itself. */
export function renderKeysCsv(pages: Parameters<typeof renderCsv<KeySummary, string>>[0]) {
  return renderCsv(pages, {
    columns: COLUMNS,
    toCells: (key) => ({
      ...renderKey(key),
      monthly_limit: key.monthlyLimit ?? "unlimited",
      ...renderOwnTexts(key),
      refused_now: renderObstacles(key),
      used_percent: percentUsed(key.used, key.monthlyLimit),
    }),
  });
}
