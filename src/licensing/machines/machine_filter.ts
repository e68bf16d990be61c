/** The conditions of the list of machines, and the filter that they give. */
import { SPAN } from "../../base/calendar.ts";
import { type ConditionValues, condition, ORDER_CONDITION } from "../../base/condition.ts";
import { idRule } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../../database/mod.ts";
import {
  ACCOUNT_CONDITION,
  allowsRow,
  findAccountOfList,
  isRestricted,
  type ListPart,
  type Restriction,
  SEARCH_TEXT,
  UNRESTRICTED,
} from "../mod.ts";
import { MACHINE_STATES, type MachineState } from "./machine_state.ts";

/** The conditions of the list of machines, for every door. */
export const MACHINE_CONDITIONS = {
  account: ACCOUNT_CONDITION,
  license: condition("only machines of this license", idRule("lic"), { as: "id" }),
  key: condition("only machines of the license of this key", idRule("key"), { as: "id" }),
  name: condition("only machines with this text in their name", SEARCH_TEXT, { as: "text" }),
  state: condition("only machines in this state", MACHINE_STATES),
  unseen: condition("only machines without an activation or a heartbeat for so long, such as 30d", SPAN, {
    as: "span",
  }),
  sort: ORDER_CONDITION,
} as const;

/** The conditions of a list: it contains the machines that meet all given conditions. */
export interface MachineFilter extends Omit<ListPart, "search"> {
  readonly accountUuid?: string | undefined;
  readonly licenseUuid?: string | undefined;
  /** Machines of the license of this key. */
  readonly keyUuid?: string | undefined;
  /** A part of the name; capitals do not matter. */
  readonly name?: string | undefined;
  readonly state?: MachineState | undefined;
  /** Machines that were not seen for so long, by the clock of the database. */
  readonly unseenMs?: number | undefined;
  readonly uuids?: readonly string[];
  /** Only machines of licenses with a key that it allows. */
  readonly restriction?: Restriction | undefined;
  /** Lists the newest machines first; `afterUuid` then selects older machines. By default the oldest come first. */
  readonly newestFirst?: boolean | undefined;
}

/** Returns the conditions as a filter. Refuses an account that is not there. */
export async function findMachineFilter(
  database: Database,
  { account: who, license, key, name, state, unseen, sort }: ConditionValues<typeof MACHINE_CONDITIONS>,
): Promise<MachineFilter | Refusal> {
  const accountUuid = await findAccountOfList(database, who, "list machines");
  if (isRefusal(accountUuid)) return accountUuid;
  return {
    ...{ accountUuid, licenseUuid: license, keyUuid: key, name, state },
    unseenMs: unseen,
    newestFirst: sort === "newest",
  };
}

/** Returns the conditions of the filter on the machine `m`, as SQL, besides its state. */
export function meets(sql: Sql, filter: MachineFilter): Fragment {
  const { accountUuid, licenseUuid, keyUuid, name, unseenMs, uuids, afterUuid, restriction, newestFirst } =
    filter;
  return [
    allowsMachine(sql, restriction),
    ...(afterUuid ? [sql`m.id ${newestFirst ? sql`<` : sql`>`} ${afterUuid}::uuid`] : []),
    ...(accountUuid ? [sql`m.account_id = ${accountUuid}::uuid`] : []),
    ...(licenseUuid ? [sql`m.license_id = ${licenseUuid}::uuid`] : []),
    ...(keyUuid ? [sql`m.license_id = (select license_id from keys where id = ${keyUuid}::uuid)`] : []),
    ...(uuids ? [sql`m.id = any(${toTextArray(uuids)}::uuid[])`] : []),
    ...(name === undefined ? [] : [isNamed(sql, name)]),
    ...(unseenMs === undefined ? [] : [isUnseen(sql, unseenMs)]),
  ].reduce((all, condition) => sql`${all} and ${condition}`);
}

/**
 * Returns the condition, as SQL, that the text is in the name of the machine `m`. No index has it, as for
 * {@linkcode isUnseen}.
 */
function isNamed(sql: Sql, text: string): Fragment {
  return sql`strpos(lower(m.name), lower(${text}::text)) > 0`;
}

/**
 * Returns the condition, as SQL, that the machine `m` was not seen for so long. No index has it, because a heartbeat writes no
 * index. So the list reads the machines of each state in their order until its page is full, and all of them if few were not
 * seen. Of a license or an account it reads only their machines.
 */
function isUnseen(sql: Sql, unseenMs: number): Fragment {
  return sql`m.last_seen_at <= statement_timestamp() - make_interval(secs => ${unseenMs / 1_000}::double precision)`;
}

/** Returns the condition, as SQL, that the restriction allows the license of the machine `m`. */
export function allowsMachine(sql: Sql, restriction: Restriction = UNRESTRICTED): Fragment {
  if (!isRestricted(restriction)) return sql`true`;
  return sql`exists (
    select from licenses l join keys k on k.license_id = l.id
     where l.id = m.license_id and ${allowsRow(sql, restriction)})`;
}
