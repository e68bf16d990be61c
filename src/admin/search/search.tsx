/** @jsxImportSource hono/jsx */
/**
 * Searches everything that has a page. The box sends its text by POST, because people paste whole keys, and addresses are
 * stored in histories and logs. A whole key that exists opens its page at once, if the role may read keys. If the text may
 * be a secret, the answer to the form shows the results. Any other text is put into the address of the results, so that the
 * Back button works.
 */
import type { Context } from "hono";
import * as v from "valibot";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { mayBeSecret, redactKeys } from "../../base/secrets/mod.ts";
import { escapeControls } from "../../base/text/mod.ts";
import { findKey, findKeysIn, hashApiKey, listKeys } from "../../licensing/keys/mod.ts";
import { findMachine } from "../../licensing/machines/mod.ts";
import {
  findAccountNamed,
  findKeyEnds,
  parseKeyParts,
  SEARCH_TEXT,
  SEARCHED,
  type Search,
  searchAccounts,
  TOO_WIDE,
  toSearched,
} from "../../licensing/mod.ts";
import { listRegistered } from "../../models/mod.ts";
import { listOperators, type Operator } from "../../operators/mod.ts";
import { operatorColumns } from "../access/lists.tsx";
import { ACCOUNTS, listWithStandings } from "../accounts/accounts.tsx";
import { Notice } from "../frame/console/components/layout.tsx";
import { toAddress } from "../frame/console/components/list.tsx";
import { type Column, Table } from "../frame/console/components/table.tsx";
import { Foreign } from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";
import { KEYS } from "../keys/keys.tsx";
import { MODELS } from "../models/models.tsx";

/** A group of results has at most this many rows. */
const MOST = 10;
/** Stands for a secret of which no part is stored. It finds nothing. */
const HIDDEN = "…";
const WRONG = refuse("INVALID_REQUEST", `Nothing is shown: q must be ${SEARCH_TEXT.expects}`);
const SECRET = refuse(
  "INVALID_REQUEST",
  "Nothing is shown: q must not be a key or a token; use the search box",
);

/** Shows what the text in the address finds, or what can be searched. */
export async function searchPage(visit: Visit, c: Context<AdminEnv>): Promise<Page | Response | Refusal> {
  const { values } = readConditions(visit.query, { q: v.optional(v.string()) });
  if (isRefusal(values)) return values;
  const { q } = values;
  if (q === undefined) return { title: "Search", body: <Help {...visit} /> };
  return mayBeSecret(q) ? SECRET : await showFound(q, visit, c);
}

/** Answers the box. */
export async function searchOfForm(visit: Visit, c: Context<AdminEnv>): Promise<Page | Response | Refusal> {
  const { options, form, may, now } = visit;
  const pasted = form.get("q") ?? "";
  const given = toSearched(pasted.replace(/^\s*\//, ""));
  const wholeKeys = findKeysIn(pasted, options.brand);
  for (const apiKey of may("keys:read") ? wholeKeys : []) {
    const key = await findKey(options.database, { hash: hashApiKey(apiKey) }, { now });
    if (key !== undefined) return c.redirect(`/console/keys/${key.id}`, 303);
  }
  if (!mayBeSecret(given)) return c.redirect(toAddress("/console/search", { q: given }), 303);
  if (redactKeys(given) === given) return await showFound(given, visit, c);
  // Another key that only looks like this one must not open.
  return await showFound(hideDigits(wholeKeys[0] ?? given, visit), visit, c, { isList: true });
}

/** Returns a key without the digits that its hint hides: those are neither searched nor shown. */
function hideDigits(key: string, { options }: Visit): string {
  const { mode, start, end } = parseKeyParts(key) ?? {};
  return [mode && `${options.brand.name}_${mode}_`, start, HIDDEN, end].join("");
}

async function showFound(
  text: string,
  visit: Visit,
  c: Context<AdminEnv>,
  { isList = false } = {},
): Promise<Page | Response | Refusal> {
  if (SEARCH_TEXT.parse(text) === undefined) return WRONG;
  const { options, may } = visit;
  if (!isList && may("accounts:read")) {
    const named = await findAccountNamed(options.database, text, "search");
    if (!isRefusal(named)) return c.redirect(`/console/accounts/${named.id}`, 303);
  }
  const machineUuid = may("machines:read") ? parseId("mch", text) : undefined;
  const machine = machineUuid && (await findMachine(options.database, machineUuid));
  if (machine && !isList) return c.redirect(`/console/machines/${machine.id}`, 303);
  const found = await findAll(text, visit);
  if (!isList && found.only !== undefined) return c.redirect(`/console${found.only}`, 303);
  const shown = mayBeSecret(text) || text === HIDDEN ? undefined : text;
  const query = { search: shown ?? hideDigits(text, visit) };
  const operators = { title: "Operators", path: "/access", columns: () => operatorColumns(visit.now) };
  // Rows are selected in the list alone.
  const reading = { ...visit, may: () => false };
  const isNone = [found.keys, found.accounts, found.models, found.operators].flat().length === 0;
  const title = isNone ? "Nothing found" : "Search";
  return {
    // Browsers store titles, too, so a title has no more than the address.
    title: shown && !isList ? `${title}: ${escapeControls(shown)}` : title,
    ...(shown && { searched: shown }),
    body: (
      <>
        {found.isTooWide && <Notice kind="warning">{`${TOO_WIDE}.`}</Notice>}
        <Group list={KEYS} visit={reading} rows={found.keys} query={query} />
        <Group list={ACCOUNTS} visit={reading} rows={found.accounts} query={query} />
        <Group list={MODELS} visit={reading} rows={found.models} />
        <Group list={operators} visit={reading} rows={found.operators} />
        {!isNone && <MachinesNamed text={shown} {...visit} />}
        {isNone && (
          <>
            <p class="empty" tabindex={-1} autofocus>
              Nothing was found for {shown ? <Foreign text={shown} /> : "this text"}.
            </p>
            {found.near.map(([as, search, rows]) => (
              <Group
                list={{ ...KEYS, title: `Keys with the same ${as}` }}
                visit={reading}
                rows={rows}
                query={{ search }}
              />
            ))}
            <MachinesNamed text={shown} {...visit} />
            <Help {...visit} />
          </>
        )}
      </>
    ),
  };
}

/** Finds what the role may open, the best first: keys that the text names come before those of accounts. */
async function findAll(text: string, { options: { database }, may, now }: Visit) {
  const search = await searchAccounts(database, text);
  const page = { newestFirst: true, limit: MOST + 1 };
  const findKeys = async (part: Partial<Search>) =>
    may("keys:read")
      ? await listKeys(database, { now, filter: { ...page, search: { ...search, ...part } } })
      : [];
  const [named, ofAccounts, accounts, models, operators] = await Promise.all([
    findKeys({ accountUuids: [] }),
    // The keys of a few accounts fill the group; those of a thousand take 0.1 s.
    findKeys({ accountUuids: search.accountUuids.slice(0, 5 * MOST), text: "", licenseUuids: [] }),
    may("accounts:read")
      ? listWithStandings(database, { ...page, search: { ...search, text: "", licenseUuids: [] } }, now)
      : [],
    may("models:read") ? listRegistered(database, { search: text, limit: MOST + 1 }) : [],
    may("admin") ? listOperators(database) : [],
  ]);
  const near = named.length === 0 ? nearOf(text) : [];
  const place = ({ name }: Operator) => name.indexOf(text.toLowerCase());
  const found = operators.filter((each) => place(each) >= 0).toSorted((a, b) => place(a) - place(b));
  const [only, other] = [
    ...named.map(({ id }) => `/keys/${id}`),
    ...accounts.map(({ id }) => `/accounts/${id}`),
    ...models.map(({ name }) => `/models/${encodeURIComponent(name)}`),
    ...found.map(({ name }) => `/access/operators/${name}`),
  ];
  return {
    isTooWide: search.isTooWide,
    keys: [...new Map([...named, ...ofAccounts].map((key) => [key.id, key])).values()],
    /** Keys that are only similar. */
    near: await Promise.all(
      near.map(async ([as, text]) => [as, text, await findKeys({ accountUuids: [], text })] as const),
    ),
    accounts,
    models,
    operators: found,
    /** The page of the only result. The keys of an account belong to its result. */
    only: other === undefined ? only : undefined,
  };
}

/**
 * Returns searches for keys that are only similar to a text, and what they have in common with it. If the text gives two of
 * the mode, the start and the end of a key: keys with the same start or the same end alone. Otherwise: keys whose end is a
 * word of the text.
 */
function nearOf(text: string): readonly (readonly [as: string, search: string])[] {
  const { mode, start, end, isEither } = parseKeyParts(text) ?? {};
  const given = [mode, start, end].filter((part) => part !== undefined);
  if (given.length < 2 || isEither) return findKeyEnds(text).map((digits) => ["end", `…${digits}`]);
  return [...(start ? [["start", `${start}…`] as const] : []), ...(end ? [["end", `…${end}`] as const] : [])];
}

interface GroupProps<Row> {
  readonly list: {
    readonly title: string;
    readonly path: string;
    columns(visit: Visit): readonly Column<Row>[];
  };
  readonly visit: Visit;
  readonly rows: readonly Row[];
  /** The condition of the list that has all of them. */
  readonly query?: { readonly search: string };
}

/** The first rows of a kind; nothing if there are none. The caption of the first kind gets the focus. */
function Group<Row>({ list: { title, path, columns }, visit, rows, query }: GroupProps<Row>) {
  if (rows.length === 0) return null;
  const hasMore = rows.length > MOST;
  const text = hasMore ? `The first ${MOST}; more match` : `${rows.length} found`;
  const caption = (
    <span tabindex={-1} autofocus>
      {text}
    </span>
  );
  return (
    <>
      <h2>{title}</h2>
      <Table caption={caption} columns={columns(visit)} rows={rows.slice(0, MOST)} />
      {hasMore && <a href={toAddress(`/console${path}`, query ?? {})}>Show all in the list</a>}
    </>
  );
}

/** The link to the machines with the text in their name. Their list reads many machines, so it is read only on demand. */
function MachinesNamed({ text, may }: Visit & { readonly text: string | undefined }) {
  if (text === undefined || !may("machines:read")) return null;
  return (
    <p>
      <a href={toAddress("/console/machines", { name: text })}>Search the names of machines</a>
    </p>
  );
}

/** Says what can be searched. */
function Help({ may }: Visit) {
  const named = may("admin") ? "a model or an operator" : "a model";
  return (
    <>
      <p>You can search:</p>
      <ul>
        {[
          ...SEARCHED.split("; "),
          "a whole key",
          "the id of a machine",
          `a part of the name of ${named}`,
        ].map((what) => (
          <li>{what}</li>
        ))}
      </ul>
      <p>The start of a key is known if version 0.4 or later issued it.</p>
    </>
  );
}
