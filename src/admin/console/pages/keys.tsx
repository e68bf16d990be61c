/** @jsxImportSource hono/jsx */
import { toTimestamp } from "../../../calendar.ts";
import { parseId } from "../../../ids.ts";
import { KEYS_CSV_HEADING, type KeySummary, renderKeysCsv } from "../../../keys/mod.ts";
import { MAX_SEARCHED, TIERS } from "../../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../../refusal.ts";
import { renderCount } from "../../../render_count.ts";
import { UNUSED_DAYS } from "../../../statistics/mod.ts";
import { streamCsv } from "../../stream_csv.ts";
import { Customer } from "../components/customer.tsx";
import { Select, TextField } from "../components/form.tsx";
import { Heading, Notice } from "../components/layout.tsx";
import { type ListPage, Pages, ROWS, takePage, toAddress } from "../components/list.tsx";
import { Table } from "../components/table.tsx";
import { Ago, Day, Foreign, State, Used } from "../components/values.tsx";
import {
  findKeys,
  type KeyConditions,
  MAX_SEARCH_LENGTH,
  MODES,
  NEAR_PERCENTAGES,
  readConditions,
  STATES,
} from "../key_filter.ts";
import type { Page } from "../page.tsx";
import type { Visit } from "../visit.ts";

const MOST_SEARCHED = renderCount(MAX_SEARCHED);
const TOO_WIDE = `More than ${MOST_SEARCHED} accounts match, and only ${MOST_SEARCHED} of them are searched: narrow the search`;

interface KeysProps {
  readonly conditions: KeyConditions;
  readonly page: ListPage<KeySummary>;
  readonly isFirst: boolean;
  readonly now: Date;
  readonly mayIssue: boolean;
  /** When the figures were counted that some conditions need. */
  readonly asOf: Date | undefined;
  /** The reason why the page shows no keys, or only some of them. */
  readonly warning: string | undefined;
}

/** The list of the keys that meet every condition of the query. Unknown values of conditions are ignored. */
export async function keysPage(visit: Visit): Promise<Page> {
  const { query, now, may } = visit;
  const conditions = readConditions(query);
  const found = await findKeys(visit, conditions);
  const afterUuid = parseId("key", query.get("after") ?? "");
  const rows = isRefusal(found) ? [] : await found.read(afterUuid, ROWS + 1);
  const warning = isRefusal(found) ? found.sentence : found.isTooWide ? TOO_WIDE : undefined;
  return {
    title: "Keys",
    body: (
      <Keys
        conditions={conditions}
        page={takePage(rows)}
        isFirst={afterUuid === undefined}
        now={now}
        mayIssue={may("keys:issue")}
        asOf={isRefusal(found) ? undefined : found.asOf}
        warning={warning}
      />
    ),
  };
}

/** Answers the keys of all pages that meet every condition of the query, as CSV. */
export async function keysCsv(visit: Visit): Promise<Response | Refusal> {
  const found = await findKeys(visit, readConditions(visit.query));
  if (isRefusal(found)) return found;
  // A file does not show that it is incomplete.
  if (found.isTooWide) return refuse("INVALID_REQUEST", `${TOO_WIDE}, then download the keys`);
  return await streamCsv<KeySummary>(
    {
      name: `keys-${toTimestamp(visit.now).slice(0, 10)}`,
      heading: KEYS_CSV_HEADING,
      read: found.read,
      positionOf: ({ id }) => parseId("key", id) ?? "",
      render: renderKeysCsv,
    },
    visit,
  );
}

function Keys({ conditions, page, isFirst, now, mayIssue, asOf, warning }: KeysProps) {
  const { rows: keys, last } = page;
  const isFiltered = Object.values(conditions).some((value) => value);
  return (
    <>
      <Heading title="Keys">
        {mayIssue && (
          <a class="button" href="/console/keys/issue">
            Issue a key
          </a>
        )}
      </Heading>
      <Filters conditions={conditions} isFiltered={isFiltered} />
      {warning && (
        <Notice kind="warning">
          <Foreign text={`${warning}.`} />
        </Notice>
      )}
      {asOf && (
        <p class="hint figures">
          The use is that of the stored figures, counted <Ago at={asOf} now={now} />
        </p>
      )}
      {keys.length === 0 ? (
        <p class="empty">
          {isFiltered || !isFirst
            ? "No key meets these conditions."
            : `No key has been issued yet.${mayIssue ? " Issue the first one." : ""}`}
        </p>
      ) : (
        <Table
          caption={describeRows(keys, last !== undefined || !isFirst)}
          columns={columnsAt(now)}
          rows={keys}
        />
      )}
      <Pages path="/console/keys" conditions={{ ...conditions }} after={last?.id} isFirst={isFirst}>
        {keys.length > 0 && <a href={toAddress("/console/keys.csv", { ...conditions })}>Download as CSV</a>}
      </Pages>
    </>
  );
}

/** Says how many keys are shown, and what their licenses used. Several keys can share the use of a license. */
function describeRows(keys: readonly KeySummary[], isPart: boolean): string {
  const used = new Map(keys.map((key) => [key.licenseId, key.used])).values().reduce((a, b) => a + b, 0);
  const count = `${keys.length} ${keys.length === 1 ? "key" : "keys"}${isPart ? " on this page" : ""}`;
  return `${count}, newest first; used this month: ${renderCount(used)}`;
}

interface FiltersProps {
  readonly conditions: KeyConditions;
  readonly isFiltered: boolean;
}

function Filters({ conditions, isFiltered }: FiltersProps) {
  const { search, state, tier, mode, ...more } = conditions;
  const { account, expiring_within, external_id, near_quota, unused_for } = more;
  return (
    <form class="filters" action="/console/keys" aria-label="Conditions">
      <TextField
        name="search"
        label="Search"
        type="search"
        value={search}
        maxlength={MAX_SEARCH_LENGTH}
        hint="Words of e-mail, name or organization, or the last four characters of a key"
      />
      <Select name="state" label="State" value={state} choices={choicesOf(STATES)} />
      <Select name="tier" label="Tier" value={tier} choices={choicesOf(TIERS)} />
      <Select name="mode" label="Mode" value={mode} choices={choicesOf(MODES)} />
      <details class="more-filters" open={Object.values(more).some((value) => value !== "")}>
        <summary>More conditions</summary>
        <div>
          <TextField name="account" label="Account" value={account} hint="Its id or e-mail" maxlength={254} />
          <TextField
            name="expiring_within"
            label="Expires within"
            value={expiring_within}
            hint="Days from now"
            inputmode="numeric"
            maxlength={5}
          />
          <TextField
            name="external_id"
            label="External id"
            value={external_id}
            hint="Your own name for the license"
            maxlength={255}
          />
          <Select
            name="near_quota"
            label="Quota used"
            value={near_quota}
            choices={choicesOf(NEAR_PERCENTAGES, (percent) => `${percent} % or more`)}
          />
          <Select
            name="unused_for"
            label="Not used for"
            value={unused_for}
            choices={choicesOf(UNUSED_DAYS.map(String), (days) => `${days} days`)}
          />
        </div>
      </details>
      <div class="actions">
        <button type="submit">Show</button>
        {isFiltered && <a href="/console/keys">Show all</a>}
      </div>
    </form>
  );
}

function choicesOf(values: readonly string[], toLabel = (value: string) => value) {
  return [{ value: "", label: "any" }, ...values.map((value) => ({ value, label: toLabel(value) }))];
}

function columnsAt(now: Date) {
  return [
    { label: "Key", cell: (key: KeySummary) => <KeyName {...key} /> },
    { label: "Account", cell: (key: KeySummary) => <Account {...key} /> },
    { label: "State", cell: ({ state }: KeySummary) => <State state={state} /> },
    {
      label: "Tier, mode",
      cell: ({ tier, mode }: KeySummary) => (
        <>
          {tier}
          <span class="more">{mode}</span>
        </>
      ),
    },
    {
      label: "Used this month",
      isNumeric: true,
      cell: ({ used, monthlyLimit }: KeySummary) => <Used used={used} limit={monthlyLimit} />,
    },
    { label: "Expires", cell: ({ expiresAt }: KeySummary) => <Day at={expiresAt} now={now} /> },
    {
      label: "Last used",
      cell: ({ lastUsedAt }: KeySummary) =>
        lastUsedAt ? <Ago at={lastUsedAt} now={now} /> : <span class="muted">never</span>,
    },
  ];
}

function KeyName({ id, hint }: KeySummary) {
  return (
    <>
      <a href={`/console/keys/${id}`}>
        <code>{hint}</code>
      </a>
      <span class="more">
        <code class="id">{id}</code>
      </span>
    </>
  );
}

function Account({ userId, email, name, organization, externalId }: KeySummary) {
  const more = [name === email ? "" : name, organization, externalId ?? ""];
  return <Customer userId={userId} email={email} more={more} />;
}
