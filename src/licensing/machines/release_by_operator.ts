import { auditCte } from "../../audit/mod.ts";
import { toId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import { newestKeyOf, type RestrictedBy, type Restriction } from "../mod.ts";
import { findMachine, type MachineSummary } from "./list_machines.ts";
import { allowsMachine } from "./machine_filter.ts";
import { isHolding } from "./machine_state.ts";
import { releasedRow } from "./released_row.ts";

/** A machine after its release: until when its place stays taken, and whether this release ended anything. */
export interface ReleasedMachine extends Pick<MachineSummary, "id" | "state" | "takenUntil"> {
  readonly isChanged: boolean;
}

/**
 * Releases a machine for an operator. Its place is free at once, or when the last license that was signed for it has ended:
 * only {@linkcode freeByOperator} frees such a place earlier; until then the machine is `offline`. Nothing changes for a
 * machine that is offline already. Refuses an unknown machine, and a machine that holds no place.
 */
export async function releaseByOperator(
  database: Database,
  uuid: string,
  { actor, now, restriction }: RestrictedBy,
): Promise<ReleasedMachine | Refusal> {
  const [row] = await database.query<Pick<MachineSummary, "state" | "takenUntil">>(
    (sql) => sql`
      with allowed as materialized (
        select m.license_id, m.fingerprint from machines m
         where m.id = ${uuid}::uuid and ${allowsMachine(sql, restriction)}
      ),
      released as materialized (
        select r.license_id, case when r.ended_at is null then 'offline' else 'released' end as state,
               case when r.ended_at is null then r.signed_until end as taken_until
          from allowed a cross join lateral release_place(a.license_id, a.fingerprint) r
      ),
      noted as (${releasedRow(sql, { uuid, keyUuid: newestKeyOf(sql) })}),
      logged as (${auditCte(sql, { action: "machine.release", actor, at: now, from: sql`noted` })})
      select state, taken_until as "takenUntil" from released`,
  );
  if (row !== undefined) return { id: toId("mch", uuid), ...row, isChanged: true };
  const machine = await findReleasable(database, uuid, { restriction });
  if (isRefusal(machine)) return machine;
  const { id, state, takenUntil } = machine;
  if (state === "offline") return { id, state, takenUntil, isChanged: false };
  return refuse("CONFLICT", `${CANNOT}: somebody changed it at the same moment; try again`);
}

/** Finds the machine that {@linkcode releaseByOperator} would release. Refuses the machines that it would refuse. */
export async function findReleasable(
  database: Database,
  uuid: string,
  { restriction }: { readonly restriction?: Restriction | undefined } = {},
): Promise<MachineSummary | Refusal> {
  const machine = await findMachine(database, uuid, { restriction });
  if (machine === undefined) return refuseUnknownMachine("release machine", uuid);
  return isHolding(machine) ? machine : refuse("CONFLICT", `${CANNOT}: it holds no place`);
}

const CANNOT = "Cannot release machine";

/** Returns the refusal for an unknown machine; `what` is what cannot be done, such as `show machine`. */
export function refuseUnknownMachine(what: string, uuid: string): Refusal {
  return refuse("NOT_FOUND", `Cannot ${what}: there is no machine ${toId("mch", uuid)}`);
}
