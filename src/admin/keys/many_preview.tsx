/** @jsxImportSource hono/jsx */
/**
 * The page between the form of an action on many keys and the change: a row for each key or license with what it is and
 * what it becomes. Its form carries what it shows, so that nothing else is done.
 */
import { toTimestamp } from "../../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import type { KeySummary } from "../../licensing/keys/mod.ts";
import { describeFiles, type OutstandingLicense } from "../../licensing/signed_licenses/mod.ts";
import { Notice } from "../frame/console/components/layout.tsx";
import { Foreign } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { CHANGE_GROUP, type KeyAction } from "./key_action.ts";
import {
  BackToList,
  ChangesTable,
  countUnits,
  describeKeysOf,
  FORM_LIMIT_BYTES,
  FoldedKeys,
  type ForeseenUnit,
  KeyList,
  renderIds,
  type Selection,
  sumLosses,
  toShown,
  unitsOf,
  visitOfOne,
} from "./many_parts.tsx";

/** What the failures of a run add to its form. */
const MOST_FAILURE_BYTES = 128 * 1024;

const TOO_LONG =
  "The features and values of so many licenses do not fit into a form: select fewer keys, or let a program do it with the API";

/** Shows what an action would do to each key. Refuses a wrong field, which is wrong for all of them. */
export function previewPage(
  one: KeyAction,
  selection: Selection,
  { files, ...visit }: Visit & { readonly files: readonly OutstandingLicense[] },
): Page | Refusal {
  const { conditions, which } = selection;
  const { fits = () => true, name, label, isFinal } = one;
  const changed: ForeseenUnit[] = [];
  const refused: (readonly string[])[] = [];
  const same: KeySummary[] = [];
  const { fitting = [], others = [] } = Object.groupBy(selection.keys, (key) =>
    fits({ key }) ? "fitting" : "others",
  );
  for (const unit of unitsOf(one, fitting)) {
    const { first } = unit;
    const of = { key: first, tiers: selection.tiers };
    const effects = one.foresee(of, visitOfOne(one, of, visit));
    if (!isRefusal(effects)) {
      if (effects.length === 0) same.push(...unit.keys);
      else changed.push({ ...unit, effects });
    } else if (effects.fields || effects.remedy?.name === "log_in_again") return effects;
    else refused.push([first.id, first.hint, `${first.email}: ${effects.stem}.`]);
  }
  // Who loses something comes first.
  const isLoss = ({ effects }: ForeseenUnit) => Number(!effects.some(({ loss }) => loss));
  const rows = changed.toSorted((a, b) => isLoss(a) - isLoss(b));
  const what = `${label}${one.group === CHANGE_GROUP ? " of" : ""} ${countUnits(one, rows.length)}`;
  const losses = sumLosses(one, rows);
  const accounts = new Set(rows.map(({ first }) => first.userId)).size;
  const next = new URLSearchParams(visit.form);
  next.set(
    "id",
    renderIds(rows, (unit) => toShown(one, unit)),
  );
  next.set("total", String(rows.length));
  if (one.repeat) next.set("repeat", String(rows.length));
  next.set("shown_at", toTimestamp(visit.now));
  for (const field of ["changed", "failed"]) next.delete(field);
  if (Buffer.byteLength(String(next)) > FORM_LIMIT_BYTES - MOST_FAILURE_BYTES)
    return refuse("INVALID_REQUEST", TOO_LONG, { remedy: { name: "select_keys", of: conditions } });
  const back = { conditions, which, id: selection.keys.map(({ id }) => id).join(" ") };
  return {
    title: `${label}: what will change`,
    body: (
      <>
        <p tabindex={-1} autofocus>
          Nothing is changed yet. <b>{`${countUnits(one, rows.length)} will change`}</b>
          {rows.length > 0 && `, of ${accounts === 1 ? "one account" : counted(accounts, "account")}`}.{" "}
          {describeKeysOf(one, rows, selection)} Selected: <Foreign text={which} />.
        </p>
        {losses && <Notice kind="warning">{`${losses[0]?.toUpperCase()}${losses.slice(1)}.`}</Notice>}
        {files.length > 0 && rows.length > 0 && <Notice kind="warning">{describeFiles(files)}</Notice>}
        {refused.length > 0 && (
          <>
            <Notice kind="warning">{`Left out: ${countUnits(one, refused.length)}.`}</Notice>
            <KeyList of={refused} />
          </>
        )}
        {same.length > 0 && <FoldedKeys title="Left out, because they are so already" keys={same} />}
        {others.length > 0 && (
          <FoldedKeys title="Left out, because the state does not allow it" keys={others} />
        )}
        <div class="confirms">
          {rows.length > 0 && <ChangesTable one={one} units={rows} caption="What will change" />}
          <div class="actions">
            {rows.length > 0 && (
              <form method="post" action={`/console/keys/many/${name}`}>
                {[...next].map(([field, value]) => (
                  <input type="hidden" name={field} value={value} />
                ))}
                <button type="submit" class={isFinal && "final"}>
                  {what}
                </button>
              </form>
            )}
            <form method="post" action={`/console/keys/many?open=${name}`}>
              {Object.entries(back).map(([field, value]) => (
                <input type="hidden" name={field} value={value} />
              ))}
              <button type="submit" class="quiet">
                Back to the form
              </button>
            </form>
          </div>
        </div>
        <BackToList conditions={conditions} />
      </>
    ),
  };
}
