/** @jsxImportSource hono/jsx */
/** Tables and lists of facts. */
import type { Child } from "hono/jsx";

export interface Column<Row> {
  readonly label: string;
  readonly isNumeric?: boolean;
  /** The orders that the column has, by their values of `sort`: the one for the first click comes first. */
  readonly sorts?: readonly string[];
  /** The order of the list itself is about this column, so people need no link for it. */
  readonly isOrdered?: true;
  /** The column has buttons, not values. */
  readonly isControl?: true;
  /** The windows that have room for the column, by default all. Cards and paper always have it. */
  readonly needs?: "wide" | "middle";
  cell(row: Row): Child;
}

/** A column of numbers, which are aligned at the right. */
export function numeric<Row>(label: string, cell: Column<Row>["cell"]): Column<Row> {
  return { label, isNumeric: true, cell };
}

export interface TableProps<Row> {
  readonly caption: Child;
  /** The first column names the row. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  /** The order of the rows, and the address of the page in another order. */
  readonly order?: { readonly sort: string; readonly toPath: (sort: string) => string } | undefined;
  /** Keeps its rows from becoming cards in a window that is narrow: its columns are few, or each cell is one number. */
  readonly stays?: "few" | "matrix" | undefined;
  /** What takes the place of a table without rows. */
  readonly none?: Child;
}

/**
 * A table. On a phone each row becomes a card. The first row and the first column are headings of all cells, as browsers and
 * screen readers know without the attribute `scope`.
 */
export function Table<Row>({ caption, columns, rows, order, stays, none }: TableProps<Row>) {
  if (rows.length === 0 && none !== undefined) return none;
  return (
    <table class={classesOf(columns, stays)}>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) => (
            <Head {...column} order={order} />
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {columns.map(({ label, cell }, index) =>
              index === 0 ? (
                <th>{cell(row)}</th>
              ) : (
                <td data-label={stays === undefined ? label : undefined}>{cell(row)}</td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/**
 * Returns the classes by which the style leaves out columns, aligns those of numbers, or keeps the table a table. The table
 * says it once, in place of each cell.
 */
function classesOf<Row>(columns: TableProps<Row>["columns"], stays: TableProps<Row>["stays"]) {
  const hasCounts = columns.length > 1 && columns.slice(1).every(({ isNumeric }) => isNumeric);
  const classes = columns.flatMap(({ needs, isNumeric }, index) => [
    needs && `${needs}-${index + 1}`,
    isNumeric && !hasCounts && `number-${index + 1}`,
  ]);
  const kept = stays && { few: "stays", matrix: "stays matrix" }[stays];
  return [kept, hasCounts && "counts", ...classes].filter(Boolean).join(" ") || undefined;
}

/** The head of a column: its link sorts the rows by it, or turns their order round. */
function Head<Row>({ label, sorts = [], order }: Column<Row> & Pick<TableProps<Row>, "order">) {
  const at = sorts.indexOf(order?.sort ?? "");
  const isAscending = /^(oldest|soonest|email|name)/.test(order?.sort ?? "");
  const next = sorts[(at + 1) % sorts.length];
  return (
    <th aria-sort={at === -1 ? undefined : isAscending ? "ascending" : "descending"}>
      {order && next ? <a href={order.toPath(next)}>{label}</a> : label}
    </th>
  );
}

type Fact = readonly [name: string, value: Child];

/** Names with their values, one below the other; null and false are left out. */
export function Facts({ facts }: { readonly facts: readonly (Fact | null | false)[] }) {
  return (
    <dl class="facts">
      {facts
        .filter((fact) => fact !== null && fact !== false)
        .map(([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
