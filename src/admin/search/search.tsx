/** @jsxImportSource hono/jsx */
/**
 * Searches everything that has a page. The box sends its text by POST, because people paste whole keys, and an address is
 * stored in histories and logs. A key that is known opens at once. Any other text goes on into the address of the results,
 * so that Back works, unless it may be a secret: then the answer to the form has the results.
 */
import type { Context } from "hono";
import * as v from "valibot";
import { parseId } from "../../ids.ts";
import { findKey, findKeysIn, hashApiKey, type KeySummary, listKeys } from "../../keys/mod.ts";
import {
  type Account,
  findAccountNamed,
  listAccounts,
  parseKeyParts,
  SEARCH_TEXT,
  type Search,
  searchAccounts,
  TOO_WIDE,
} from "../../licensing/mod.ts";
import { findRegistered, listRegistered, type RegisteredModel } from "../../models/mod.ts";
import { listOperators, type Operator } from "../../operators/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { parsedField } from "../../rule.ts";
import { mayBeSecret, redactKeys } from "../../secrets/mod.ts";
import { operatorColumns } from "../access/lists.tsx";
import { ACCOUNTS } from "../accounts/accounts.tsx";
import { Notice } from "../frame/console/components/layout.tsx";
import { type Conditions, toAddress } from "../frame/console/components/list.tsx";
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

const ENTRIES = {
  q: v.optional(
    parsedField({
      ...SEARCH_TEXT,
      expects: `${SEARCH_TEXT.expects}. Enter a key or a token in the box: it must not be in an address`,
      parse: (text) => (mayBeSecret(text) ? undefined : SEARCH_TEXT.parse(text)),
    }),
  ),
} as const;

/** Shows what the text in the address finds, or what can be searched. */
export async function searchPage(visit: Visit, c: Context<AdminEnv>): Promise<Page | Response | Refusal> {
  const { values } = readConditions(visit.query, ENTRIES);
  if (isRefusal(values)) return values;
  return values.q === undefined
    ? { title: "Search", body: <Help {...visit} /> }
    : await showFound(values.q, visit, c);
}

/** Answers the box. */
export async function searchOfForm(visit: Visit, c: Context<AdminEnv>): Promise<Page | Response | Refusal> {
  const { options, form, may, now } = visit;
  const given = form.get("q")?.trim() ?? "";
  const [whole, ...others] = findKeysIn(given, options.brand);
  if (whole !== undefined && may("keys:read")) {
    for (const apiKey of [whole, ...others]) {
      const key = await findKey(options.database, { hash: hashApiKey(apiKey) }, { now });
      if (key !== undefined) return c.redirect(`/console/keys/${key.id}`, 303);
    }
  }
  // Of a key that is not known, or that is cut, only the digits that hints have are searched and shown.
  const text = redactKeys(given) === given ? given : (toHint(whole ?? given, visit) ?? NO_TEXT);
  if (given !== "" && SEARCH_TEXT.parse(text) === undefined) {
    return refuse("INVALID_REQUEST", `Cannot search: the text must be ${SEARCH_TEXT.expects}`);
  }
  if (!mayBeSecret(given)) return c.redirect(toAddress("/console/search", { q: text }), 303);
  return await showFound(text, visit, c);
}

/** Finds nothing. */
const NO_TEXT = "…";

function toHint(key: string, { options }: Visit): string | undefined {
  const parts = parseKeyParts(key);
  if (parts === undefined) return undefined;
  const { mode, start, end } = parts;
  return [mode && `${options.brand.name}_${mode}_`, start, "…", end].join("");
}

async function showFound(text: string, visit: Visit, c: Context<AdminEnv>): Promise<Page | Response> {
  const { options, may, now } = visit;
  const { database } = options;
  const named = await findNamed(text, visit);
  if (named !== undefined) return c.redirect(`/console${named}`, 303);
  const search = await searchAccounts(database, text);
  const [keys, accounts, models, operators] = await Promise.all([
    may("keys:read") ? findKeys(search, visit) : [],
    may("accounts:read") ? findAccounts(search, visit) : [],
    may("models:read") ? findModels(text, visit) : [],
    may("admin") ? findOperators(text, visit) : [],
  ]);
  const only = findOnly(text, { keys, accounts, models, operators });
  if (only !== undefined) return c.redirect(`/console${only}`, 303);
  const isEmpty = [keys, accounts, models, operators].every(({ length }) => length === 0);
  const shown = mayBeSecret(text) || text === NO_TEXT ? undefined : text;
  const query = { search: shown ?? toHint(text, visit) };
  return {
    title: "Search",
    ...(shown !== undefined && { searched: shown }),
    script: "copy",
    body: (
      <>
        {search.isTooWide && <Notice kind="warning">{`${TOO_WIDE}.`}</Notice>}
        <Group
          label="Keys"
          path="/keys"
          query={query}
          columns={KEYS.columns({ ...visit, may: isNotSelected })}
          rows={keys}
        />
        <Group
          label="Accounts"
          path="/accounts"
          query={query}
          columns={ACCOUNTS.columns(visit)}
          rows={accounts}
        />
        <Group label="Models" path="/models" query={query} columns={MODELS.columns(visit)} rows={models} />
        <Group label="Operators" path="/access" query={{}} columns={operatorColumns(now)} rows={operators} />
        {isEmpty && (
          <>
            <p class="empty">
              Nothing was found for {shown === undefined ? "this text" : <Foreign text={shown} />}.
            </p>
            <Help {...visit} />
          </>
        )}
      </>
    ),
  };
}

/** Returns the page of the key or account that the text names, whatever else it finds: by its id or its e-mail. */
async function findNamed(
  text: string,
  { options: { database }, may, now }: Visit,
): Promise<string | undefined> {
  const keyUuid = may("keys:read") ? parseId("key", text) : undefined;
  if (keyUuid !== undefined && (await findKey(database, { uuid: keyUuid }, { now }))) return `/keys/${text}`;
  const account = may("accounts:read") ? await findAccountNamed(database, text, "search") : undefined;
  return account === undefined || isRefusal(account) ? undefined : `/accounts/${account.id}`;
}

interface Results {
  readonly keys: readonly KeySummary[];
  readonly accounts: readonly Account[];
  readonly models: readonly RegisteredModel[];
  readonly operators: readonly Operator[];
}

/** Returns the page of the only result, if the text is the whole name of it. */
function findOnly(text: string, { keys, accounts, models, operators }: Results): string | undefined {
  const results = [
    ...keys.map(({ id, licenseId, externalId }) => ({ names: [licenseId, externalId], page: `/keys/${id}` })),
    ...accounts.map(({ id }) => ({ names: [], page: `/accounts/${id}` })),
    ...models.map(({ name }) => ({ names: [name], page: `/models/${encodeURIComponent(name)}` })),
    ...operators.map(({ name }) => ({ names: [name], page: `/access/operators/${name}` })),
  ];
  const [only] = results;
  return results.length === 1 && only?.names.includes(text) ? only.page : undefined;
}

/** Finds the keys that the text names, and then those of the accounts that it finds; each group has the newest first. */
async function findKeys(search: Search, { options: { database }, now }: Visit): Promise<KeySummary[]> {
  const list = (part: Partial<Search>) =>
    listKeys(database, {
      now,
      filter: { search: { ...search, ...part }, newestFirst: true, limit: MOST + 1 },
    });
  const [named, ofAccounts] = await Promise.all([list({ accountUuids: [] }), list({ text: "" })]);
  return [...new Map([...named, ...ofAccounts].map((key) => [key.id, key])).values()];
}

async function findAccounts(search: Search, { options: { database } }: Visit): Promise<readonly Account[]> {
  return await listAccounts(database, {
    search: { ...search, text: "" },
    newestFirst: true,
    limit: MOST + 1,
  });
}

/** Finds models by a part of their name; the model with this name comes first. */
async function findModels(text: string, { options: { database } }: Visit): Promise<RegisteredModel[]> {
  const [exact, models] = await Promise.all([
    findRegistered(database, text),
    listRegistered(database, { search: text, limit: MOST + 1 }),
  ]);
  const first = exact === undefined ? [] : [exact.model];
  return [...new Map([...first, ...models].map((model) => [model.uuid, model])).values()];
}

/** Finds operators by a part of their name; names that begin with the text come first. */
async function findOperators(text: string, { options: { database } }: Visit): Promise<readonly Operator[]> {
  const part = text.toLowerCase();
  const found = (await listOperators(database)).filter(({ name }) => name.includes(part));
  return found.toSorted((a, b) => a.name.indexOf(part) - b.name.indexOf(part));
}

/** The rows have no box to select them: it works in the list alone. */
const isNotSelected = () => false;

interface GroupProps<Row> {
  readonly label: string;
  /** The list of all of them, below `/console`. */
  readonly path: string;
  readonly query: Conditions;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
}

/** The first rows of a kind; nothing if there are none. */
function Group<Row>({ label, path, query, columns, rows }: GroupProps<Row>) {
  if (rows.length === 0) return null;
  const hasMore = rows.length > MOST;
  return (
    <>
      <h2>{label}</h2>
      <Table
        caption={hasMore ? `The first ${MOST}` : `${rows.length} found`}
        columns={columns}
        rows={rows.slice(0, MOST)}
      />
      {hasMore && (
        <p>
          <a href={toAddress(`/console${path}`, query)}>{`Show all ${label.toLowerCase()} that match`}</a>
        </p>
      )}
    </>
  );
}

/** Says what can be searched. */
function Help({ may, options }: Visit) {
  const { name } = options.brand;
  return (
    <>
      <p>You can search:</p>
      <ul>
        <li>
          a key: all of it; its start, <code>{`${name}_live_ab12`}</code> or <code>ab12</code>; or its end,{" "}
          <code>…6442</code> or <code>6442</code>. The start is known if version 0.4 or later issued the key
        </li>
        <li>
          the whole id of a key, a license or an account: <code>key_…</code>, <code>lic_…</code>,{" "}
          <code>usr_…</code>
        </li>
        <li>the whole external id of a license, such as an order number</li>
        <li>an e-mail, a name or an organization: whole words or their beginnings</li>
        <li>{`a model${may("admin") ? " or an operator" : ""}: a part of the name`}</li>
      </ul>
    </>
  );
}
