/** @jsxImportSource hono/jsx */
import type { AuditRow } from "../../../../audit/mod.ts";
import { Changes, REASON_COLUMN } from "./changes.tsx";
import { type Column, Table } from "./table.tsx";
import { Ago, Foreign } from "./values.tsx";

interface HistoryProps {
  /** The rows of the audit log, newest first. */
  readonly rows: readonly AuditRow[];
  readonly now: Date;
  /** Whether there may be more rows. */
  readonly isCut: boolean;
  /** The conditions under which the audit log has all rows, such as `account=usr_…`. */
  readonly query: string;
  /** True if rows link to their keys: on every page except the page of a key. */
  readonly hasKeys?: boolean;
}

/** The history of a thing: who changed it, how and why. */
export function History({ rows, now, isCut, query, hasKeys = false }: HistoryProps) {
  const key: Column<AuditRow> = {
    label: "Key",
    // Identifiers of one minute begin alike.
    cell: ({ keyId }) =>
      keyId === null ? (
        <span class="muted">none</span>
      ) : (
        <a class="thing" href={`/console/keys/${keyId}`} title={keyId}>
          <code>{`…${keyId.slice(-6)}`}</code>
        </a>
      ),
  };
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      <Table
        caption={isCut ? `The newest ${rows.length} changes` : "All changes, newest first"}
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
