/** The conditions of the list of machines, and the filter that they give. */
import { type ConditionValues, condition, ORDER_CONDITION } from "../../base/condition.ts";
import { idRule } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import type { Database, Fragment, Sql } from "../../database/mod.ts";
import {
  ACCOUNT_CONDITION,
  allowsRow,
  findAccountOfList,
  isRestricted,
  type ListPart,
  type Restriction,
  UNRESTRICTED,
} from "../mod.ts";
import { MACHINE_STATES, type MachineState } from "./machine_state.ts";

/** The conditions of the list of machines, for every door. */
export const MACHINE_CONDITIONS = {
  account: ACCOUNT_CONDITION,
  license: condition("only machines of this license", idRule("lic"), { as: "id" }),
  key: condition("only machines of the license of this key", idRule("key"), { as: "id" }),
  state: condition("only machines in this state", MACHINE_STATES),
  sort: ORDER_CONDITION,
} as const;

/** The conditions of a list: it contains the machines that meet all given conditions. */
export interface MachineFilter extends Omit<ListPart, "search"> {
  readonly accountUuid?: string | undefined;
  readonly licenseUuid?: string | undefined;
  /** Machines of the license of this key. */
  readonly keyUuid?: string | undefined;
  readonly state?: MachineState | undefined;
  /** Only machines of licenses with a key that it allows. */
  readonly restriction?: Restriction | undefined;
  /** Lists the newest machines first; `afterUuid` then selects older machines. By default the oldest come first. */
  readonly newestFirst?: boolean | undefined;
}

/** Returns the conditions as a filter. Refuses an account that is not there. */
export async function findMachineFilter(
  database: Database,
  { account: who, license, key, state, sort }: ConditionValues<typeof MACHINE_CONDITIONS>,
): Promise<MachineFilter | Refusal> {
  const accountUuid = await findAccountOfList(database, who, "list machines");
  if (isRefusal(accountUuid)) return accountUuid;
  return { accountUuid, licenseUuid: license, keyUuid: key, state, newestFirst: sort === "newest" };
}

/** Returns the condition, as SQL, that the restriction allows the license of the machine `m`. */
export function allowsMachine(sql: Sql, restriction: Restriction = UNRESTRICTED): Fragment {
  if (!isRestricted(restriction)) return sql`true`;
  return sql`exists (
    select from licenses l join keys k on k.license_id = l.id
     where l.id = m.license_id and ${allowsRow(sql, restriction)})`;
}
