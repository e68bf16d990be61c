/** @jsxImportSource hono/jsx */
import { toTimestamp } from "../../calendar.ts";
import { UNUSED_DAYS } from "../../figures/mod.ts";
import { parseId } from "../../ids.ts";
import { KEYS_CSV_HEADING, type KeySummary, LISTED_STATES, renderKeysCsv } from "../../keys/mod.ts";
import { MAX_SEARCHED, MODES, TIERS } from "../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { renderCount } from "../../render_count.ts";
import { Customer } from "../frame/console/components/customer.tsx";
import { Select, TextField } from "../frame/console/components/form.tsx";
import { Heading, IssueButton, Notice } from "../frame/console/components/layout.tsx";
import { type ListPage, Pages, ROWS, takePage, toAddress } from "../frame/console/components/list.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { Ago, Day, Foreign, KeyLink, Lines, State, Used } from "../frame/console/components/values.tsx";
import { codeOf, fieldOf } from "../frame/console/conditions.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { streamCsv } from "../frame/stream_csv.ts";
import { type AskedKeys, findKeys, readKeyConditions } from "./key_filter.ts";
import type { KEY_CONDITIONS } from "./key_list_routes.ts";

const MOST_SEARCHED = renderCount(MAX_SEARCHED);
const TOO_WIDE = `More than ${MOST_SEARCHED} accounts match, and only ${MOST_SEARCHED} of them are searched: narrow the search`;

interface KeysProps {
  readonly asked: AskedKeys;
  readonly page: ListPage<KeySummary>;
  readonly isFirst: boolean;
  readonly now: Date;
  readonly mayIssue: boolean;
  /** When the figures were counted that some conditions need. */
  readonly asOf: Date | undefined;
  /** The reason why the page shows no keys, or only some of them. */
  readonly warning: string | undefined;
}

/** The list of the keys that meet every condition of the query. */
export async function keysPage(visit: Visit): Promise<Page> {
  const { now, may } = visit;
  const asked = readKeyConditions(visit.query);
  const found = await findKeys(visit, asked);
  const afterUuid = isRefusal(asked.values) ? undefined : asked.values.after;
  const rows = isRefusal(found) ? [] : await found.read(afterUuid, ROWS + 1);
  const warning = isRefusal(found) ? found.sentence : found.isTooWide ? TOO_WIDE : undefined;
  return {
    title: "Keys",
    ...codeOf(asked),
    body: (
      <Keys
        asked={asked}
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
  const found = await findKeys(visit, readKeyConditions(visit.query));
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

function Keys({ asked, page, isFirst, now, mayIssue, asOf, warning }: KeysProps) {
  const { rows: keys, last } = page;
  const { entered: conditions } = asked;
  const isFiltered = Object.keys(conditions).length > 0;
  return (
    <>
      <Heading title="Keys">{mayIssue && <IssueButton />}</Heading>
      <Filters asked={asked} isFiltered={isFiltered} />
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
      {keys.length > 0 ? (
        <Table
          caption={describeRows(keys, last !== undefined || !isFirst)}
          columns={columnsAt(now)}
          rows={keys}
        />
      ) : warning ? null : (
        <p class="empty">
          {isFiltered || !isFirst
            ? "No key meets these conditions."
            : `No key has been issued yet.${mayIssue ? " Issue the first one." : ""}`}
        </p>
      )}
      <Pages path="/console/keys" conditions={conditions} after={last?.id} isFirst={isFirst}>
        {keys.length > 0 && <a href={toAddress("/console/keys.csv", conditions)}>Download as CSV</a>}
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
  readonly asked: AskedKeys;
  readonly isFiltered: boolean;
}

const NEAR_PERCENTAGES = ["80", "90", "100"];

function Filters({ asked, isFiltered }: FiltersProps) {
  const { search, state, tier, mode, ...more } = asked.entered;
  const field = (name: keyof typeof KEY_CONDITIONS) => fieldOf(asked, name);
  return (
    <form class="filters" action="/console/keys" aria-label="Conditions">
      <TextField
        {...field("search")}
        label="Search"
        type="search"
        hint="Words of e-mail, name or organization, or the last four characters of a key"
      />
      <Select {...field("state")} label="State" choices={choicesOf(LISTED_STATES)} />
      <Select {...field("tier")} label="Tier" choices={choicesOf(TIERS)} />
      <Select {...field("mode")} label="Mode" choices={choicesOf(MODES)} />
      <details class="more-filters" open={Object.keys(more).length > 0}>
        <summary>More conditions</summary>
        <div>
          <TextField {...field("account")} label="Account" hint="Its id or e-mail" />
          <TextField
            {...field("expiring_within")}
            label="Expires within"
            hint="Days from now"
            inputmode="numeric"
          />
          <TextField {...field("external_id")} label="External id" hint="Your own name for the license" />
          <Select
            {...field("near_quota")}
            label="Quota used"
            choices={choicesOf(NEAR_PERCENTAGES, (percent) => `${percent} % or more`)}
          />
          <Select
            {...field("unused_for")}
            label="Not used for"
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
    { label: "Tier, mode", cell: ({ tier, mode }: KeySummary) => <Lines text={tier} more={mode} /> },
    {
      label: "Used this month",
      isNumeric: true,
      cell: ({ used, monthlyLimit }: KeySummary) => <Used used={used} limit={monthlyLimit} />,
    },
    { label: "Expires", cell: ({ expiresAt }: KeySummary) => <Day at={expiresAt} now={now} /> },
    { label: "Last used", cell: ({ lastUsedAt }: KeySummary) => <Ago at={lastUsedAt} now={now} /> },
  ];
}

function KeyName({ id, hint }: KeySummary) {
  return <Lines text={<KeyLink id={id} text={hint} />} more={<code class="id">{id}</code>} />;
}

function Account({ userId, email, name, organization, externalId }: KeySummary) {
  const more = [name === email ? "" : name, organization, externalId ?? ""];
  return <Customer userId={userId} email={email} more={more} />;
}
