/** @jsxImportSource hono/jsx */
import type { AuditRow } from "../../../../audit/mod.ts";
import { Changes, REASON_COLUMN } from "./changes.tsx";
import { type Column, Table } from "./table.tsx";
import { Ago, Foreign, NONE, ThingLink } from "./values.tsx";

/** The most rows that a page shows. */
export const HISTORY_ROWS = 20;

interface HistoryProps {
  /** The newest {@linkcode HISTORY_ROWS} rows of the audit log, newest first. */
  readonly rows: readonly AuditRow[];
  readonly now: Date;
  /** The conditions under which the audit log has all rows, such as `account=usr_…`. */
  readonly query: string;
  /** True if rows link to their keys: on every page except the page of a key. */
  readonly hasKeys?: boolean;
}

/** The history of a thing: who changed it, how and why. */
export function History({ rows, now, query, hasKeys = false }: HistoryProps) {
  const key: Column<AuditRow> = {
    label: "Key",
    cell: ({ keyId }) => (keyId === null ? NONE : <ThingLink page="keys" id={keyId} />),
  };
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      <Table
        caption={
          rows.length === HISTORY_ROWS ? `The newest ${HISTORY_ROWS} changes` : "All changes, newest first"
        }
        columns={[
          { label: "When", cell: ({ at }) => <Ago at={at} now={now} /> },
          { label: "Action", cell: ({ action }) => <code>{action}</code> },
          { label: "By", cell: ({ actor }) => <Foreign text={actor} /> },
          ...(hasKeys ? [key] : []),
          { label: "Values", cell: Changes },
          REASON_COLUMN,
        ]}
        rows={rows}
      />
      <nav class="pages" aria-label="Audit log">
        <a href={`/console/audit?${query}`}>Show the changes in the audit log</a>
      </nav>
    </section>
  );
}
