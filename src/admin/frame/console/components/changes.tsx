/** @jsxImportSource hono/jsx */
import type { AuditRow } from "../../../../audit/mod.ts";
import { changesOf } from "../audit_changes.ts";
import { cutText, MOST_OF_REASON } from "../cut_text.ts";
import type { Column } from "./table.tsx";
import { Foreign, NONE } from "./values.tsx";

/** The column with the reason of each change. */
export const REASON_COLUMN: Column<AuditRow> = {
  label: "Reason",
  cell: ({ reason }) => (reason ? <Foreign text={cutText(reason, MOST_OF_REASON)} /> : NONE),
};

/** The change in a row of the audit log: each changed value before and after. */
export function Changes(row: Pick<AuditRow, "before" | "after">) {
  const { changes, isCut } = changesOf(row.before, row.after);
  if (changes.length === 0 && !isCut) return <span class="muted">no values</span>;
  return (
    <ul class="altered">
      {changes.map(({ field, before, after }) => (
        <li>
          <span class="muted">
            <Foreign text={field} />
            {before === undefined ? ":" : after === undefined ? " was" : " from"}
          </span>{" "}
          {before !== undefined && <Foreign text={before} />}
          {before !== undefined && after !== undefined && <span class="muted"> to </span>}
          {after !== undefined && <Foreign text={after} />}
        </li>
      ))}
      {isCut && <li class="muted">more: the command claviger audit shows it</li>}
    </ul>
  );
}
