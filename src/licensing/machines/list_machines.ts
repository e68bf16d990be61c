import { toId } from "../../base/ids.ts";
import { countRows, type Database, type Fragment, MOST_COUNTED, type Sql } from "../../database/mod.ts";
import { allowsMachine, type MachineFilter, meets } from "./machine_filter.ts";
import { isStill, MACHINE_STATES, type MachineState, stateOf } from "./machine_state.ts";

/** The data of a machine for operators. */
export interface MachineSummary {
  readonly id: string;
  readonly userId: string;
  readonly licenseId: string;
  readonly email: string;
  /** Null if the client gave none, or if the account was erased. */
  readonly name: string | null;
  readonly platform: string | null;
  /** By the clock of the database, like every end of a place. */
  readonly state: MachineState;
  /** Since when it holds its place, or held its last one. */
  readonly activatedAt: Date;
  /** The last activation or heartbeat. */
  readonly lastSeenAt: Date;
  /** When the seat ends without another heartbeat; null if only a release ends the activation, or if it is not active. */
  readonly activeUntil: Date | null;
  /** When its place becomes free by itself; null if only a release frees the place, or if it holds none. */
  readonly takenUntil: Date | null;
  /** When the last license that was signed for it ends, if that holds its place until then; otherwise null. */
  readonly signedUntil: Date | null;
}

/**
 * Lists machines in the order of their first activation; all machines without a filter. A machine whose place ended by
 * itself is missing in the lists of every state until the upkeep has noted the end.
 */
export async function listMachines(
  database: Database,
  { filter = {} }: { readonly filter?: MachineFilter } = {},
): Promise<MachineSummary[]> {
  return await select(database, filter, (sql) => sql`m.id = any(array(${selectPage(sql, filter)}))`);
}

/** Counts the machines of a list up to a number, and those after a position. */
export async function countMachines(database: Database, filter: MachineFilter): Promise<number> {
  return await countRows(database, (sql) => selectPage(sql, { ...filter, limit: MOST_COUNTED + 1 }));
}

/** Finds a machine by its UUID; undefined if there is none, or none that the restriction allows. */
export async function findMachine(
  database: Database,
  uuid: string,
  { restriction }: Pick<MachineFilter, "restriction"> = {},
): Promise<MachineSummary | undefined> {
  const [machine] = await select(
    database,
    {},
    (sql) => sql`m.id = ${uuid}::uuid and ${allowsMachine(sql, restriction)}`,
  );
  return machine;
}

/** Returns the columns, as SQL, that say how and since when the machine `m` in `state` holds its place. */
export function placeColumns(sql: Sql): Fragment {
  return sql`
    state, m.activated_at as "activatedAt", m.last_seen_at as "lastSeenAt",
    case when state = 'active' then nullif(m.active_until, 'infinity') end as "activeUntil",
    case when state in ('active', 'offline') then nullif(greatest(m.active_until, m.signed_until), 'infinity') end
      as "takenUntil"`;
}

/** Selects the ids of the machines of a page: the first ones of each stored state, whose order an index has. */
function selectPage(sql: Sql, filter: MachineFilter): Fragment {
  const { state } = filter;
  const conditions = meets(sql, filter);
  const firsts = (state ? [state] : MACHINE_STATES)
    .map(
      (stored) => sql`
        (select m.id from machines m where m.stored_state = ${stored}::text and ${conditions}
           and ${state ? isStill(sql, state) : sql`true`} ${inOrder(sql, filter)})`,
    )
    .reduce((all, part) => sql`${all} union all ${part}`);
  return sql`select m.id from (${firsts}) as m ${inOrder(sql, filter)}`;
}

/** Identifiers sort by the time at which they were made. */
function inOrder(sql: Sql, { newestFirst, limit }: MachineFilter): Fragment {
  return sql`order by m.id ${newestFirst ? sql`desc` : sql``} limit ${limit ?? null}::bigint`;
}

interface Row extends Omit<MachineSummary, "id" | "userId" | "licenseId"> {
  readonly uuid: string;
  readonly accountUuid: string;
  readonly licenseUuid: string;
}

async function select(
  database: Database,
  filter: MachineFilter,
  isSelected: (sql: Sql) => Fragment,
): Promise<MachineSummary[]> {
  const rows = await database.read<Row>(
    (sql) => sql`
      select m.id as uuid, a.id as "accountUuid", l.id as "licenseUuid", a.email, m.name, m.platform, ${placeColumns(sql)},
             case when state in ('active', 'offline') and m.signed_until > statement_timestamp() then m.signed_until end
               as "signedUntil"
        from machines m
        join licenses l on l.id = m.license_id
        join accounts a on a.id = l.account_id
        cross join lateral (select ${stateOf(sql)} as state) s
       where ${isSelected(sql)}
       order by m.id ${filter.newestFirst ? sql`desc` : sql``}`,
  );
  return rows.map(({ uuid, accountUuid, licenseUuid, ...rest }) => ({
    id: toId("mch", uuid),
    userId: toId("usr", accountUuid),
    licenseId: toId("lic", licenseUuid),
    ...rest,
  }));
}
