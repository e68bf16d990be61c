/** The states of a machine: what each means, in words and as SQL. */
import type { Database, Fragment, Sql } from "../../database/mod.ts";

/**
 * The states of a machine. `active`: it holds a place. `offline`: it is not active, and a license that was signed for
 * it holds its place, because that license works without a network. `released`: it holds no place, because it was
 * released, or because an operator freed the place that a signed license held. `ended`: it holds no place for another reason.
 */
export const MACHINE_STATES = ["active", "offline", "released", "ended"] as const;
export type MachineState = (typeof MACHINE_STATES)[number];

/** What each state means, in the words of operators. */
export const STATE_MEANINGS: Readonly<Record<MachineState, string>> = {
  active: "it holds a place until its seat ends or, node-locked, until it is released",
  offline: "it is not active, but holds a place until the last license that was signed for it has ended",
  released: "it holds no place: it was released, or its place was freed",
  ended:
    "it holds no place: its seat or the license that was signed for it ended, or machines are not counted any more",
};

/**
 * Returns the condition of a state, as SQL, beside the stored one: a place ends by itself before the upkeep notes it.
 */
export function isStill(sql: Sql, state: MachineState): Fragment {
  if (state === "active") return sql`m.active_until > statement_timestamp()`;
  return state === "offline" ? sql`m.signed_until > statement_timestamp()` : sql`true`;
}

/** Returns the condition, as SQL, that the machine `m` holds a place now, by the clock of the database. */
export function isTaken(sql: Sql): Fragment {
  return sql`m.ended_at is null and greatest(m.active_until, m.signed_until) > statement_timestamp()`;
}

/** Tells whether a machine holds a place. */
export function isHolding({ state }: { readonly state: MachineState }): boolean {
  return state === "active" || state === "offline";
}

/** Counts the places of a license that are taken. */
export async function countTaken(database: Database, licenseUuid: string): Promise<number> {
  const [row] = await database.read<{ taken: number }>(
    (sql) => sql`
      select count(*)::integer as taken from machines m
       where m.license_id = ${licenseUuid}::uuid and ${isTaken(sql)}`,
  );
  return row?.taken ?? 0;
}

/** Returns the state of the machine `m` now, as SQL. */
export function stateOf(sql: Sql): Fragment {
  return sql`
    case when not (${isTaken(sql)}) then case when m.released_at is null then 'ended' else 'released' end
         when m.active_until > statement_timestamp() then 'active'
         else 'offline' end`;
}
