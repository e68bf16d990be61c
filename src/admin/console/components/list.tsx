/** @jsxImportSource hono/jsx */
/** What lists have in common: a part of the rows with the way to the next part. */

/** Rows of a page. */
export const ROWS = 50;

/** A page of a list. */
export interface ListPage<Row> {
  readonly rows: readonly Row[];
  /** The last row, if the list goes on after it. */
  readonly last: Row | undefined;
}

/** Takes a page from rows of which one more than {@linkcode ROWS} was asked for. */
export function takePage<Row>(found: readonly Row[]): ListPage<Row> {
  const rows = found.slice(0, ROWS);
  return { rows, last: found.length > ROWS ? rows.at(-1) : undefined };
}

interface PagesProps {
  /** The path of the list. */
  readonly path: string;
  /** The conditions of the list; empty values are left out. */
  readonly conditions?: Readonly<Record<string, string>>;
  /** The id of the last row; undefined on the last page. */
  readonly after: string | undefined;
  readonly isFirst: boolean;
}

/** The links to the first and the next page. */
export function Pages({ path, conditions = {}, after, isFirst }: PagesProps) {
  const linkTo = (last: string) => {
    const given = Object.entries({ ...conditions, after: last }).filter(([, value]) => value !== "");
    return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
  };
  return (
    <nav class="pages" aria-label="Pages">
      {!isFirst && <a href={linkTo("")}>First page</a>}
      {after !== undefined && <a href={linkTo(after)}>Next page</a>}
    </nav>
  );
}
