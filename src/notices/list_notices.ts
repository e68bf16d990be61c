import { toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { countRows, type Database, MOST_COUNTED, type Sql, toTextArray } from "../database/mod.ts";
import { NOTICE_KINDS, type NoticeKind } from "./kinds.ts";
import type { NoticeSummary } from "./notice.ts";
import { isIn, meets, type NoticeFilter } from "./notice_filter.ts";

interface Row extends Omit<NoticeSummary, "id" | "userId" | "licenseId" | "keyId"> {
  readonly uuid: string;
  readonly accountUuid: string | null;
  readonly licenseUuid: string | null;
  readonly keyUuid: string | null;
}

interface ListOptions {
  readonly now: Date;
  readonly filter?: NoticeFilter | undefined;
}

/** Lists notices in the order in which they were made first. */
export async function listNotices(
  database: Database,
  { now, filter = {} }: ListOptions,
): Promise<NoticeSummary[]> {
  const rows = await database.read<Row>(
    (sql) => sql`
      select n.id as uuid, n.kind, case when n.state = 'open' and n.remind_at > ${now}::timestamptz then 'later' else n.state end as state,
             n.stage, l.account_id as "accountUuid", n.license_id as "licenseUuid", n.key_id as "keyUuid", a.email,
             k.hint as key, n.true_since as "trueSince", n.made_at as "madeAt", n.facts, n.remind_at as "remindAt",
             n.closed_at as "closedAt", n.closed_by as "closedBy", n.withdrawn_for as "withdrawnFor"
        from (${selectPage(sql, { ...filter, now })}) as page
        join notices n using (id)
        left join licenses l on l.id = n.license_id
        left join accounts a on a.id = l.account_id
        left join keys k on k.id = n.key_id
       order by n.id ${filter.newestFirst ? sql`desc` : sql``}`,
  );
  return rows.map(({ uuid, accountUuid, licenseUuid, keyUuid, ...rest }) => ({
    id: toId("ntc", uuid),
    userId: accountUuid && toId("usr", accountUuid),
    licenseId: licenseUuid && toId("lic", licenseUuid),
    keyId: keyUuid && toId("key", keyUuid),
    ...rest,
  }));
}

function selectPage(sql: Sql, { limit, ...filter }: NoticeFilter & { readonly now: Date }) {
  return sql`
    select n.id from notices n where ${meets(sql, filter)}
     order by n.id ${filter.newestFirst ? sql`desc` : sql``} limit ${limit ?? null}::bigint`;
}

/** Counts the notices of a list up to a number, and those after a position. */
export async function countNotices(database: Database, { now, filter = {} }: ListOptions): Promise<number> {
  return await countRows(database, (sql) => selectPage(sql, { ...filter, now, limit: MOST_COUNTED + 1 }));
}

/** Finds a notice by its UUID; refuses if there is none. `what` is what cannot be done, such as `show notice`. */
export async function findNotice(
  database: Database,
  uuid: string,
  { now, what }: { readonly now: Date; readonly what: string },
): Promise<NoticeSummary | Refusal> {
  const [notice] = await listNotices(database, { now, filter: { uuids: [uuid] } });
  return notice ?? refuseUnknownNotice(what, uuid);
}

/** Returns the refusal for an unknown notice. */
export function refuseUnknownNotice(what: string, uuid: string): Refusal {
  return refuse("NOT_FOUND", `Cannot ${what}: there is no notice ${toId("ntc", uuid)}`);
}

/** Counts the open notices of each kind; with `most`, a higher count means only that there are more. */
export async function countOpenNotices(
  database: Database,
  now: Date,
  { most }: { readonly most?: number } = {},
): Promise<Readonly<Record<NoticeKind, number>>> {
  const rows = await database.read<{ kind: NoticeKind; count: number }>(
    (sql) =>
      sql`select kind, count(*)::integer as count from (${selectOpen(sql, now, most)}) as open group by kind`,
  );
  const counts = new Map(rows.map(({ kind, count }) => [kind, count]));
  const all = NOTICE_KINDS.map((kind) => [kind, counts.get(kind) ?? 0]);
  return Object.fromEntries(all) as Record<NoticeKind, number>;
}

function selectOpen(sql: Sql, now: Date, most: number | undefined) {
  if (most === undefined) return sql`select kind from notices n where ${isIn(sql, "open", now)}`;
  // By the order the planner takes the index of the kind: otherwise a kind without a row costs a scan of all rows.
  return sql`
    select n.kind
      from unnest(${toTextArray(NOTICE_KINDS)}::text[]) as known (kind),
           lateral (select n.kind from notices n where ${isIn(sql, "open", now)} and n.kind = known.kind
                     order by n.id limit ${most + 1}::bigint) as n`;
}
