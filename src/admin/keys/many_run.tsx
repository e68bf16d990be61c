/** @jsxImportSource hono/jsx */
/**
 * The run of an action on many keys. A request makes some of the changes, and its page sends the rest. What is already as
 * the action makes it counts as done, so a request that is sent again does nothing twice.
 */
import { listAudit, nameOfActor } from "../../audit/mod.ts";
import { toDay } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { isStopped } from "../../database/mod.ts";
import { listKeys } from "../../licensing/keys/mod.ts";
import type { TierEntitlements } from "../../licensing/mod.ts";
import { toAddress } from "../frame/console/components/list.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { SLOW_CHANGE } from "../frame/log_failure.ts";
import { type KeyAction, uuidOf } from "./key_action.ts";
import {
  asShown,
  BackToList,
  ChangesTable,
  countUnits,
  type ForeseenUnit,
  KeyList,
  renderIds,
  type Selection,
  toShown,
  type Unit,
  unitsOf,
  visitOfOne,
} from "./many_parts.tsx";
import { resume, suspend } from "./state_actions.tsx";

/** The most changes of a request. */
const AT_ONCE = 50;
/** A request begins no change after this time, so that it ends in time while the database is busy. */
const MOST_MS = 2_000;
/** A run stops after so many failures: people then decide, and the form stays small enough. */
const MOST_FAILED = 100;
/** The actions that undo each other. */
const OPPOSITES = new Map([
  [suspend, resume],
  [resume, suspend],
]);

/** Makes the next changes, and answers with what is done, what failed and what is left. */
export async function changeSome(
  one: KeyAction,
  { keys, shown, tiers }: Selection,
  visit: Visit,
): Promise<Page | Refusal> {
  const { clock } = visit.options;
  const next = new URLSearchParams(visit.form);
  const endMs = clock.monotonicMs() + MOST_MS;
  const shownOf = ({ first }: Unit) => shown.get(first.id) ?? "";
  const units = unitsOf(one, keys);
  const left = [...units];
  const changed = [next.get("changed") ?? ""];
  for (const unit of units.slice(0, AT_ONCE)) {
    if (clock.monotonicMs() > endMs || next.getAll("failed").length === MOST_FAILED) break;
    left.shift();
    const { first } = unit;
    const isDone = one.isDone?.({ key: first });
    const made = isDone
      ? { isChanged: false }
      : await changeOne(one, unit, { shown: shownOf(unit), tiers, visit });
    if (isRefusal(made)) {
      // A wrong field, or an old proof, is wrong for all of them.
      const isOfAll = made.fields !== undefined || made.remedy?.name === "log_in_again";
      if (isOfAll && left.length === units.length - 1) return made;
      next.append("failed", `${first.id} ${first.hint} ${made.sentence}.`);
    } else if (made.isChanged || (await wasChangedBy(visit, unit))) changed.push(renderIds([unit], shownOf));
  }
  next.set("id", renderIds(left, shownOf));
  next.set("changed", changed.join(" ").trim());
  return await runPage(one, { next, left: left.length, tiers }, visit);
}

/** Tells whether the operator made the last change of the keys, as in a request of the run whose answer was lost. */
async function wasChangedBy({ options, actor }: Visit, { keys }: Unit): Promise<boolean> {
  for (const key of keys) {
    const [last] = await listAudit(options.database, { keyUuid: uuidOf({ key }), limit: 1 });
    if (last?.actor === nameOfActor(actor)) return true;
  }
  return false;
}

/** Does the action to one key or its license, as the form of its own page does, if it still is as it was shown. */
async function changeOne(
  one: KeyAction,
  unit: Unit,
  {
    shown,
    tiers,
    visit,
  }: { readonly shown: string; readonly tiers: TierEntitlements; readonly visit: Visit },
): Promise<{ readonly isChanged: boolean } | Refusal> {
  // The statement that changes a license compares it. The state of a key is compared with what this request has read.
  if (one.shared === undefined && shown !== "" && shown !== toShown(one, unit))
    return changedSince(one, unit, shown);
  const of = one.shared === undefined ? { key: unit.first } : asShown(one, unit, { shown, tiers });
  try {
    const result = await one.carryOut(of, visitOfOne(one, of, visit));
    return isRefusal(result) ? result : { isChanged: Object(result).isChanged !== false };
  } catch (error) {
    // Another statement holds the key or its license. The others need not wait for it.
    if (isStopped(error)) return SLOW_CHANGE;
    throw error;
  }
}

/** The refusal of a change of a key that is not as the page showed it. */
function changedSince({ label }: KeyAction, { first }: Unit, shown: string): Refusal {
  return refuse(
    "CONFLICT",
    `Cannot ${label.toLowerCase()} key: it was ${shown} when it was shown, and is ${first.state} now; look at it again`,
  );
}

/** The page of a run. Its form sends what is left or, at the end, shows again what failed. */
async function runPage(
  one: KeyAction,
  {
    next,
    left,
    tiers,
  }: { readonly next: URLSearchParams; readonly left: number; readonly tiers: TierEntitlements },
  visit: Visit,
): Promise<Page> {
  const { name, label, isFinal } = one;
  const changed = idsIn(next.get("changed"));
  const total = Number(next.get("total"));
  const failed = next.getAll("failed").map((text) => text.split(" "));
  const goesOn = left > 0 && failed.length < MOST_FAILED;
  const again = left + failed.length;
  const made = goesOn ? [] : await findChanged(one, changed, { tiers, visit });
  if (!goesOn) {
    // Without what was shown, so that it is shown again.
    const ids = idsIn(next.get("id")).map((text) => text.replace(/\..*/, ""));
    next.set("id", [...failed.map(([id]) => id), ...ids].join(" "));
    next.delete("failed");
    for (const field of ["total", "repeat"]) next.set(field, String(again));
  }
  return {
    title: `${label}: ${renderCount(total - left)} of ${countUnits(one, total)}`,
    script: "many",
    body: (
      <>
        <progress max={total} value={total - left} aria-label="Progress" />
        <p tabindex={goesOn ? undefined : -1} autofocus={!goesOn} role="status">
          {`${label}: ${countUnits(one, total - again)} done. Failed: ${failed.length}. Left: ${renderCount(left)}.`}
        </p>
        <KeyList of={failed} />
        {again > 0 && (
          <form method="post" action={`/console/keys/many/${name}`} data-continues={goesOn ? "" : undefined}>
            {[...next].map(([field, value]) => (
              <input type="hidden" name={field} value={value} />
            ))}
            <button type="submit" class={isFinal && "final"}>
              {goesOn ? `Continue with the next ${Math.min(AT_ONCE, left)}` : `Try again with ${again}`}
            </button>
          </form>
        )}
        {made.length > 0 && <ChangesTable one={one} units={made} caption="What was changed" />}
        {!goesOn && !isFinal && changed.length > 0 && <Changed by={one} ids={changed} next={next} />}
        {!goesOn && visit.may("audit:read") && (
          <p>
            <a
              href={toAddress("/console/audit", { actor: nameOfActor(visit.actor), since: toDay(visit.now) })}
            >
              Your changes of today in the audit log
            </a>
          </p>
        )}
        <BackToList conditions={next.get("conditions") ?? ""} />
      </>
    ),
  };
}

/** Returns what a run has changed, with the values before and after. */
async function findChanged(
  one: KeyAction,
  ids: readonly string[],
  { tiers, visit }: { readonly tiers: TierEntitlements; readonly visit: Visit },
): Promise<ForeseenUnit[]> {
  const shown = new Map(ids.map(splitId));
  const uuids = [...shown.keys()].flatMap((id) => parseId("key", id) ?? []);
  if (uuids.length === 0) return [];
  const { options, now } = visit;
  const keys = await listKeys(options.database, { now, filter: { uuids, newestFirst: true } });
  return unitsOf(one, keys).map((unit) => {
    const of = asShown(one, unit, { shown: shown.get(unit.first.id), tiers });
    const effects = one.foresee(of, visitOfOne(one, of, visit));
    return { ...unit, effects: isRefusal(effects) ? [] : effects };
  });
}

/** Opens the page of many keys with those that a run changed, to undo the change or to go on with them. */
function Changed({ by, ids, next }: { by: KeyAction; ids: readonly string[]; next: URLSearchParams }) {
  const opposite = OPPOSITES.get(by);
  const these = ids.length === 1 ? "this key" : `these ${counted(ids.length, "key")}`;
  return (
    <form method="post" action="/console/keys/many">
      <input type="hidden" name="conditions" value={next.get("conditions") ?? ""} />
      <input type="hidden" name="which" value={`what “${by.label}” has changed`} />
      <input type="hidden" name="id" value={ids.map((id) => splitId(id)[0]).join(" ")} />
      <div class="actions">
        {opposite && (
          <button type="submit" class="quiet" formaction={`/console/keys/many?open=${opposite.name}`}>
            {`${opposite.label} ${these}…`}
          </button>
        )}
        <button
          type="submit"
          class="quiet"
        >{`Do something else with ${ids.length === 1 ? "it" : "them"}…`}</button>
      </div>
    </form>
  );
}

/** Splits an id from what was shown of the key. */
export function splitId(text: string): [id: string, shown: string] {
  const at = text.indexOf(".");
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function idsIn(text: string | null): readonly string[] {
  return text?.split(" ").filter(Boolean) ?? [];
}
