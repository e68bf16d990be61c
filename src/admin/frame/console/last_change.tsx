/** @jsxImportSource hono/jsx */
/**
 * What a page says after a change: the values before and after, and a sentence of the action. The address names only
 * the action and the request. The values come from the row that the request has written to the audit log. Without such
 * a row of this operator, the page claims no change.
 */
import type { Child } from "hono/jsx";
import { type AuditRow, listAudit, nameOfActor } from "../../../audit/mod.ts";
import { HOUR_MS } from "../../../calendar.ts";
import type { Action } from "./action.ts";
import { changesOf } from "./components/changes.tsx";
import { Foreign } from "./components/values.tsx";
import type { Visit } from "./visit.ts";

/** The word of an address after a change that found the values in place already. */
export const SAME = "same";
/** The word of an address to which the reload of a page with a new key leads. */
export const SHOWN = "shown";
/** The newest rows of the operator among which the row is looked for. */
const MOST_ROWS = 50;

/** Describes the change that led to the page; undefined if none did. */
export async function describeLastChange<Thing>(
  actions: readonly Action<Thing>[],
  { of, visit }: { readonly of: Thing; readonly visit: Visit },
): Promise<Child | undefined> {
  const [word = "", request] = (visit.query.get("done") ?? "").split(".");
  if (word === SAME) return "Nothing changed: the values were the same already.";
  if (word === SHOWN) return "The key is not shown again; rotate it for another.";
  const sentences = new Map(
    actions.flatMap(({ name, done = {} }) =>
      typeof done === "object" ? Object.entries(done) : [[name, done] as const],
    ),
  );
  const sentence = sentences.get(word);
  if (sentence === undefined || request === undefined) return undefined;
  const rows = await listAudit(visit.options.database, {
    actor: nameOfActor(visit.actor),
    since: new Date(visit.now.getTime() - HOUR_MS),
    limit: MOST_ROWS,
  });
  const [row, ...others] = rows.filter((each) => each.request === request);
  if (row === undefined) return undefined;
  const text = typeof sentence === "string" ? sentence : sentence(of, row.after);
  return (
    <>
      {others.length === 0 && <WasAndIs {...row} />} <Foreign text={text} />
    </>
  );
}

/** The changed values: `tier: free → commercial.` A row without values before is about something new. */
function WasAndIs({ before: was, after: is }: Pick<AuditRow, "before" | "after">) {
  if (typeof was !== "object" || was === null) return null;
  const texts = changesOf(was, is).changes.flatMap(({ field, before, after }) =>
    // A name that stays has no value before, and `changed` names values that the log does not keep.
    before === undefined && (field in was || field === "changed")
      ? []
      : [`${field}: ${before ?? "none"} → ${after ?? "none"}`],
  );
  return texts.length > 0 ? (
    <b>
      <Foreign text={`${texts.join("; ")}.`} />
    </b>
  ) : null;
}
