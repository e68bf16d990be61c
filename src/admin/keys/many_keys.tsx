/** @jsxImportSource hono/jsx */
/**
 * The page of many keys has their common actions, each made from the action on one key. Its forms keep the ids, so what
 * was counted is what is changed. A request changes some keys, and its page sends the rest. A key that is already as the
 * action makes it counts as done, so a request that is sent again does nothing twice.
 */
import { listAudit, nameOfActor } from "../../audit/mod.ts";
import { toDay } from "../../calendar.ts";
import { isStopped } from "../../database/mod.ts";
import { parseId } from "../../ids.ts";
import { type KeySummary, listKeys, renderKeysCsv } from "../../keys/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { counted, renderCount } from "../../render_count.ts";
import { redactKeys } from "../../secrets/mod.ts";
import { type Action, action } from "../frame/console/action.ts";
import { toAddress } from "../frame/console/components/list.tsx";
import { Foreign, KeyLink } from "../frame/console/components/values.tsx";
import { nameConditions, readConditions } from "../frame/console/conditions.ts";
import { type DetailPage, detailRoutes, openPage } from "../frame/console/detail_page.tsx";
import type { Page } from "../frame/console/page.tsx";
import { form, page } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import { SLOW_CHANGE } from "../frame/log_failure.ts";
import { streamCsv } from "../frame/stream_csv.ts";
import { KEY_ACTIONS, resume, suspend } from "./actions.tsx";
import { CHANGE, type KeyAction, uuidOf } from "./key_action.ts";
import { findKeys, KEYS, MOST_KEYS } from "./keys.tsx";

/** The most changes of a request. */
const AT_ONCE = 50;
/** A request begins no change after this time, so that it ends in time while the database is busy. */
const MOST_MS = 2_000;
/** A run stops after so many failures: people then decide, and the form stays small enough. */
const MOST_FAILED = 100;
/** A page lists so many keys of a selection. */
const MOST_LISTED = 100;
/** The actions that undo each other. */
const OPPOSITES = new Map([
  [suspend, resume],
  [resume, suspend],
]);

const TOO_MANY = `More than ${renderCount(MOST_KEYS)} keys are selected: narrow the conditions, or let a program do it with the API`;

interface Selection {
  readonly keys: readonly KeySummary[];
  /** The number of keys of the run; undefined before it begins. */
  readonly total: string | null;
  /** The conditions of the list, as its address has them. */
  readonly conditions: string;
  /** Says in words which keys they are. */
  readonly which: string;
}

const MANY_PAGE: DetailPage<Selection> = {
  path: "/keys/many",
  scope: "keys:manage",
  addressOf: () => "/keys/many",
  actions: KEY_ACTIONS.filter(({ toMany, isDownload }) => toMany && !isDownload).map(toManyKeys),
  find: findSelection,
  show: ({ keys, total, conditions, which }) => ({
    title: counted(keys.length, "key"),
    above: (
      <>
        <p tabindex={-1} autofocus={total === null}>
          Selected: <Foreign text={which} />. A change is made for each of the keys that it fits.
        </p>
        <FoldedKeys title="Show the keys" keys={keys} />
      </>
    ),
    below: <BackToList conditions={conditions} />,
  }),
};

/** They are forms, because so many ids do not fit into an address. The address alone shows the list. */
export const MANY_ROUTES = [
  page(MANY_PAGE.path, MANY_PAGE.scope, (_, c) => c.redirect("/console/keys", 303)),
  form(MANY_PAGE.path, MANY_PAGE.scope, (visit) => openPage(MANY_PAGE, visit)),
  form(`${MANY_PAGE.path}.csv`, MANY_PAGE.scope, downloadSelection),
  ...detailRoutes(MANY_PAGE).filter(({ method }) => method === "POST"),
];

async function findSelection(visit: Visit): Promise<Selection | Refusal> {
  const { form, options, now } = visit;
  const [conditions, total] = [form.get("conditions") ?? "", form.get("total")];
  const ids = form.getAll("id").flatMap((text) => text.split(" "));
  const isAll = form.has("all");
  const uuids = isAll ? await listAll(conditions, visit) : ids.flatMap((id) => parseId("key", id) ?? []);
  if (isRefusal(uuids)) return uuids;
  const refuseKeys = (why: string) =>
    refuse("INVALID_REQUEST", why, { remedy: { name: "select_keys", of: conditions } });
  if (uuids.length > MOST_KEYS) return refuseKeys(TOO_MANY);
  const which = form.get("which") ?? (isAll ? describeAll(conditions) : "rows of the list");
  const keys = await listKeys(options.database, { now, filter: { uuids, newestFirst: true } });
  return keys.length === 0
    ? refuseKeys("No key is selected: select keys of the list")
    : { keys, conditions, total, which };
}

/** Says in words which keys meet the conditions: `all with tier: free, expiring within: 90`. */
function describeAll(conditions: string): string {
  const { entered } = readConditions(new URLSearchParams(conditions), KEYS.entries);
  const described = nameConditions(entered).map(([words, text]) =>
    text === "true" ? words : `${words}: ${redactKeys(text)}`,
  );
  return described.length === 0 ? "all keys" : `all with ${described.join(", ")}`;
}

async function listAll(conditions: string, visit: Visit): Promise<readonly string[] | Refusal> {
  const { values } = readConditions(new URLSearchParams(conditions), KEYS.entries);
  const found = isRefusal(values) ? values : await findKeys(visit, values);
  return isRefusal(found) ? found : await found.listUuids(MOST_KEYS + 1);
}

async function downloadSelection(visit: Visit): Promise<Response | Refusal> {
  const selection = await findSelection(visit);
  if (isRefusal(selection)) return selection;
  const parts = renderKeysCsv([selection.keys]);
  return await streamCsv({ name: `keys-${toDay(visit.now)}`, parts }, visit);
}

/** Makes the action on many keys from the action on one. */
function toManyKeys(one: KeyAction): Action<Selection> {
  const { repeat, fits = () => true, isDone: _isDone, done: _done, Form, ...described } = one;
  const divide = ({ keys }: Selection) =>
    Object.groupBy(keys, (key) => (fits({ key }) ? "fitting" : "others"));
  return action({
    ...described,
    submit: (of) =>
      `${one.label}${one.group === CHANGE ? " of" : ""} ${counted(divide(of).fitting?.length ?? 0, "key")}`,
    ...(repeat && {
      repeat: {
        what: "the number of keys",
        textOf: (of: Selection) => of.total ?? String(divide(of).fitting?.length),
      },
    }),
    fits: (of) => divide(of).fitting !== undefined,
    Form({ of, field, now }) {
      const { fitting: [first, ...more] = [], others = [] } = divide(of);
      if (first === undefined) return null;
      const keys = [first, ...more];
      const accounts = new Set(keys.map(({ userId }) => userId)).size;
      return (
        <>
          <p>
            <b>{`${counted(keys.length, "key")} of ${accounts === 1 ? "one account" : counted(accounts, "account")}.`}</b>{" "}
            For each of them:
          </p>
          {/* What would be proposed for one key is not meant for all of them. */}
          <Form of={{ key: first }} field={(name) => field(name)} now={now} isMany />
          {others.length > 0 && (
            <FoldedKeys title="Left out, because the state does not allow it" keys={others} />
          )}
          <input type="hidden" name="conditions" value={of.conditions} />
          <input type="hidden" name="which" value={of.which} />
          <input type="hidden" name="total" value={keys.length} />
          <input type="hidden" name="id" value={keys.map(({ id }) => id).join(" ")} />
        </>
      );
    },
    perform: ({ of, visit }) => changeSome(one, of, visit),
  });
}

/** Changes the next keys, and answers with what is done, what failed and what is left. */
async function changeSome(one: KeyAction, { keys }: Selection, visit: Visit): Promise<Page | Refusal> {
  const { clock } = visit.options;
  const next = new URLSearchParams(visit.form);
  const endMs = clock.monotonicMs() + MOST_MS;
  const left = [...keys];
  const changed = [next.get("changed") ?? ""];
  for (const key of keys.slice(0, AT_ONCE)) {
    if (clock.monotonicMs() > endMs || next.getAll("failed").length === MOST_FAILED) break;
    left.shift();
    const isDone = one.isDone?.({ key });
    const refusal = isDone ? undefined : await changeOne(one, key, visit);
    // A wrong field is wrong for every key, so nothing was changed before.
    if (refusal?.fields) return refusal;
    if (refusal) next.append("failed", `${key.id} ${key.hint} ${refusal.sentence}.`);
    else if (!isDone || (await wasChangedBy(visit, key))) changed.push(key.id);
  }
  next.set("id", left.map(({ id }) => id).join(" "));
  next.set("changed", changed.join(" ").trim());
  return runPage(one, next, visit);
}

/** Tells whether the operator made the last change of the key, as in a request of the run whose answer was lost. */
async function wasChangedBy({ options, actor }: Visit, key: KeySummary): Promise<boolean> {
  const [last] = await listAudit(options.database, { keyUuid: uuidOf({ key }), limit: 1 });
  return last?.actor === nameOfActor(actor);
}

/** Does the action to one key, as the form of its own page does. */
async function changeOne(
  { repeat, carryOut }: KeyAction,
  key: KeySummary,
  visit: Visit,
): Promise<Refusal | undefined> {
  const form = new URLSearchParams(visit.form);
  if (repeat) form.set("repeat", repeat.textOf({ key }));
  try {
    const result = await carryOut({ key }, { ...visit, form });
    return isRefusal(result) ? result : undefined;
  } catch (error) {
    // Another statement holds the key or its license. The other keys need not wait for it.
    if (isStopped(error)) return SLOW_CHANGE;
    throw error;
  }
}

/** The page of a run. Its form sends what is left or, at the end, what failed. */
function runPage(one: KeyAction, next: URLSearchParams, visit: Visit): Page {
  const { name, label, isFinal } = one;
  const left = idsIn(next.get("id")).length;
  const changed = idsIn(next.get("changed"));
  const total = Number(next.get("total"));
  const failed = next.getAll("failed").map((text) => text.split(" "));
  const goesOn = left > 0 && failed.length < MOST_FAILED;
  const again = left + failed.length;
  if (!goesOn) {
    next.set("id", [...failed.map(([id]) => id), next.get("id")].join(" ").trim());
    next.delete("failed");
    for (const field of ["total", "repeat"]) next.set(field, String(again));
  }
  return {
    title: `${label}: ${renderCount(total - left)} of ${renderCount(total)} keys`,
    isNarrow: true,
    script: "many",
    body: (
      <>
        <progress max={total} value={total - left} aria-label="Progress" />
        <p tabindex={goesOn ? undefined : -1} autofocus={!goesOn} role="status">
          {`${label}: ${counted(total - again, "key")} done. Failed: ${failed.length}. Left: ${renderCount(left)}.`}
        </p>
        <KeyList of={failed} />
        {again > 0 && (
          <form method="post" action={`/console/keys/many/${name}`} data-continues={goesOn ? "" : undefined}>
            {[...next].map(([name, value]) => (
              <input type="hidden" name={name} value={value} />
            ))}
            <button type="submit" class={isFinal && "final"}>
              {goesOn ? `Continue with the next ${Math.min(AT_ONCE, left)}` : `Try again with ${again}`}
            </button>
          </form>
        )}
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

/** Opens the page of many keys with those that a run changed, to undo the change or to go on with them. */
function Changed({ by, ids, next }: { by: KeyAction; ids: readonly string[]; next: URLSearchParams }) {
  const opposite = OPPOSITES.get(by);
  const these = ids.length === 1 ? "this key" : `these ${counted(ids.length, "key")}`;
  return (
    <form method="post" action="/console/keys/many">
      <input type="hidden" name="conditions" value={next.get("conditions") ?? ""} />
      <input type="hidden" name="which" value={`what “${by.label}” has changed`} />
      <input type="hidden" name="id" value={ids.join(" ")} />
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

/** The first keys of a selection with what people know them by, below a title that opens them. */
function FoldedKeys({ title, keys }: { readonly title: string; readonly keys: readonly KeySummary[] }) {
  const shown = keys.slice(0, MOST_LISTED);
  const first = shown.length < keys.length ? `, the first ${MOST_LISTED}` : "";
  return (
    <details class="listed">
      <summary>{`${title}: ${counted(keys.length, "key")}${first}`}</summary>
      <KeyList
        of={shown.map(({ id, hint, email, tier, state }) => [id, hint, `${email}, ${tier}, ${state}`])}
      />
    </details>
  );
}

/** Keys, each with its id, its hint, and words about it. */
function KeyList({ of }: { readonly of: readonly (readonly string[])[] }) {
  return (
    <ul>
      {of.map(([id = "", hint = "", ...words]) => (
        <li>
          <KeyLink id={id} text={hint} /> <Foreign text={words.join(" ")} />
        </li>
      ))}
    </ul>
  );
}

function BackToList({ conditions }: Pick<Selection, "conditions">) {
  return (
    <p>
      <a href={`/console/keys?${conditions}`}>Back to the keys</a>
    </p>
  );
}

function idsIn(text: string | null): readonly string[] {
  return text?.split(" ").filter(Boolean) ?? [];
}
