/** The conditions of the list of keys that only the stored figures can answer. */
import { DAY_MS, toDay } from "../../base/calendar.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Database, Fragment, Sql } from "../../database/mod.ts";
import type { KeyFilter, KeySort } from "../../licensing/keys/mod.ts";
import type { FigureName } from "./figures.ts";

/** A condition: the figure that tells the length of its list, and the keys of the list as SQL. */
interface StoredCondition {
  readonly figure: FigureName;
  /** A second figure from which the list has keys, too. */
  readonly also?: FigureName;
  readonly select: (sql: Sql, value: number, now: Date) => Fragment;
}

const CONDITIONS = {
  /** At least this percentage of the quota, from `NEAR_QUOTA_PERCENT` on. */
  near_quota: {
    figure: "near_quota",
    select: (sql, percent) => sql`select key_id from figure_near_quota where percent >= ${percent}::integer`,
  },
  /** One of `UNUSED_DAYS`. */
  unused_for: {
    figure: "unused",
    select: (sql, days) => sql`select key_id from figure_unused where days >= ${days}::smallint`,
  },
  /** The quota is used up now, or will be within this many days. */
  runs_out_within: {
    figure: "runs_out",
    also: "near_quota",
    select: (sql, days, now) => sql`
      select key_id from figure_runs_out
       where day between ${toDay(now)}::date and ${toDay(new Date(now.getTime() + days * DAY_MS))}::date
       union all
      select q.key_id
        from figure_near_quota q join keys k on k.id = q.key_id join licenses l on l.id = k.license_id
       where q.percent >= 100 and k.state <> 'revoked' and l.expires_at > ${now}::timestamptz`,
  },
  /** The keys whose quota is used up; `listKeys` adds those that are refused for other reasons. */
  refused_now: {
    figure: "near_quota",
    select: (sql) => sql`select key_id from figure_near_quota where percent >= 100`,
  },
  all_places_taken: { figure: "machines", select: (sql) => sql`select key_id from figure_full` },
  /** The first keys by a stored value, and the value: an order of the list. */
  most_used: {
    figure: "most_used",
    select: (sql) => sql`select key_id, used as place from figure_most_used`,
  },
  latest_used: {
    figure: "latest_used",
    select: (sql) => sql`
      select key_id, extract(epoch from last_used_at)::bigint as place from figure_latest_used`,
  },
} as const satisfies Readonly<Record<string, StoredCondition>>;

type Name = keyof typeof CONDITIONS;

/** The conditions by their names in the API. `true`, or its text, where there is no value. */
export type StoredConditions = { readonly [Condition in Name]?: number | true | "true" | undefined } & {
  /** The name of a stored order, or another one. */
  readonly sort?: KeySort | undefined;
};

/**
 * Returns the conditions as a filter of `listKeys`, with the time of the oldest of their figures; undefined if there is
 * none.
 */
export async function findStoredLists(
  database: Database,
  conditions: StoredConditions,
  now: Date,
): Promise<
  { readonly filter: Pick<KeyFilter, "stored" | "refused" | "by">; readonly asOf: Date } | Refusal | undefined
> {
  const asked = (Object.keys(CONDITIONS) as Name[]).filter(
    (name) => name === conditions.sort || conditions[name] !== undefined,
  );
  if (asked.length === 0) return undefined;
  const figures = await readLengths(database);
  const lists = asked.flatMap((name) => {
    const { figure, also, select }: StoredCondition = CONDITIONS[name];
    const value = Number(conditions[name]);
    const found = figures.find((each) => each.name === figure);
    const keys = found?.keys ?? found?.rows?.find(({ days }) => days === value)?.count ?? 0;
    const more = figures.find((each) => each.name === also);
    if (found === undefined || (also !== undefined && more === undefined)) return [];
    const asOf = new Date(Math.min(found.asOf.getTime(), more?.asOf.getTime() ?? Number.POSITIVE_INFINITY));
    return { name, asOf, keys: keys + (more?.keys ?? 0), select: (sql: Sql) => select(sql, value, now) };
  });
  if (lists.length < asked.length) {
    const why = "the figures are not computed yet; ask again in a minute";
    return refuse("SERVICE_UNAVAILABLE", `Cannot list keys by ${asked.join(" or ")}: ${why}`);
  }
  const asOf = new Date(Math.min(...lists.map((list) => list.asOf.getTime())));
  const refused = lists.find(({ name }) => name === "refused_now");
  const by = lists.find(({ name }) => name === conditions.sort);
  const others = lists.filter((list) => list !== refused && list !== by);
  return { filter: { stored: others.length > 0 ? others : undefined, refused, ...(by && { by }) }, asOf };
}

interface Length {
  readonly name: FigureName;
  readonly asOf: Date;
  /** How many keys the list of the figure has; null for unused keys. */
  readonly keys: number | null;
  /** How many keys have been unused for at least so many days; null for every other list. */
  readonly rows: readonly { readonly days: number; readonly count: number }[] | null;
}

async function readLengths(database: Database): Promise<readonly Length[]> {
  return await database.read<Length>(
    (sql) => sql`
      select name, as_of as "asOf", (value ->> 'keys')::bigint as keys,
             case name when 'unused' then value -> 'rows' end as rows
        from figures`,
  );
}
