import { PRIVILEGE_FIELDS, TERM_FIELDS } from "../licensing/mod.ts";

/** Leaves out of a key or a license, for people, what nearly every license has: the usual allowances, no term, and no use beyond the limit. */
export function withoutUsual(fields: Readonly<Record<string, unknown>>): object {
  const entries = Object.entries(fields).filter(([name, value]) => {
    if (Object.hasOwn(TERM_FIELDS, name)) return (fields.term_days ?? null) !== null;
    if (name === "over") return value !== 0;
    return value !== null || !PRIVILEGE_FIELDS.includes(name);
  });
  return Object.fromEntries(entries);
}
