/** What a row of the audit log changed, in words: each changed value before and after. */
import { renderCount } from "../../render_count.ts";
import { shownLength } from "./cut_text.ts";

export interface ShownChange {
  readonly field: string;
  /** Undefined for a value that was only added; `after` is undefined for a value that was only removed. */
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** What names the changed thing is shown although the change leaves it as it is. */
const NAMES = ["operator", "token", "session", "name", "version", "signing_key"];
/** The most characters of all values of a row, so that a page of 50 rows stays small. Marks of HTML count more. */
const MOST_CHARACTERS = 900;
const NOTHING: Readonly<Record<string, string>> = { monthly_limit: "that of the tier", expires_at: "never" };
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;

/** Returns the changed fields, and whether some were left out because their values are too long. */
export function changesOf(
  before: unknown,
  after: unknown,
): { readonly changes: readonly ShownChange[]; readonly isCut: boolean } {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(old ?? {}), ...Object.keys(now ?? {})])];
  const changes: ShownChange[] = [];
  let left = MOST_CHARACTERS;
  for (const name of names) {
    const change = changeOf(name, old, now);
    if (change === undefined) continue;
    left -= shownLength(change.field) + shownLength(change.before ?? "") + shownLength(change.after ?? "");
    if (left < 0) return { changes, isCut: true };
    changes.push(change);
  }
  return { changes, isCut: false };
}

function changeOf(name: string, old: Fields | undefined, now: Fields | undefined): ShownChange | undefined {
  const field = name.replaceAll("_", " ");
  if (old === undefined || now === undefined) {
    return { field, before: old && toText(name, old[name]), after: now && toText(name, now[name]) };
  }
  const [before, after] = [toText(name, old[name]), toText(name, now[name])];
  if (before !== after) return { field, before, after };
  return NAMES.includes(name) ? { field, before: undefined, after } : undefined;
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields | undefined {
  if (value === null || value === undefined) return undefined;
  return typeof value === "object" && !Array.isArray(value) ? (value as Fields) : { value };
}

function toText(name: string, value: unknown): string {
  if (value === null || value === undefined) return NOTHING[name] ?? "none";
  if (typeof value === "number") return renderCount(value);
  if (Array.isArray(value)) return value.map((one) => toText("", one)).join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  const text = String(value);
  if (!INSTANT.test(text)) return text;
  return text.startsWith("9999") ? "never" : text.slice(0, 16).replace("T", " ");
}
