/** The places of machines for which licenses are signed, as parts of the statement that notes the signed license. */

import { newUuid } from "../../base/ids.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../../database/mod.ts";
import { type MachineName, toStoredFingerprint } from "./fingerprint.ts";
import { isTaken } from "./machine_state.ts";

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
    select most, machine_id, null::integer as used, null::timestamptz as room_at,
           null::timestamptz as place_until
      from sign_place(${licenseUuid}, ${toStoredFingerprint(sql, machine)}, ${until})`;
}

/**
 * Returns the query that gives a machine a place that only the signed license holds. Its row is like that of
 * {@linkcode keepPlace}; if every place is taken, it has `used`, and `room_at`, when a place can become free by itself.
 * `place_until` is the end of the last license that was signed for the machine, with this one.
 */
export function holdPlace(sql: Sql, { licenseUuid, until, machine }: SignedPlace): Fragment {
  return sql`
    select most, machine_id, used, nullif(room_at, 'infinity') as room_at,
           case when machine_id is not null then greatest(${until}, (
             select m.signed_until from machines m
              where m.license_id = ${licenseUuid} and m.fingerprint = ${toStoredFingerprint(sql, machine)})) end as place_until
      from take_place(${licenseUuid}, ${toStoredFingerprint(sql, machine)}, ${newUuid()}::uuid, null, null, false, ${until})`;
}

/** A machine of a license, as far as a signed license takes or keeps its place. */
interface KnownPlace {
  readonly isTaken: boolean;
  /** When the last license ends that was signed for the machine; null if none was. */
  readonly signedUntil: Date | null;
}

/**
 * Reads how many places of a license are taken, when the next one can become free by itself if every place is taken (null if only
 * a release frees one), and the places of some machines by their hashes.
 */
export async function findPlaces(
  database: Pick<Database, "read">,
  {
    licenseUuid,
    maxMachines,
    machines,
  }: {
    readonly licenseUuid: string;
    readonly maxMachines: number;
    readonly machines: readonly MachineName[];
  },
): Promise<{
  readonly taken: number;
  readonly nextEnd: Date | null;
  readonly places: ReadonlyMap<string, KnownPlace>;
}> {
  const [all] = await database.read<{ taken: number; nextEnd: Date | null }>(
    (sql) => sql`
      with held as materialized (
        select greatest(m.active_until, m.signed_until) as ends_at, count(*) over () as taken
          from machines m where m.license_id = ${licenseUuid}::uuid and ${isTaken(sql)}
      )
      select taken::integer as taken, nullif(ends_at, 'infinity') as "nextEnd"
        from held order by ends_at
      offset (select greatest(coalesce(max(taken), 0) - ${maxMachines}::bigint, 0) from held) limit 1`,
  );
  const rows = await database.read<KnownPlace & { readonly hash: string }>(
    (sql) => sql`
      select encode(m.fingerprint, 'hex') as hash, ${isTaken(sql)} as "isTaken",
             nullif(m.signed_until, '-infinity') as "signedUntil"
        from machines m
       where m.license_id = ${licenseUuid}::uuid
         and m.fingerprint = any(array(select decode(h, 'hex')
                                         from unnest(${toTextArray(machines.map(({ hash }) => hash))}::text[]) as h))`,
  );
  const places = new Map(rows.map(({ hash, ...place }) => [hash, place]));
  return { taken: all?.taken ?? 0, nextEnd: all?.nextEnd ?? null, places };
}
