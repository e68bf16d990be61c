/** Finds the stored lists that the conditions of a list of keys need. */
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Database, Sql } from "../../database/mod.ts";
import type { KeyFilter } from "../../licensing/keys/mod.ts";
import type { FigureName } from "./figures.ts";
import { KEY_CONDITIONS, type KeyConditions, STORED_ORDERS, type StoredCondition } from "./key_conditions.ts";

/** The conditions and orders with a stored list, by their names. */
const STORED: readonly (readonly [string, StoredCondition])[] = [
  ...Object.entries(KEY_CONDITIONS).flatMap(([name, each]) =>
    "select" in each ? [[name, each] as const] : [],
  ),
  ...Object.entries(STORED_ORDERS),
];

/** Tells whether the stored figures answer one of the conditions, or have the order. */
export function isByFigures(conditions: KeyConditions): boolean {
  return listAsked(conditions).length > 0;
}

function listAsked(conditions: KeyConditions): typeof STORED {
  return STORED.filter(([name]) => name === conditions.sort || valueIn(conditions, name) !== undefined);
}

function valueIn(conditions: KeyConditions, name: string) {
  return conditions[name as keyof KeyConditions];
}

/**
 * Returns the conditions as a filter of `listKeys`, with the time of the oldest of their figures; undefined if there is
 * none.
 */
export async function findStoredLists(
  database: Database,
  conditions: KeyConditions,
  now: Date,
): Promise<
  { readonly filter: Pick<KeyFilter, "stored" | "refused" | "by">; readonly asOf: Date } | Refusal | undefined
> {
  const asked = listAsked(conditions);
  if (asked.length === 0) return undefined;
  const figures = await readLengths(database);
  const lists = asked.flatMap(([name, { figure, select }]) => {
    const value = Number(valueIn(conditions, name));
    const found = figures.find((each) => each.name === figure);
    const keys = found?.keys ?? found?.rows?.find(({ days }) => days === value)?.count ?? 0;
    if (found === undefined) return [];
    return { name, asOf: found.asOf, keys, select: (sql: Sql) => select(sql, value, now) };
  });
  if (lists.length < asked.length) {
    const why = "the figures are not computed yet; ask again in a minute";
    return refuse(
      "SERVICE_UNAVAILABLE",
      `Cannot list keys by ${asked.map(([name]) => name).join(" or ")}: ${why}`,
    );
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
