/** The places of machines for which licenses are signed, as parts of the statement that notes the signed license. */

import { newUuid } from "../../base/ids.ts";
import type { Fragment, Sql } from "../../database/mod.ts";
import { type MachineName, toStoredFingerprint } from "./fingerprint.ts";

interface SignedPlace {
  /** The license, as SQL; null for a license that does not count machines. */
  readonly licenseUuid: Fragment;
  /** The end of the signed license, as SQL: until then the place stays taken, also after a release. */
  readonly until: Fragment;
  readonly machine: MachineName | undefined;
}

/**
 * Returns the query that keeps the place of an active machine. Its row has `most`, the number of places, and
 * `machine_id`, which is null if the machine is not active. Of a license that does not count machines it has nulls.
 */
export function keepPlace(sql: Sql, { licenseUuid, until, machine }: SignedPlace): Fragment {
  return sql`
    select most, machine_id, null::integer as used, null::timestamptz as room_at
      from sign_place(${licenseUuid}, ${toStoredFingerprint(sql, machine)}, ${until})`;
}

/**
 * Returns the query that gives a machine a place that only the signed license holds. Its row is like that of
 * {@linkcode keepPlace}; if every place is taken, it has `used`, and `room_at`, when a place can become free by itself.
 */
export function holdPlace(sql: Sql, { licenseUuid, until, machine }: SignedPlace): Fragment {
  return sql`
    select most, machine_id, used, nullif(room_at, 'infinity') as room_at
      from take_place(${licenseUuid}, ${toStoredFingerprint(sql, machine)}, ${newUuid()}::uuid, null, null, false, ${until})`;
}
