/** @jsxImportSource hono/jsx */
/** The page of a list: some of the rows, how many there are, and links to the other pages. */
import type { Child } from "hono/jsx";
import { counted, renderCount } from "../../../../base/render_count.ts";
import { MOST_COUNTED } from "../../../../database/mod.ts";
import { optionsOf, Select } from "./form.tsx";

/** Rows of a page. */
const ROWS = 50;

/** The rows that meet the conditions of a list. */
export interface Readable<Row> {
  /**
   * Reads the rows after a position, or the first rows if there is no position. Backwards, it reads the rows before the
   * position, the nearest first.
   */
  read(position: string | undefined, limit: number, isBackwards?: boolean): Promise<readonly Row[]>;
  /**
   * Counts all rows, or with a position only the rows before it. A count above {@linkcode MOST_COUNTED} means only that
   * there are more. Undefined where counting would take too long.
   */
  count(before?: string): Promise<number | undefined>;
}

/**
 * Makes the list of a filter readable in both directions from its functions `list` and `count`, which know only "after a
 * row". The rows before a row are the rows after it in the opposite order.
 */
export function bothWays<Row, Filter extends { readonly newestFirst?: boolean | undefined }>(
  filter: Filter,
  {
    list,
    count,
  }: {
    list(part: Filter & PartOfList): Promise<readonly Row[]>;
    count(part: Filter & Pick<PartOfList, "afterUuid">): Promise<number | undefined>;
  },
): Readable<Row> {
  const backwards = { newestFirst: !filter.newestFirst };
  return {
    read: (afterUuid, limit, isBackwards) =>
      list({ ...filter, ...(isBackwards && backwards), afterUuid, limit }),
    count: (afterUuid) => count({ ...filter, ...backwards, afterUuid }),
  };
}

interface PartOfList {
  readonly afterUuid: string | undefined;
  readonly limit: number;
}

/** Where a page begins or ends; nowhere on the first page. */
interface Place {
  readonly after?: string | undefined;
  readonly before?: string | undefined;
}

/** A page and its place in the list. */
export interface PageOfList<Row> {
  readonly rows: readonly Row[];
  readonly isFirst: boolean;
  /** The row before which the previous page ends; undefined if there is none. */
  readonly first?: Row | undefined;
  /** The row after which the next page begins; undefined if there is none. */
  readonly last?: Row | undefined;
  /** The number of all rows of the list, as {@linkcode Readable} counts them. */
  readonly total: number | undefined;
  /** The number of rows before the page, counted in the same way. */
  readonly skipped: number | undefined;
}

/**
 * Reads a page of a list. The address of a page names the row before it, not the number of rows before it. So new rows do
 * not shift a page, and no row is left out between two pages.
 */
export async function readPage<Row>(
  list: Readable<Row>,
  { after, before }: Place,
  positionOf: (row: Row) => string,
): Promise<PageOfList<Row>> {
  const isBackwards = before !== undefined;
  // Reads one row more than a page has. If there is one, a further page exists.
  const found = await list.read(before ?? after, ROWS + 1, isBackwards);
  // No further page before this one: it is the first page, so it is read from the start, with all its rows.
  if (isBackwards && found.length <= ROWS) return await readPage(list, {}, positionOf);
  const rows = isBackwards ? found.slice(0, ROWS).toReversed() : found.slice(0, ROWS);
  const [first, last] = [rows[0], rows.at(-1)];
  const isFirst = !isBackwards && after === undefined;
  const isLast = !isBackwards && found.length <= ROWS;
  const [total, skipped] =
    isFirst && isLast
      ? [rows.length, 0]
      : await Promise.all([list.count(), isFirst || !first ? 0 : list.count(positionOf(first))]);
  return {
    rows,
    isFirst,
    total,
    skipped,
    first: isFirst ? undefined : first,
    last: isLast ? undefined : last,
  };
}

/** Says which rows of the list a page has: `51 to 100 of 1,234 keys`. */
export function renderPlace(noun: string, { rows, total, skipped }: PageOfList<unknown>): string {
  if (total === rows.length) return counted(total, noun);
  const here = counted(rows.length, noun);
  if (total === undefined || skipped === undefined) return `${here} on this page`;
  if (skipped > MOST_COUNTED) return `${here} behind the first ${renderCount(MOST_COUNTED)}`;
  const end = skipped + rows.length;
  // Rows may have come or gone between the two counts. The end of a page may be higher than a count goes.
  const all = renderCount(total > MOST_COUNTED ? total : Math.max(total, end), { most: MOST_COUNTED });
  return `${renderCount(skipped + 1)} to ${renderCount(end)} of ${all} ${noun}s`;
}

/** Names an order: `most_used` is `most used first`. */
export function renderOrder(sort: string): string {
  const alphabetical = { email: "by e-mail", name: "by name" }[sort];
  if (alphabetical !== undefined) return alphabetical;
  return `${sort.replaceAll("_", " ")} first${sort === "soonest_expiry" ? ", expired ones before" : ""}`;
}

interface OrderFieldProps extends Omit<Parameters<typeof Select>[0], "label" | "choices"> {
  readonly orders: readonly string[];
}

/** The field for the order of a list, which begins with the newest rows. */
export function OrderField({ orders, ...field }: OrderFieldProps) {
  const others = orders.filter((order) => order !== "newest");
  return (
    <Select
      {...field}
      label="Order"
      choices={[{ value: "", label: renderOrder("newest") }, ...optionsOf(others, renderOrder)]}
    />
  );
}

/** The conditions of a list; empty values are left out. */
export type Conditions = Readonly<Record<string, string | undefined>>;

/** Returns the address of a list with these conditions, and with the place of a page. */
export function toAddress(path: string, conditions: Conditions): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(conditions)) if (value) query.set(name, value);
  return query.size === 0 ? path : `${path}?${query}`;
}

interface PagesProps<Row> {
  readonly path: string;
  readonly conditions?: Conditions;
  readonly page: PageOfList<Row>;
  /** Returns the position of a row for an address. */
  toAfter(row: Row): string;
  readonly children?: Child;
}

/** The links to the first, the previous and the next page, and others, if there are any. The count of rows has the id `rows`. */
export function Pages<Row>({ path, conditions = {}, page, toAfter, children }: PagesProps<Row>) {
  const { isFirst, first, last } = page;
  const at = (place: Place) => `${toAddress(path, { ...conditions, ...place })}#rows`;
  if (isFirst && !first && !last && !children) return null;
  return (
    <nav class="pages" id="pages" tabindex={-1} aria-label="Pages">
      {!isFirst && <a href={at({})}>First page</a>}
      {first && <a href={at({ before: toAfter(first) })}>Previous page</a>}
      {last && <a href={at({ after: toAfter(last) })}>Next page</a>}
      {children}
    </nav>
  );
}
