/**
 * Selects the keys that a search names, as people copy it from mails, lists and programs: by the start or the end of the
 * key, by the id of the key or of its license, or by the external id of the license.
 */

import { parseId } from "../base/ids.ts";
import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { type KeyParts, parseKeyParts } from "./parse_key_parts.ts";
import type { Search } from "./search_accounts.ts";

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
