/** The fields of the form that issues a key: what people enter, and the request that it means. */
import * as v from "valibot";
import { parseTimestamp, toTimestamp } from "../../calendar.ts";
import { isStorableText } from "../../database/mod.ts";
import type { IssueRequest } from "../../keys/mod.ts";
import {
  EXTERNAL_ID_FORM,
  isExternalId,
  NEVER_EXPIRES,
  oneYearAfter,
  parseEmail,
  TIERS,
} from "../../licensing/mod.ts";

export const MODES = ["live", "test"] as const;
const DAY = /^\d{4}-\d\d-\d\d$/;
const MAX_NAME_LENGTH = 200;
const MAX_EXTERNAL_ID_LENGTH = 255;

const optionalLine = (label: string, maxLength = MAX_NAME_LENGTH) =>
  v.pipe(
    v.optional(v.string(), ""),
    v.trim(),
    v.maxLength(maxLength, `${label} must have at most ${maxLength} characters`),
    v.check(isStorableText, `${label} has a character that cannot be stored`),
    v.transform((text) => (text === "" ? undefined : text)),
  );

const FIELDS = v.object({
  email: v.pipe(
    v.optional(v.string(), ""),
    v.trim(),
    v.check((text) => parseEmail(text) !== undefined, "Enter an e-mail address, such as ada@example.org"),
    v.transform((text) => parseEmail(text) ?? ""),
  ),
  tier: v.picklist(TIERS, "Choose a tier"),
  name: optionalLine("The name"),
  organization: optionalLine("The organization"),
  external_id: v.pipe(
    optionalLine("The external id", MAX_EXTERNAL_ID_LENGTH),
    v.check((text) => text === undefined || isExternalId(text), `An external id has ${EXTERNAL_ID_FORM}`),
  ),
  mode: v.picklist(MODES, "Choose a mode"),
  last_day: v.optional(v.string(), ""),
  never: v.optional(v.string(), ""),
  monthly_limit: v.pipe(
    v.optional(v.string(), ""),
    v.trim(),
    v.check(
      (text) => text === "" || (/^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text))),
      "Enter a whole number, or nothing for the tier's limit",
    ),
    v.transform((text) => (text === "" ? undefined : Number(text))),
  ),
});

export type IssueField = keyof typeof FIELDS.entries;
export type Entered = Readonly<Partial<Record<IssueField, string>>>;
export type FieldErrors = Readonly<Partial<Record<IssueField, string>>>;

/** Returns the fields as they were entered. */
export function readEntered(form: URLSearchParams): Entered {
  return Object.fromEntries(Object.keys(FIELDS.entries).map((name) => [name, form.get(name) ?? undefined]));
}

/** Returns the request that the fields mean, or the first error of each wrong field. */
export function parseIssueFields(
  entered: Entered,
  now: Date,
): { readonly request: IssueRequest } | { readonly errors: FieldErrors } {
  const parsed = v.safeParse(FIELDS, entered);
  if (!parsed.success) {
    const { nested = {} } = v.flatten<typeof FIELDS>(parsed.issues);
    return { errors: Object.fromEntries(Object.entries(nested).map(([name, all]) => [name, all?.[0]])) };
  }
  const { last_day, never, monthly_limit, external_id, ...fields } = parsed.output;
  const expiresAt = never === "" ? endOf(last_day) : NEVER_EXPIRES;
  if (expiresAt === undefined) return { errors: { last_day: "Enter a day, such as 2027-01-31" } };
  if (expiresAt <= now) return { errors: { last_day: "Enter today or a later day" } };
  return { request: { ...fields, expiresAt, monthlyLimit: monthly_limit, externalId: external_id, now } };
}

/** The day that the form proposes, so that the key works for at least a year. */
export function defaultLastDay(now: Date): string {
  return toTimestamp(oneYearAfter(now)).slice(0, 10);
}

/** Returns the last second of a day such as `2027-01-31`; undefined for any other text. */
function endOf(day: string): Date | undefined {
  return DAY.test(day) && parseTimestamp(day) !== undefined ? new Date(`${day}T23:59:59Z`) : undefined;
}
