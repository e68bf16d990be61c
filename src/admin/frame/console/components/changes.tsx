/** @jsxImportSource hono/jsx */
import { type AuditRow, describeChanges, type FieldChange } from "../../../../audit/mod.ts";
import type { Effect } from "../../../../licensing/mod.ts";
import { cutText, MOST_OF_REASON, shownLength } from "../cut_text.ts";
import type { Column } from "./table.tsx";
import { Foreign, NONE, Pill } from "./values.tsx";

/** A form lists at most this many of the rows that it changes. */
export const MOST_LISTED = 100;

/** A value before and after a change. */
export function FromTo({ from, to }: { readonly from: string; readonly to: string }) {
  return (
    <>
      <Foreign text={from} /> →{" "}
      <b>
        <Foreign text={to} />
      </b>
    </>
  );
}

/** What changes, each value on a line of its own, with what is lost by it. */
export function Effects({ of }: { readonly of: readonly Effect[] }) {
  return of.map(({ what, from, to, loss }) => (
    <span class="effect">
      {what}: <FromTo from={from} to={to} />
      {loss && (
        <>
          {" "}
          <Pill tone="warning">{loss}</Pill>
        </>
      )}
    </span>
  ));
}

/** The column with the reason of each change. */
export const REASON_COLUMN: Column<AuditRow> = {
  label: "Reason",
  needs: "middle",
  cell: ({ reason }) => (reason ? <Foreign text={cutText(reason, MOST_OF_REASON)} /> : NONE),
};

/** The change in a row of the audit log: each changed value before and after. */
export function Changes(row: Pick<AuditRow, "before" | "after">) {
  const { changes, isCut } = changesOf(row.before, row.after);
  if (changes.length === 0 && !isCut) return <span class="muted">no values</span>;
  const { plain = [], digests = [] } = Object.groupBy(changes, (change) =>
    isDigest(change) ? "digests" : "plain",
  );
  return (
    <>
      <ul class="altered">
        {plain.map(Changed)}
        {isCut && <li class="muted">more: the command claviger audit shows it</li>}
      </ul>
      {digests.length > 0 && (
        <details>
          <summary>more</summary>
          <ul class="altered">{digests.map(Changed)}</ul>
        </details>
      )}
    </>
  );
}

/** Checksums are long, and seldom read. */
const isDigest = ({ before, after }: FieldChange) =>
  [before, after].some((text) => text !== undefined && /^[0-9a-f]{64}$/.test(text));

function Changed({ field, before, after }: FieldChange) {
  return (
    <li>
      <span class="muted">
        <Foreign text={field} />
        {before === undefined ? ":" : after === undefined ? " was" : " from"}
      </span>{" "}
      {before !== undefined && <Foreign text={before} />}
      {before !== undefined && after !== undefined && <span class="muted"> to </span>}
      {after !== undefined && <Foreign text={after} />}
    </li>
  );
}

/** The most bytes that all values of a row take in the page, with their names, so that a page of 50 rows stays small. */
const MOST_BYTES = 900;

/** Returns the changed fields, and whether some were left out because their values are too long. */
export function changesOf(before: unknown, after: unknown) {
  const changes: FieldChange[] = [];
  let left = MOST_BYTES;
  for (const { field, ...values } of describeChanges(before, after)) {
    const change = { field, before: toMinute(values.before), after: toMinute(values.after) };
    left -= shownLength(change.field) + shownLength(change.before ?? "") + shownLength(change.after ?? "");
    if (left < 0) return { changes, isCut: true };
    changes.push(change);
  }
  return { changes, isCut: false };
}

/** Shows an instant as all pages do: `2026-11-22 12:30`. */
function toMinute(value: string | undefined): string | undefined {
  return value?.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\dZ$/, "$1 $2");
}
