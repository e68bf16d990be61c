/** @jsxImportSource hono/jsx */
import { type AuditFilter, type AuditRow, describeActor, listAudit } from "../../../../audit/mod.ts";
import type { Database } from "../../../../database/mod.ts";
import { Changes, REASON_COLUMN } from "./changes.tsx";
import { Deed, type NamedThings, nameThings } from "./deed.tsx";
import { Table } from "./table.tsx";
import { Ago, Foreign } from "./values.tsx";

/** The most rows that a page shows. */
const HISTORY_ROWS = 20;

/** Reads the newest changes of a thing. */
export async function readHistory(database: Database, of: AuditFilter) {
  return await nameThings(database, await listAudit(database, { ...of, limit: HISTORY_ROWS }));
}

interface HistoryProps {
  /** The newest {@linkcode HISTORY_ROWS} rows of the audit log, newest first. */
  readonly rows: readonly (AuditRow & NamedThings)[];
  readonly now: Date;
  /** The conditions under which the audit log has all rows, such as `account=usr_…`. */
  readonly query: string;
}

/** The history of a thing: who changed it, how and why. */
export function History({ rows, now, query }: HistoryProps) {
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      <Table
        caption={
          rows.length === HISTORY_ROWS ? `The newest ${HISTORY_ROWS} changes` : "All changes, newest first"
        }
        columns={[
          { label: "When", cell: ({ at }) => <Ago at={at} now={now} /> },
          { label: "By", cell: ({ actor }) => <Foreign text={describeActor(actor)} /> },
          { label: "What", cell: Deed },
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
