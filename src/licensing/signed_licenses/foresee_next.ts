/**
 * What the next license of a machine would be, and why it would be refused, as far as a read can tell. It changes nothing, so a
 * door can say both before it does something else. The statement of the export decides.
 */
import { toId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { Database, Sql } from "../../database/mod.ts";
import type { MachineName, NameMachine } from "../machines/mod.ts";
import {
  allowsRow,
  endIfStarted,
  keyEnd,
  type Restriction,
  selectTerm,
  type Tier,
  UNRESTRICTED,
} from "../mod.ts";
import {
  type ForeseenKey,
  type ForeseenMachine,
  foreseeExport,
  foreseeExports,
  usualDays,
} from "./foresee_export.ts";

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

export interface ForeseenLicense extends Pick<ForeseenMachine, "placeUntil" | "holdsPlace"> {
  readonly keyUuid: string;
  readonly tier: Tier;
  readonly days: number;
  readonly expiresAt: Date;
  /** The end of the license, if its term begins with this file; otherwise null. */
  readonly termEndsAt: Date | null;
}

const OTHER_MACHINE = refuse(
  "INVALID_REQUEST",
  "Cannot export license: the fingerprint is not that of the machine of the report",
  { fields: [{ field: "fingerprint", error: "It is not the fingerprint of the machine of the report" }] },
);

/** Says which license an export would sign for a machine, or refuses it. Refuses the fingerprint of another machine. */
export async function foreseeNext(
  database: Pick<Database, "read">,
  { machine, keyUuid, ...next }: NextLicense,
  nameMachine: NameMachine,
): Promise<ForeseenLicense | Refusal> {
  const { fingerprint, now, restriction } = next;
  if (nameMachine(machine.licenseUuid, fingerprint).hash !== machine.hash) return OTHER_MACHINE;
  const { licenseUuid } = machine;
  const [row] = await database.read<KeyRow>((sql) =>
    selectKey(sql, { licenseUuid, keyUuid, restriction, now }),
  );
  if (row === undefined) {
    const why =
      keyUuid === undefined
        ? "no key of the license is active"
        : `${toId("key", keyUuid)} is no key of the license`;
    return refuse("CONFLICT", `Cannot export license: ${why}`);
  }
  const { uuid, ...facts } = row;
  const key = { ...facts, id: toId("key", uuid), licenseId: toId("lic", licenseUuid) };
  const foreseen = await foreseeExports(database, key, { ...next, fingerprints: [fingerprint], nameMachine });
  if (isRefusal(foreseen)) return foreseen;
  const days = next.days ?? usualDays(key);
  return {
    keyUuid: uuid,
    tier: key.tier,
    days,
    expiresAt: foreseeExport(key, { days, now }),
    placeUntil: foreseen[0]?.placeUntil,
    holdsPlace: foreseen[0]?.holdsPlace ?? false,
    termEndsAt: endIfStarted(key, now) ?? null,
  };
}

type KeyRow = Omit<ForeseenKey, "id" | "licenseId"> & { readonly uuid: string };

/** Selects the key, or the newest active one that the restriction allows. */
function selectKey(
  sql: Sql,
  {
    licenseUuid,
    keyUuid,
    restriction = UNRESTRICTED,
    now,
  }: Pick<NextLicense, "keyUuid" | "restriction" | "now"> & { readonly licenseUuid: string },
) {
  const isChosen =
    keyUuid === undefined
      ? sql`k.state = 'active' and ${keyEnd(sql)} > ${now}::timestamptz and ${allowsRow(sql, restriction)}`
      : sql`k.id = ${keyUuid}::uuid`;
  return sql`
    select k.id as uuid, k.state, k.mode, l.tier, ${keyEnd(sql)} as "expiresAt", ${selectTerm(sql)},
           l.max_offline_days as "maxOfflineDays", l.max_machines as "maxMachines"
      from licenses l
      join keys k on k.license_id = l.id
     where l.id = ${licenseUuid}::uuid and ${isChosen}
     order by k.id desc limit 1`;
}
