/** @jsxImportSource hono/jsx */
/** Tables and lists of facts. */
import type { Child } from "hono/jsx";

export interface Column<Row> {
  readonly label: string;
  readonly isNumeric?: boolean;
  cell(row: Row): Child;
}

/** A column of numbers, which are aligned at the right. */
export function numeric<Row>(label: string, cell: Column<Row>["cell"]): Column<Row> {
  return { label, isNumeric: true, cell };
}

export interface TableProps<Row> {
  readonly caption: string;
  /** The first column names the row. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
}

/** A table; in a narrow window each row becomes a card. */
export function Table<Row>({ caption, columns, rows }: TableProps<Row>) {
  return (
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ label, isNumeric }) => (
            <th scope="col" class={isNumeric ? "number" : undefined}>
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {columns.map(({ label, isNumeric, cell }, index) =>
              index === 0 ? (
                <th scope="row">{cell(row)}</th>
              ) : (
                <td data-label={label} class={isNumeric ? "number" : undefined}>
                  {cell(row)}
                </td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
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
