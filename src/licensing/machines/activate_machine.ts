import { type Actor, auditCte } from "../../audit/mod.ts";
import { newUuid } from "../../base/ids.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { redactKeys } from "../../base/secrets/mod.ts";
import type { Database, Fragment, Sql } from "../../database/mod.ts";
import { type MachineName, toStoredFingerprint } from "./fingerprint.ts";

interface Activation {
  readonly keyUuid: string;
  readonly machine: MachineName;
  /** Texts for people. API keys in them are not stored. An undefined text leaves the earlier one in place. */
  readonly name?: string | undefined;
  readonly platform?: string | undefined;
  readonly actor: Actor;
  readonly now: Date;
}

interface ActivatedMachine {
  /** Null if the license has no limit: then nothing is stored. */
  readonly uuid: string | null;
  /** When the seat ends without a heartbeat; null if only a release ends the activation. */
  readonly activeUntil: Date | null;
  /** The number of places; null without a limit. */
  readonly most: number | null;
  /** How many places are taken, this one among them. */
  readonly used: number;
}

/**
 * Activates a machine: gives it a place of its license, or lets it keep the one it holds. By the clock of the database
 * the machines that hold a place are never more than the places of the license. Refuses with `MACHINE_LIMIT_REACHED` if
 * every place is taken. The audit log notes the first activation of a machine.
 */
export async function activateMachine(
  database: Database,
  { keyUuid, machine, name, platform, actor, now }: Activation,
): Promise<ActivatedMachine | Refusal> {
  const [row] = await database.query<Row>(
    (sql) => sql`
      with taken as materialized (
        select * from take_place(${machine.licenseUuid}::uuid, ${toStoredFingerprint(sql, machine)},
                                 ${newUuid()}::uuid, ${withoutKeys(name)}::text, ${withoutKeys(platform)}::text, true, null)
      ),
      first as (${firstActivation(sql, keyUuid)}),
      logged as (${auditCte(sql, { action: "machine.activate", actor, at: now, from: sql`first` })})
      select machine_id as uuid, nullif(active_until, 'infinity') as "activeUntil", most, coalesce(used, 0) as used,
             ceil(extract(epoch from nullif(room_at, 'infinity') - clock_timestamp()))::integer as "roomInSeconds"
        from taken`,
  );
  if (row === undefined) throw new Error("The function returns one row");
  const { roomInSeconds, ...activated } = row;
  if (activated.uuid !== null || activated.most === null) return activated;
  const { most: limit, used } = activated;
  return refuse(
    "MACHINE_LIMIT_REACHED",
    `Every place for machines of this license is taken: ${used} of ${limit}`,
    {
      machines: { limit, used },
      ...(roomInSeconds !== null && { retryAfterSeconds: Math.max(1, roomInSeconds) }),
    },
  );
}

function withoutKeys(text: string | undefined): string | null {
  return text === undefined ? null : redactKeys(text);
}

interface Row extends ActivatedMachine {
  /** If refused: after how many seconds a place can become free by itself; null if none can. */
  readonly roomInSeconds: number | null;
}

/**
 * Returns the query that makes a row for the audit log from `taken`, the row of `take_place`, if the log is to note the
 * machine as a new one. The log names no machine by its texts: an erasure removes these, and the log keeps its rows.
 */
function firstActivation(sql: Sql, keyUuid: string): Fragment {
  return sql`
    select l.account_id, l.id as license_id, k.id as key_id, null::jsonb as before,
           jsonb_build_object('machine', ${toMachineId(sql, sql`machine_id`)}) as after
      from taken, keys k join licenses l on l.id = k.license_id
     where is_new and k.id = ${keyUuid}::uuid`;
}

/** Returns the identifier of a machine from its UUID, as SQL, like `toId`: for the audit log. */
export function toMachineId(sql: Sql, uuid: Fragment): Fragment {
  return sql`'mch_' || replace(${uuid}::text, '-', '')`;
}
