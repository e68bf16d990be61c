/** The conditions of the list of notices, and the filter that they give. */
import { type ConditionValues, condition, ORDER_CONDITION } from "../base/condition.ts";
import { idRule } from "../base/ids.ts";
import { isRefusal, type Refusal } from "../base/refusal.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { ACCOUNT_CONDITION, findAccountOfList } from "../licensing/mod.ts";
import { NOTICE_KINDS, NOTICE_STATES, type NoticeKind, type NoticeState } from "./kinds.ts";

/** The conditions of the list of notices, for every door. */
export const NOTICE_CONDITIONS = {
  kind: condition("only notices of this kind", NOTICE_KINDS),
  state: condition("only notices in this state", [...NOTICE_STATES, "all"], { default: "open" }),
  account: ACCOUNT_CONDITION,
  license: condition("only notices of this license", idRule("lic"), { as: "id" }),
  sort: ORDER_CONDITION,
} as const;

/** The conditions of a list: it contains the notices that meet all given conditions. */
export interface NoticeFilter {
  readonly kind?: NoticeKind | undefined;
  /** Every state by default. */
  readonly state?: NoticeState | undefined;
  readonly accountUuid?: string | undefined;
  readonly licenseUuid?: string | undefined;
  readonly uuids?: readonly string[] | undefined;
  readonly afterUuid?: string | undefined;
  readonly limit?: number | undefined;
  /** By default the oldest come first. */
  readonly newestFirst?: boolean | undefined;
}

/** Returns the conditions as a filter: by default the open notices. Refuses an account that is not there. */
export async function findNoticeFilter(
  database: Database,
  { kind, state = "open", account: who, license, sort }: ConditionValues<typeof NOTICE_CONDITIONS>,
): Promise<NoticeFilter | Refusal> {
  const accountUuid = await findAccountOfList(database, who, "list notices");
  if (isRefusal(accountUuid)) return accountUuid;
  return {
    ...{ kind, accountUuid, licenseUuid: license },
    ...(state !== "all" && { state }),
    newestFirst: sort === "newest",
  };
}

/** Returns the conditions of the filter on the notice `n`, as SQL. */
export function meets(sql: Sql, { now, ...filter }: NoticeFilter & { readonly now: Date }): Fragment {
  const { kind, state, accountUuid, licenseUuid, uuids, afterUuid, newestFirst } = filter;
  return [
    ...(state ? [isIn(sql, state, now)] : []),
    ...(kind ? [sql`n.kind = ${kind}::text`] : []),
    ...(licenseUuid ? [sql`n.license_id = ${licenseUuid}::uuid`] : []),
    ...(accountUuid
      ? [sql`n.license_id in (select id from licenses where account_id = ${accountUuid}::uuid)`]
      : []),
    ...(uuids ? [sql`n.id = any(${toTextArray(uuids)}::uuid[])`] : []),
    ...(afterUuid ? [sql`n.id ${newestFirst ? sql`<` : sql`>`} ${afterUuid}::uuid`] : []),
  ].reduce((all, condition) => sql`${all} and ${condition}`, sql`true`);
}

/** Returns the condition, as SQL, that the notice `n` is in a state at `now`. */
export function isIn(sql: Sql, state: NoticeState, now: Date): Fragment {
  if (state === "open")
    return sql`n.state = 'open' and (n.remind_at is null or n.remind_at <= ${now}::timestamptz)`;
  return state === "later"
    ? sql`n.state = 'open' and n.remind_at > ${now}::timestamptz`
    : sql`n.state = ${state}::text`;
}
