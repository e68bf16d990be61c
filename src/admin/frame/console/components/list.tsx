/** @jsxImportSource hono/jsx */
/** The page of a list: some of the rows, with links to the first and the next page. */
import type { Child } from "hono/jsx";

/** Rows of a page. */
export const ROWS = 50;

/**
 * Takes a page from found rows. The query must ask for one row more than {@linkcode ROWS}, to show whether there is a
 * next page. `last` is the last row if the list goes on after it.
 */
export function takePage<Row>(found: readonly Row[]) {
  const rows = found.slice(0, ROWS);
  return { rows, last: found.length > ROWS ? rows.at(-1) : undefined };
}

/** The conditions of a list; empty values are left out. */
export type Conditions = Readonly<Record<string, string | undefined>>;

/** Returns the address of a list; `after` is where its page begins. */
export function toAddress(path: string, conditions: Conditions, after = ""): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...conditions, after })) if (value) query.set(name, value);
  return query.size === 0 ? path : `${path}?${query}`;
}

interface PagesProps {
  readonly path: string;
  readonly conditions?: Conditions;
  /** Where the next page begins, such as the id of the last row; undefined on the last page. */
  readonly after: string | undefined;
  readonly isFirst: boolean;
  readonly children?: Child;
}

/** The links to the first and the next page, and others. */
export function Pages({ path, conditions = {}, after, isFirst, children }: PagesProps) {
  return (
    <nav class="pages" aria-label="Pages">
      {!isFirst && <a href={toAddress(path, conditions)}>First page</a>}
      {after !== undefined && <a href={toAddress(path, conditions, after)}>Next page</a>}
      {children}
    </nav>
  );
}
