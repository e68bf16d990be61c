/** @jsxImportSource hono/jsx */
/**
 * What a page says after a change: the values before and after, and a sentence of the action. The address names only
 * the request. All else comes from the row that the request has written to the audit log: without such a row of this
 * operator about the thing of the page, the page claims no change.
 */
import type { Child } from "hono/jsx";
import { type AuditRow, listAudit, nameOfActor } from "../../../audit/mod.ts";
import { HOUR_MS } from "../../../base/calendar.ts";
import { type Action, isOffered, type Sentence } from "./action.ts";
import { changesOf } from "./components/changes.tsx";
import { Foreign } from "./components/values.tsx";
import { DONE, toOpenForm } from "./route.ts";
import type { Visit } from "./visit.ts";

/** The word of an address to which the reload of a page with a new key or token leads. */
export const SHOWN = "shown";
/** The newest rows of the operator among which the row is looked for. */
const MOST_ROWS = 50;

/** Describes the change that led to the page; undefined if none did. */
export async function describeLastChange<Thing>(
  actions: readonly Action<Thing>[],
  {
    of,
    visit,
    doneElsewhere,
  }: { readonly of: Thing; readonly visit: Visit; readonly doneElsewhere: Action<Thing>["done"] },
): Promise<Child | undefined> {
  const request = visit.query.get(DONE);
  if (request === SHOWN) return "It is not shown again: rotate the key, or renew the token, for another.";
  if (request === null) return undefined;
  const rows = await listAudit(visit.options.database, {
    actor: nameOfActor(visit.actor),
    since: new Date(visit.now.getTime() - HOUR_MS),
    limit: MOST_ROWS,
  });
  const [row, ...others] = rows.filter((each) => each.request === request && isAbout(each, visit.params));
  const { done = doneElsewhere, leadsTo } = actions.find(({ done = {} }) => row && row.action in done) ?? {};
  const sentence = new Map<string, Sentence<Thing>>(Object.entries(done ?? {})).get(row?.action ?? "");
  if (row === undefined || sentence === undefined) return undefined;
  const next = actions.find(({ name }) => name === leadsTo);
  const text = typeof sentence === "string" ? sentence : await sentence(of, row.after);
  if (typeof text !== "string") return text;
  return (
    <>
      {others.length === 0 && <WasAndIs {...row} />} <Foreign text={text} />{" "}
      {next && isOffered(next, { of, visit }) && <a href={toOpenForm("", next.name)}>{next.label}</a>}
    </>
  );
}

/**
 * Tells whether a row is about the thing that the path of a page names, by its id or by its name. A page whose path names
 * nothing is about everything that its actions change.
 */
function isAbout(
  { keyId, licenseId, userId, before, after }: AuditRow,
  { id, name }: Visit["params"],
): boolean {
  const named = id ?? name;
  if (named === undefined) return true;
  const values = { ...Object(before), ...Object(after) };
  return [
    keyId,
    licenseId,
    userId,
    values.machine,
    values.notice,
    values.operator,
    values.token,
    values.name,
  ].includes(named);
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
