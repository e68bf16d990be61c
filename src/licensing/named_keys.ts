/**
 * Selects the keys that a search names, as people copy it from mails, lists and programs: by the start or the end of the
 * key, by the id of the key or of its license, or by the external id of the license.
 */

import { parseId } from "../base/ids.ts";
import { KEY_DIGITS } from "../base/secrets/mod.ts";
import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import type { Search } from "./search_accounts.ts";

/** How many digits of the start and of the end of a key its hint has. */
export const HINT_DIGITS = 4;

/** A prefix, the first digits, and the last digits behind three dots. Each of them can be missing. */
const PART_OF_KEY = new RegExp(
  `^(?:[a-z0-9]{1,32}_(live|test)_)?([0-9a-f]{${HINT_DIGITS},${KEY_DIGITS}})?` +
    `(?:(…|\\.\\.\\.)([0-9a-f]{${HINT_DIGITS},${KEY_DIGITS - HINT_DIGITS}})?)?$`,
  "i",
);

/** The digits of a key that a text gives. */
interface KeyParts {
  readonly mode?: string | undefined;
  readonly start?: string | undefined;
  readonly end?: string | undefined;
  /** True for four to eight digits alone, which can be the start or the end. */
  readonly isEither?: true;
}

/** Returns the parts of a key that a text gives; undefined if it gives none. */
export function parseKeyParts(text: string): KeyParts | undefined {
  const [, mode, digits, dots, last] = PART_OF_KEY.exec(text.toLowerCase()) ?? [];
  const start = digits?.slice(0, HINT_DIGITS);
  const end = last?.slice(-HINT_DIGITS);
  if (start === undefined) return end === undefined ? undefined : { mode, end };
  if (mode === undefined && dots === undefined && digits && digits.length <= 2 * HINT_DIGITS)
    return { start, end: digits.slice(-HINT_DIGITS), isEither: true };
  return { mode, start, end: digits?.length === KEY_DIGITS ? digits.slice(-HINT_DIGITS) : end };
}

/** Selects the ids of the keys that a search names. */
export function selectNamedKeys(sql: Sql, { text, licenseUuids }: Search): Fragment {
  const key = parseId("key", text);
  const license = parseId("lic", text);
  return sql`
    select id from keys where license_id = any(${toTextArray(licenseUuids)}::uuid[])
    ${key === undefined ? sql`` : sql`union select id from keys where id = ${key}::uuid`}
    ${license === undefined ? sql`` : sql`union select id from keys where license_id = ${license}::uuid`}
    ${unionParts(sql, parseKeyParts(text))}`;
}

/** Selects the ids of the keys whose license has the external id. */
export function selectKeysOfExternalId(sql: Sql, externalId: string): Fragment {
  return sql`
    select k.id from licenses l join keys k on k.license_id = l.id where l.external_id = ${externalId}::text`;
}

function unionParts(sql: Sql, parts: KeyParts | undefined): Fragment {
  if (parts === undefined) return sql``;
  const { mode, start, end, isEither } = parts;
  const ofMode = mode === undefined ? sql`` : sql`and mode = ${mode}`;
  const ends =
    end === undefined ? sql`` : sql`union select id from keys where right(hint, 4) = ${end}::text ${ofMode}`;
  // Not with an index of its own: the keys with this end are few, and those without a known start belong to them.
  if (end !== undefined && start !== undefined && !isEither)
    return sql`${ends} and coalesce(key_start(hint), ${start}::text) = ${start}::text`;
  const starts =
    start === undefined
      ? sql``
      : sql`union select id from keys where key_start(hint) = ${start}::text ${ofMode}`;
  return sql`${ends} ${starts}`;
}
