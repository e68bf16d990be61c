import { describeEnd, NEVER_EXPIRES, toTimestamp } from "../base/calendar.ts";
import { renderCount } from "../base/render_count.ts";

const NEVER = toTimestamp(NEVER_EXPIRES);

/** A changed value in words. */
export interface FieldChange {
  /** The name of the changed value, in words: `expiry`. */
  readonly field: string;
  /** Undefined if the change added the value, or if the value is a name that the change left as it was. */
  readonly before: string | undefined;
  /** Undefined if the change removed the value. */
  readonly after: string | undefined;
}

/**
 * Fields that name the changed thing. They are shown even if the change leaves them as they are; so is the tier whose
 * values were changed.
 */
const NAMES = ["operator", "token", "session", "name", "version", "signing_key", "machine"];

/** Fields whose names in the log do not read well in a sentence. In all other names, a space replaces each underscore. */
const FIELDS: Readonly<Record<string, string>> = {
  expires_at: "expiry",
  own_expires_at: "expiry of this key",
  max_machines: "machine limit",
  self_releases: "releases by clients",
  shows_machines: "names of machines for clients",
  max_offline_days: "offline days",
  started_at: "start",
  requires_license: "required tier",
  user_id: "account",
  jti: "license file",
  claviger: "made by version",
  sha256: "SHA-256",
  without_sealed: "without sealed data",
};

/** What these fields mean where the log leaves them out, because the license has the usual value. */
const USUAL: Readonly<Record<string, string>> = {
  self_releases: "the usual number",
  shows_machines: "as usual",
  max_offline_days: "as the tier says",
};

/** The meaning of null in these fields. In all other fields null means `none`. */
const NOTHING: Readonly<Record<string, string>> = {
  monthly_limit: "the tier's",
  expires_at: "never",
  started_at: "not yet",
  tiers: "all",
  mode: "both",
  sources: "everywhere",
};

/** Fields whose value has named parts: each part is a change of its own, such as `feature custom_models`. */
const PARTS: Readonly<Record<string, string>> = {
  own_features: "feature",
  own_entitlements: "value",
  entitlements: "value",
};

/** Describes the change in a row of the audit log: each changed value before and after. */
export function describeChanges(before: unknown, after: unknown): FieldChange[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = new Set([...Object.keys(old), ...Object.keys(now)]);
  return [...names].flatMap((name) => {
    const part = PARTS[name];
    if (part !== undefined) return describeParts(part, old[name], now[name]);
    const values = valuesOf(name, old, now);
    const usual = before === null ? undefined : USUAL[name];
    const change = {
      field: FIELDS[name] ?? name.replaceAll("_", " "),
      before: values.before ?? usual,
      after: values.after ?? usual,
    };
    if (change.before !== change.after) return [change];
    const isName = NAMES.includes(name) || (name === "tier" && "entitlements" in now);
    return isName ? [{ ...change, before: undefined }] : [];
  });
}

function describeParts(what: string, before: unknown, after: unknown): FieldChange[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])].sort();
  return names
    .map((name) => ({ field: `${what} ${name}`, ...valuesOf("", old, now, name) }))
    .filter(({ before, after }) => before !== after);
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  if (value === null || value === undefined) return {};
  return typeof value === "object" && !Array.isArray(value) ? (value as Fields) : { value };
}

/** Returns both values as texts. `kind` is the name that decides how a value is written. */
function valuesOf(kind: string, old: Fields, now: Fields, name = kind) {
  const [before, after] = [old, now].map((fields) =>
    Object.hasOwn(fields, name) ? toText(kind, fields[name]) : undefined,
  );
  return { before, after };
}

function toText(name: string, value: unknown): string {
  if (value === null) return NOTHING[name] ?? "none";
  if (typeof value === "number") return renderCount(value);
  if (name === "shows_machines") return value === true ? "yes" : "no";
  if (name === "changed") return String(value).replaceAll("_", " ").replaceAll(",", ", ");
  if (Array.isArray(value)) return value.map((one) => toText("", one)).join(", ");
  if (typeof value === "object") return describeFeature(value as Fields) ?? JSON.stringify(value);
  const text = String(value);
  return text === NEVER ? "never" : text;
}

/** Says what a license has of a feature: `granted until 2027-06-30`; undefined for another value. */
function describeFeature({ granted, until }: Fields): string | undefined {
  if (typeof granted !== "boolean") return undefined;
  const end = typeof until === "string" ? ` until ${describeEnd(until)}` : "";
  return `${granted ? "granted" : "withdrawn"}${end}`;
}
