/**
 * The order of a list of keys as SQL, and the position after which a page begins.
 *
 * By default keys are sorted by their UUID, and so by the time of their creation. In another order a value comes first: its
 * column in a candidate is `place`.
 */
import type { Fragment, Sql } from "../../database/mod.ts";
import type { KeyFilter, KeyOrder } from "./key_filter.ts";

/** Returns the columns of `listed_keys` that a candidate has: its id and, in the order of expiries, its place. */
export function columnsOf(sql: Sql, { by }: KeyFilter): Fragment {
  return by === undefined ? sql`key_id` : sql`key_id, expires_at as place`;
}

/** Returns the end of a statement with candidates: the first ones in the order of the list. */
export function inOrder(sql: Sql, filter: KeyFilter): Fragment {
  const direction = directionOf(sql, filter);
  const first = filter.by === undefined ? sql`` : sql`place ${direction},`;
  return sql`order by ${first} key_id ${direction} limit ${filter.limit ?? null}::bigint`;
}

/** Returns the condition that a row, of which `id` is the key, comes after the position. */
export function isAfter(sql: Sql, id: Fragment, { afterUuid, newestFirst, by }: KeyFilter): Fragment {
  if (afterUuid === undefined) return sql`true`;
  const [uuid = "", value] = afterUuid.split(".").toReversed();
  const beyond = newestFirst ? sql`<` : sql`>`;
  if (by === undefined) return sql`${id} ${beyond} ${uuid}::uuid`;
  const column = by === "expiry" ? sql`expires_at` : sql`place`;
  const from = by === "expiry" ? sql`select key_id, expires_at as place from listed_keys` : by.select(sql);
  // Without its value the key is where it stands now.
  const place =
    value === undefined
      ? sql`(select place from (${from}) as now where key_id = ${uuid}::uuid)`
      : by === "expiry"
        ? ofPlace(sql, value)
        : sql`${value}::bigint`;
  return sql`(${column}, ${id}) ${beyond} (${place}, ${uuid}::uuid)`;
}

/** Returns a value as the text of a position: microseconds are exact, which a Date is not. */
export function toPlace(sql: Sql, by: KeyOrder, value: Fragment): Fragment {
  return by === "expiry" ? sql`(extract(epoch from ${value}) * 1000000)::bigint::text` : sql`${value}::text`;
}

/** Returns the instant of a position. Both products are exact, since double precision holds their factors. */
function ofPlace(sql: Sql, value: string): Fragment {
  return sql`timestamptz 'epoch' + interval '1 second' * (${value}::bigint / 1000000)
                                 + interval '1 microsecond' * (${value}::bigint % 1000000)`;
}

/** Returns how the ids of keys are sorted, as SQL. UUIDs sort by the time of their creation. */
export function directionOf(sql: Sql, { newestFirst }: KeyFilter): Fragment {
  return newestFirst ? sql`desc` : sql`asc`;
}
