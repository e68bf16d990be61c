/** Pages of a list: the fields `limit` and `after` of a request, and the answer `{data, next}`. */
import * as v from "valibot";
import { isRefusal, type Refusal } from "../../../base/refusal.ts";
import { inJsonSchema, parsedField, wholeNumber } from "../../../base/rule.ts";
import { type Cursor, MAX_CURSOR_LENGTH, parseCursor, renderCursor } from "./cursor.ts";

/** The rows of a page without `limit`. */
export const USUAL_ROWS = 50;
const MAX_ROWS = 100;
/** The fields that the query of every list has, besides its filters. */
export const PAGE_FIELDS = {
  limit: v.optional(
    parsedField(wholeNumber(1, MAX_ROWS), { default: USUAL_ROWS, description: "The most rows of a page" }),
  ),
  after: v.optional(
    v.pipe(
      v.string(),
      v.maxLength(MAX_CURSOR_LENGTH, "must be the `next` of an answer"),
      inJsonSchema({ description: "The `next` of the previous page, which had the same filters" }),
    ),
  ),
} as const;

/** Returns the schema of the answer. */
export function pageOf<Row extends v.GenericSchema>(row: Row) {
  return v.object({
    data: v.array(row),
    next: v.pipe(
      v.nullable(v.string()),
      inJsonSchema({ description: "`after` for the next page; null on the last page" }),
    ),
  });
}

type PageQuery = Partial<v.InferOutput<v.ObjectSchema<typeof PAGE_FIELDS, undefined>>>;

interface PageOptions<Row, Query extends PageQuery> {
  /** The name of the list, such as `keys`. */
  readonly list: string;
  readonly query: Query;
  readonly now: Date;
  /** Returns the first `limit` rows after the position, in the order of their positions. */
  find(
    part: Cursor & { readonly limit: number },
    filters: Omit<Query, keyof PageQuery>,
  ): Promise<readonly Row[] | Refusal>;
  positionOf(row: Row): string;
  /** The form of a position; that of a UUID by default. */
  readonly position?: RegExp;
  render(row: Row): object;
}

/** Finds and renders one page. Refuses a cursor of another list or of other filters. */
export async function findPage<Row, Query extends PageQuery>(options: PageOptions<Row, Query>) {
  const { list, query, now, find, positionOf, position, render } = options;
  const { limit = USUAL_ROWS, after, ...filters } = query;
  const cursor = parseCursor({ name: list, filters, position }, after, now);
  if (isRefusal(cursor)) return cursor;
  // One row more than the page has tells whether there is another page.
  const rows = await find({ ...cursor, limit: limit + 1 }, filters);
  if (isRefusal(rows)) return rows;
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  const next =
    last === undefined
      ? null
      : renderCursor({ name: list, filters }, { at: cursor.at, position: positionOf(last) });
  return { data: shown.map(render), next };
}
