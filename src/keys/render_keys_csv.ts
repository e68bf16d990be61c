import { toCsvLine } from "../text/mod.ts";
import type { KeySummary } from "./list_keys.ts";
import { renderKey } from "./render_key.ts";

const COLUMNS = [
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
] as const;

/** The first line of the CSV. */
export const KEYS_CSV_HEADING = toCsvLine(COLUMNS);

/** Renders keys of a list as lines of the CSV. No line contains a key itself. */
export function renderKeysCsv(keys: readonly KeySummary[]): string {
  const toShown = (key: KeySummary) => ({
    ...renderKey(key),
    monthly_limit: key.monthlyLimit ?? "unlimited",
  });
  return keys
    .map(toShown)
    .map((row) => toCsvLine(COLUMNS.map((name) => row[name] ?? "")))
    .join("");
}
