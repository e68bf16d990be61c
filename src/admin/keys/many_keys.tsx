/** @jsxImportSource hono/jsx */
/**
 * The page of many keys has their common actions, each made from the action on one key. Its forms keep the ids, so what
 * was counted is what is changed.
 */
import { toDay } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { countKeysOf, listKeys, renderKeysCsv } from "../../licensing/keys/mod.ts";
import { findTierEntitlements } from "../../licensing/mod.ts";
import { listFilesOf } from "../../licensing/signed_licenses/mod.ts";
import { refuseEndings } from "../../operators/mod.ts";
import { type Action, action } from "../frame/console/action.ts";
import { SelectionForm, selectAgainPage } from "../frame/console/components/selection.tsx";
import { Foreign } from "../frame/console/components/values.tsx";
import { describeAll, readConditions } from "../frame/console/conditions.ts";
import { type DetailPage, detailRoutes, openPage } from "../frame/console/detail_page.tsx";
import { form, OPEN, page } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import { streamCsv } from "../frame/stream_csv.ts";
import { KEY_ACTIONS } from "./actions.ts";
import { type KeyAction, STOP_GROUP } from "./key_action.ts";
import { findKeys, KEYS, MOST_KEYS } from "./keys.tsx";
import {
  BackToList,
  countUnits,
  describeKeysOf,
  FORM_LIMIT_BYTES,
  FoldedKeys,
  type Selection,
  unitsOf,
  visitOfOne,
} from "./many_parts.tsx";
import { previewPage } from "./many_preview.tsx";
import { changeSome, splitId } from "./many_run.tsx";

const TOO_MANY = `More than ${renderCount(MOST_KEYS)} keys are selected: narrow the conditions, or let a program do it with the API`;

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
    below: (
      <>
        <SelectionForm
          address={MANY_PAGE.path}
          fields={{ conditions, which, id: keys.map(({ id }) => id).join(" ") }}
        />
        <BackToList conditions={conditions} />
      </>
    ),
  }),
};

const NONE_SELECTED = {
  ...{ title: "Keys", noun: "key", list: KEYS.path, address: MANY_PAGE.path },
  fields: { conditions: "", which: "", id: "" },
};

/**
 * They are forms, because so many ids do not fit into an address. The address alone shows the list, or leads back from a
 * login to the form that asked for it.
 */
export const MANY_ROUTES = [
  page(MANY_PAGE.path, MANY_PAGE.scope, ({ query }, c) => {
    const open = query.get(OPEN);
    return open === null ? c.redirect("/console/keys", 303) : selectAgainPage({ ...NONE_SELECTED, open });
  }),
  form(MANY_PAGE.path, MANY_PAGE.scope, (visit) => openPage(MANY_PAGE, visit)),
  form(`${MANY_PAGE.path}.csv`, MANY_PAGE.scope, downloadSelection),
  ...detailRoutes(MANY_PAGE).filter(({ method }) => method === "POST"),
].map((route) => ({ ...route, formLimitBytes: FORM_LIMIT_BYTES }));

async function findSelection(visit: Visit): Promise<Selection | Refusal> {
  const { form, options, now } = visit;
  const [conditions, total] = [form.get("conditions") ?? "", form.get("total")];
  const shown = new Map(form.getAll("id").flatMap((text) => text.split(" ").map(splitId)));
  const isAll = form.has("all");
  const uuids = isAll
    ? await listAll(conditions, visit)
    : [...shown.keys()].flatMap((id) => parseId("key", id) ?? []);
  if (isRefusal(uuids)) return uuids;
  const refuseKeys = (why: string) =>
    refuse("INVALID_REQUEST", why, { remedy: { name: "select_keys", of: conditions } });
  if (uuids.length > MOST_KEYS) return refuseKeys(TOO_MANY);
  const which = form.get("which") ?? (isAll ? describeAll(conditions, KEYS) : "rows of the list");
  const [keys, tiers] = await Promise.all([
    listKeys(options.database, { now, filter: { uuids, newestFirst: true } }),
    findTierEntitlements(options.database),
  ]);
  const licenses = new Set(keys.flatMap(({ licenseId }) => parseId("lic", licenseId) ?? []));
  const keysOf = await countKeysOf(options.database, [...licenses]);
  return keys.length === 0
    ? refuseKeys("No key is selected: select keys of the list")
    : { keys, tiers, keysOf, shown, conditions, total, which };
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

/**
 * Makes the action on many keys from the action on one. Its form leads to the page that shows what would change, and the
 * form of that page to the run.
 */
function toManyKeys(one: KeyAction): Action<Selection> {
  const { name, scope, label, group, isFinal, needsFreshProof, repeat, fits = () => true, Form } = one;
  const divide = ({ keys }: Selection) =>
    Object.groupBy(keys, (key) => (fits({ key }) ? "fitting" : "others"));
  const unitsIn = (of: Selection) => unitsOf(one, divide(of).fitting ?? []);
  return action({
    ...{ name, scope, label, submit: "Show what will change" },
    ...(group && { group }),
    ...(isFinal && { isFinal }),
    ...(needsFreshProof && { needsFreshProof }),
    ...(repeat && {
      repeat: {
        what: "the number of keys",
        textOf: (of: Selection) => of.total ?? String(unitsIn(of).length),
      },
    }),
    fits: (of) => divide(of).fitting !== undefined,
    Form({ of, field, now }) {
      const { fitting = [], others = [] } = divide(of);
      const [first] = fitting;
      const units = unitsIn(of);
      if (first === undefined) return null;
      const accounts = new Set(fitting.map(({ userId }) => userId)).size;
      const keys = units.length < fitting.length ? ` (${counted(fitting.length, "selected key")})` : "";
      return (
        <>
          <p>
            <b>{`${countUnits(one, units.length)}${keys} of ${accounts === 1 ? "one account" : counted(accounts, "account")}.`}</b>{" "}
            {describeKeysOf(one, units, of)} For each of them:
          </p>
          {/* What would be proposed for one key is not meant for all of them. */}
          <Form of={{ key: first }} field={(name) => field(name)} now={now} isMany />
          {others.length > 0 && (
            <FoldedKeys title="Left out, because the state does not allow it" keys={others} />
          )}
          <input type="hidden" name="conditions" value={of.conditions} />
          <input type="hidden" name="which" value={of.which} />
          <input type="hidden" name="total" value={units.length} />
          <input type="hidden" name="id" value={fitting.map(({ id }) => id).join(" ")} />
        </>
      );
    },
    async perform({ of, visit }) {
      // All of them together, so that none is ended if the last one would be refused.
      const ended = (divide(of).fitting ?? []).map((key) =>
        one.ends({ key }, visitOfOne(one, { key }, visit)),
      );
      const ends = ended.reduce((sum, each) => sum + each, 0);
      const { session, now, options } = visit;
      const refusal = ends > 0 && (await refuseEndings(options.database, session, { ends, now }));
      if (refusal) return refusal;
      const isShown = of.keys.every(({ id }) => of.shown.get(id));
      if (isShown) return await changeSome(one, of, visit);
      const keys = group === STOP_GROUP ? (divide(of).fitting ?? []) : [];
      const files = await listFilesOf(options.database, { keys, now });
      return previewPage(one, of, { ...visit, files });
    },
  });
}
