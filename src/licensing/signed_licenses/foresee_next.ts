/**
 * What the next license of a machine would be, and why it would be refused, as far as a read can tell. It changes nothing, so a
 * door can say both before it does something else. The statement of the export decides.
 */
import { toId } from "../../base/ids.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Database, Sql } from "../../database/mod.ts";
import { isTaken, type MachineName, type NameMachine, toStoredFingerprint } from "../machines/mod.ts";
import {
  allowsRow,
  endIfStarted,
  keyEnd,
  type Restriction,
  selectTerm,
  type Term,
  type Tier,
  UNRESTRICTED,
} from "../mod.ts";
import { foreseeExport } from "./foresee_export.ts";
import { daysOfExport } from "./note_license.ts";
import { type Examined, refuseDays, refuseExport } from "./refuse_export.ts";

export interface NextLicense {
  readonly machine: MachineName;
  /** The fingerprint of the machine, of which only the hash is known. */
  readonly fingerprint: string;
  /** By default the newest active one of the license. */
  readonly keyUuid?: string | undefined;
  readonly days?: number | undefined;
  readonly restriction?: Restriction | undefined;
  readonly now: Date;
}

export interface ForeseenLicense {
  readonly keyUuid: string;
  readonly tier: Tier;
  readonly days: number;
  readonly expiresAt: Date;
  /** Until when its machine then has a place of the license; null if the license does not count machines. */
  readonly placeUntil: Date | null;
  /** The end of the license, if its term begins with this file; otherwise null. */
  readonly termEndsAt: Date | null;
}

const OTHER_MACHINE = refuse(
  "INVALID_REQUEST",
  "Cannot export license: the fingerprint is not that of the machine of the report",
  { fields: [{ field: "fingerprint", error: "It is not the fingerprint of the machine of the report" }] },
);

interface Row extends Term, Examined {
  readonly keyUuid: string;
  readonly tier: Tier;
  /** The end of the key, or of the license if it is earlier. */
  readonly expiresAt: Date;
  readonly maxOfflineDays: number | null;
  /** Until when a license that was signed earlier holds the place of the machine. */
  readonly signedUntil: Date | null;
}

/** Says which license an export would sign for a machine, or refuses it. Refuses the fingerprint of another machine. */
export async function foreseeNext(
  database: Database,
  next: NextLicense,
  nameMachine: NameMachine,
): Promise<ForeseenLicense | Refusal> {
  const { machine, fingerprint, keyUuid, days, now } = next;
  if (nameMachine(machine.licenseUuid, fingerprint).hash !== machine.hash) return OTHER_MACHINE;
  const [row] = await database.read<Row>((sql) => selectNext(sql, next));
  if (row === undefined)
    return refuse(
      "CONFLICT",
      `Cannot export license: ${keyUuid === undefined ? "no key of the license is active" : `${toId("key", keyUuid)} is no key of the license`}`,
    );
  const refusal = refuseDays(next) ?? refuseExport(row, { keyUuid: row.keyUuid, machine, now });
  if (refusal !== undefined) return refusal;
  const expiresAt = foreseeExport(row, { days, now });
  const { signedUntil } = row;
  const longer = signedUntil !== null && signedUntil > expiresAt ? signedUntil : expiresAt;
  return {
    keyUuid: row.keyUuid,
    tier: row.tier,
    days: row.days,
    expiresAt,
    placeUntil: row.maxMachines === null ? null : longer,
    termEndsAt: endIfStarted(row, now) ?? null,
  };
}

function selectNext(
  sql: Sql,
  { machine, keyUuid = undefined, days, restriction = UNRESTRICTED, now }: NextLicense,
) {
  const { mostDays, usualDays } = daysOfExport(sql);
  const chosen =
    keyUuid === undefined
      ? sql`k.state = 'active' and ${keyEnd(sql)} > ${now}::timestamptz and ${allowsRow(sql, restriction)}`
      : sql`k.id = ${keyUuid}::uuid`;
  return sql`
    select k.id as "keyUuid", k.state, l.tier, ${keyEnd(sql)} as "expiresAt", ${keyEnd(sql)} as "endsAt", ${selectTerm(sql)},
           coalesce(${days ?? null}::int, ${usualDays}) as days, ${mostDays} as "mostDays",
           l.max_offline_days as "maxOfflineDays", ${allowsRow(sql, restriction)} as "isAllowed",
           l.max_machines as "maxMachines", places.used as "placesTaken",
           own.id is null and places.used >= l.max_machines as "isPlaceRefused",
           nullif(places.room_at, 'infinity') as "roomAt", nullif(own.signed_until, '-infinity') as "signedUntil"
      from licenses l
      join keys k on k.license_id = l.id
      left join lateral (
        select id, signed_until from machines m
         where m.license_id = l.id and m.fingerprint = ${toStoredFingerprint(sql, machine)} and ${isTaken(sql)}) as own on true
      left join lateral (
        -- The place that becomes free by itself so that one more fits.
        select count(*)::integer as used,
               (array_agg(greatest(m.active_until, m.signed_until) order by greatest(m.active_until, m.signed_until)))
                 [greatest(count(*) - l.max_machines, 0) + 1] as room_at
          from machines m where l.max_machines is not null and m.license_id = l.id and ${isTaken(sql)}) as places on true
     where l.id = ${machine.licenseUuid}::uuid and ${chosen}
     order by k.id desc limit 1`;
}
