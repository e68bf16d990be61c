import { auditCte } from "../../audit/mod.ts";
import { toId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import { newestKeyOf, type RestrictedBy, type Restriction } from "../mod.ts";
import { findMachine, type MachineSummary } from "./list_machines.ts";
import { allowsMachine } from "./machine_filter.ts";
import { refuseUnknownMachine } from "./release_by_operator.ts";

/** A machine whose place was freed. */
export interface FreedMachine extends Pick<MachineSummary, "id" | "state"> {
  /** When the signed license ends that held its place. It still works without a network until then. */
  readonly fileWorksUntil: Date;
}

/**
 * Frees the place of a machine that a signed license holds, at once: for a license file that is lost. The file, wherever it is,
 * works until its end, so until then the license can run on one machine more than it has places. Refuses an unknown machine,
 * and one whose place no signed license holds.
 */
export async function freeByOperator(
  database: Database,
  uuid: string,
  { actor, now, restriction }: RestrictedBy,
): Promise<FreedMachine | Refusal> {
  const id = toId("mch", uuid);
  const [row] = await database.query<Pick<FreedMachine, "fileWorksUntil">>(
    (sql) => sql`
      with allowed as materialized (
        select m.license_id from machines m where m.id = ${uuid}::uuid and ${allowsMachine(sql, restriction)}
      ),
      freed as materialized (
        select f.* from allowed a cross join lateral free_place(a.license_id, ${uuid}::uuid) f
      ),
      noted as (
        select l.account_id, l.id as license_id,
               ${newestKeyOf(sql)} as key_id,
               jsonb_build_object('machine', ${id}::text)
                 || case when f.was_active then jsonb_build_object('state', 'active')
                         else jsonb_build_object('state', 'offline', 'taken_until', f.signed_until) end as before,
               jsonb_build_object('machine', ${id}::text, 'state', 'released', 'file_works_until', f.signed_until) as after
          from freed f join licenses l on l.id = f.license_id
      ),
      logged as (${auditCte(sql, { action: "machine.free", actor, at: now, from: sql`noted` })})
      select signed_until as "fileWorksUntil" from freed`,
  );
  if (row !== undefined) return { id, state: "released", ...row };
  const machine = await findFreeable(database, uuid, { restriction });
  return isRefusal(machine)
    ? machine
    : refuse("CONFLICT", `${CANNOT}: somebody changed it just now; try again`);
}

/** A machine whose place a signed license holds. */
interface FreeableMachine extends MachineSummary {
  readonly signedUntil: Date;
}

/** Finds the machine that {@linkcode freeByOperator} would free. Refuses the machines that it would refuse. */
export async function findFreeable(
  database: Database,
  uuid: string,
  { restriction }: { readonly restriction?: Restriction | undefined } = {},
): Promise<FreeableMachine | Refusal> {
  const machine = await findMachine(database, uuid, { restriction });
  if (machine === undefined) return refuseUnknownMachine("free the place of machine", uuid);
  if (isFreeable(machine)) return machine;
  const why =
    machine.state === "active" ? "no signed license holds it; release the machine" : "it holds none";
  return refuse("CONFLICT", `${CANNOT}: ${why}`);
}

/** Tells whether a signed license holds the place of a machine. */
export function isFreeable(machine: MachineSummary): machine is FreeableMachine {
  return machine.signedUntil !== null;
}

const CANNOT = "Cannot free the place of the machine";
