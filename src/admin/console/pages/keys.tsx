/** @jsxImportSource hono/jsx */
import { isStorableText } from "../../../database/mod.ts";
import { parseId } from "../../../ids.ts";
import { type KeySummary, listKeys } from "../../../keys/mod.ts";
import { MAX_SEARCHED, searchAccounts, TIERS } from "../../../licensing/mod.ts";
import { isRefusal } from "../../../refusal.ts";
import { Select, TextField } from "../components/form.tsx";
import { Heading, Notice } from "../components/layout.tsx";
import { Table } from "../components/table.tsx";
import { Day, Foreign, Minute, State, Used } from "../components/values.tsx";
import type { Page } from "../page.tsx";
import type { Visit } from "../visit.ts";

/** Rows of a page. */
const ROWS = 50;
const STATES = ["active", "suspended", "expired", "revoked"] as const;
const MODES = ["live", "test"] as const;
const MAX_SEARCH_LENGTH = 200;

interface Filter {
  readonly search: string;
  readonly state: (typeof STATES)[number] | undefined;
  readonly tier: (typeof TIERS)[number] | undefined;
  readonly mode: (typeof MODES)[number] | undefined;
}

interface KeysProps {
  readonly filter: Filter;
  readonly keys: readonly KeySummary[];
  /** The query of the next page; undefined on the last one. */
  readonly next: string | undefined;
  readonly isFirst: boolean;
  readonly mayIssue: boolean;
  /** The reason why the search finds nothing, or only some of the keys. */
  readonly warning: string | undefined;
}

/** The list of keys: those that meet every condition of the query. Unknown values of conditions are ignored. */
export async function keysPage({ options, query, now, may }: Visit): Promise<Page> {
  const { database } = options;
  const filter = filterOf(query);
  const search = filter.search === "" ? undefined : await searchAccounts(database, filter.search);
  const afterUuid = parseId("key", query.get("after") ?? "");
  // One row more than the page has tells whether there is another page.
  const part = { ...filter, afterUuid, newestFirst: true, limit: ROWS + 1 };
  const found = isRefusal(search) ? [] : await listKeys(database, { now, filter: { ...part, search } });
  const keys = found.slice(0, ROWS);
  const last = found.length > ROWS ? keys.at(-1) : undefined;
  return {
    title: "Keys",
    body: (
      <Keys
        filter={filter}
        keys={keys}
        next={last && queryOf(filter, last.id)}
        isFirst={afterUuid === undefined}
        mayIssue={may("keys:issue")}
        warning={warningOf(search)}
      />
    ),
  };
}

function filterOf(query: URLSearchParams): Filter {
  const search = (query.get("search") ?? "").trim().slice(0, MAX_SEARCH_LENGTH);
  const one = <Value extends string>(name: string, values: readonly Value[]) =>
    values.find((value) => value === query.get(name));
  return {
    search: isStorableText(search) ? search : "",
    state: one("state", STATES),
    tier: one("tier", TIERS),
    mode: one("mode", MODES),
  };
}

function queryOf(filter: Filter, after: string): string {
  const given = Object.entries({ ...filter, after }).filter(([, value]) => value);
  return `?${new URLSearchParams(given as [string, string][])}`;
}

function warningOf(search: Awaited<ReturnType<typeof searchAccounts>> | undefined): string | undefined {
  if (isRefusal(search)) return search.sentence;
  const most = MAX_SEARCHED.toLocaleString("en-US");
  return search?.isTooWide
    ? `More than ${most} accounts match, and only ${most} of them are searched: narrow the search`
    : undefined;
}

function Keys({ filter, keys, next, isFirst, mayIssue, warning }: KeysProps) {
  const isFiltered = Object.values(filter).some((value) => value);
  return (
    <>
      <Heading title="Keys">
        {mayIssue && (
          <a class="button" href="/console/keys/issue">
            Issue a key
          </a>
        )}
      </Heading>
      <Filters filter={filter} isFiltered={isFiltered} />
      {warning && <Notice kind="warning">{warning}.</Notice>}
      {keys.length === 0 ? (
        <p class="empty">
          {isFiltered || !isFirst ? "No key meets these conditions." : "No key has been issued yet."}
        </p>
      ) : (
        <Table caption="Keys, newest first" columns={COLUMNS} rows={keys} />
      )}
      <nav class="pages" aria-label="Pages">
        {!isFirst && <a href={`/console/keys${queryOf(filter, "")}`}>First page</a>}
        {next && <a href={`/console/keys${next}`}>Next page</a>}
      </nav>
    </>
  );
}

function Filters({ filter, isFiltered }: { readonly filter: Filter; readonly isFiltered: boolean }) {
  return (
    <form class="filters" action="/console/keys" aria-label="Conditions">
      <TextField
        name="search"
        label="Search"
        type="search"
        value={filter.search}
        maxlength={MAX_SEARCH_LENGTH}
        hint="Words of e-mail, name or organization, or the last four characters of a key"
      />
      <Select name="state" label="State" value={filter.state} choices={choicesOf(STATES)} />
      <Select name="tier" label="Tier" value={filter.tier} choices={choicesOf(TIERS)} />
      <Select name="mode" label="Mode" value={filter.mode} choices={choicesOf(MODES)} />
      <div class="actions">
        <button type="submit">Show</button>
        {isFiltered && <a href="/console/keys">Show all</a>}
      </div>
    </form>
  );
}

function choicesOf(values: readonly string[]) {
  return [{ value: "", label: "any" }, ...values.map((value) => ({ value, label: value }))];
}

const COLUMNS = [
  { label: "Key", cell: ({ hint }: KeySummary) => <code>{hint}</code> },
  { label: "Account", cell: (key: KeySummary) => <Account {...key} /> },
  { label: "State", cell: ({ state }: KeySummary) => <State state={state} /> },
  { label: "Tier", cell: ({ tier }: KeySummary) => tier },
  { label: "Mode", cell: ({ mode }: KeySummary) => mode },
  {
    label: "Used this month",
    isNumeric: true,
    cell: ({ used, monthlyLimit }: KeySummary) => <Used used={used} limit={monthlyLimit} />,
  },
  { label: "Expires", cell: ({ expiresAt }: KeySummary) => <Day at={expiresAt} /> },
  {
    label: "Last used",
    cell: ({ lastUsedAt }: KeySummary) =>
      lastUsedAt ? <Minute at={lastUsedAt} /> : <span class="muted">never</span>,
  },
];

function Account({ email, name, organization, externalId }: KeySummary) {
  const more = [name === email ? "" : name, organization, externalId ?? ""].filter((text) => text !== "");
  return (
    <>
      <Foreign text={email} />
      {more.map((text) => (
        <span class="more">
          <Foreign text={text} />
        </span>
      ))}
    </>
  );
}
