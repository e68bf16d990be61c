/** @jsxImportSource hono/jsx */
import { ACTIONS, type AuditRow, pageAudit } from "../../../audit/mod.ts";
import { parseTimestamp } from "../../../calendar.ts";
import { isStorableText } from "../../../database/mod.ts";
import { parseId } from "../../../ids.ts";
import { findAccountNamed, findEmails } from "../../../licensing/mod.ts";
import { isRefusal } from "../../../refusal.ts";
import { Changes } from "../components/changes.tsx";
import { Select, TextField } from "../components/form.tsx";
import { Heading, Notice } from "../components/layout.tsx";
import { Pages, ROWS, toAddress } from "../components/list.tsx";
import { Table } from "../components/table.tsx";
import { Ago, Foreign } from "../components/values.tsx";
import { cutText, MOST_OF_REASON } from "../cut_text.ts";
import type { Page } from "../page.tsx";
import type { Visit } from "../visit.ts";

const PATH = "/console/audit";
const DAY_MS = 86_400_000;
const MAX_ACTOR_LENGTH = 300;

/** The conditions as the query has them; unknown values are left out. */
interface Filter {
  readonly actor: string;
  readonly action: (typeof ACTIONS)[number] | "";
  readonly key: string;
  /** An id or an e-mail. */
  readonly account: string;
  /** The first and the last day. */
  readonly since: string;
  readonly until: string;
}

/** The audit log, newest first: the rows that meet every condition of the query. */
export async function auditPage({ options: { database }, query, now }: Visit): Promise<Page> {
  const filter = filterOf(query);
  const found = await findRows(database, filter, query.get("after") ?? undefined);
  const isFirst = !query.get("after");
  return { title: "Audit", body: <Audit filter={filter} {...found} isFirst={isFirst} now={now} /> };
}

async function findRows(database: Visit["options"]["database"], filter: Filter, after: string | undefined) {
  const account = await findAccountUuid(database, filter.account);
  if (account === null) {
    const warning = `No account has the id or e-mail ${filter.account}`;
    return { rows: [], next: undefined, emails: new Map<string, string>(), warning };
  }
  const conditions = {
    actor: filter.actor || undefined,
    action: filter.action || undefined,
    keyUuid: parseId("key", filter.key),
    accountUuid: account,
    since: dayOf(filter.since),
    // The last day is included.
    until: dayOf(filter.until, DAY_MS),
  };
  const page = await pageAudit(database, { filter: conditions, limit: ROWS, after });
  const uuids = page.rows.flatMap(({ userId }) => parseId("usr", userId ?? "") ?? []);
  return { ...page, emails: await findEmails(database, [...new Set(uuids)]), warning: undefined };
}

/** Undefined without an account; null for an unknown e-mail. */
async function findAccountUuid(database: Visit["options"]["database"], who: string) {
  if (who === "") return undefined;
  const uuid = parseId("usr", who);
  // The log keeps the rows of an erased account.
  if (uuid !== undefined) return uuid;
  const account = await findAccountNamed(database, who, "show audit log");
  return isRefusal(account) ? null : account.uuid;
}

function filterOf(query: URLSearchParams): Filter {
  const text = (name: string) => {
    const value = (query.get(name) ?? "").trim().slice(0, MAX_ACTOR_LENGTH);
    return isStorableText(value) ? value : "";
  };
  const day = (name: string) => (dayOf(text(name)) === undefined ? "" : text(name));
  return {
    actor: text("actor"),
    action: ACTIONS.find((action) => action === text("action")) ?? "",
    key: parseId("key", text("key")) === undefined ? "" : text("key"),
    account: text("account"),
    since: day("since"),
    until: day("until"),
  };
}

/** Returns the first moment of a day such as `2026-11-22`, or a moment so much later; undefined after the year 9999. */
function dayOf(text: string, laterMs = 0): Date | undefined {
  const at = text.length === 10 ? parseTimestamp(text) : undefined;
  // PostgreSQL does not read the year 10000 as Date writes it, and no change is later.
  return at && parseTimestamp(new Date(at.getTime() + laterMs).toISOString());
}

interface AuditProps {
  readonly filter: Filter;
  readonly rows: readonly AuditRow[];
  /** The e-mails of accounts, by their ids. */
  readonly emails: ReadonlyMap<string, string>;
  readonly next: string | undefined;
  readonly isFirst: boolean;
  readonly warning: string | undefined;
  readonly now: Date;
}

function Audit({ filter, rows, emails, next, isFirst, warning, now }: AuditProps) {
  const isFiltered = Object.values(filter).some((value) => value !== "");
  return (
    <>
      <Heading title="Audit" />
      <Filters filter={filter} isFiltered={isFiltered} />
      {warning && (
        <Notice kind="warning">
          <Foreign text={warning} />.
        </Notice>
      )}
      {rows.length === 0 ? (
        <p class="empty">
          {isFiltered ? "No change meets these conditions." : "Nothing has been changed yet."}
        </p>
      ) : (
        <Table caption="Changes, newest first" columns={columnsOf({ emails, now })} rows={rows} />
      )}
      <Pages path={PATH} conditions={{ ...filter }} after={next} isFirst={isFirst} />
    </>
  );
}

const ACTION_CHOICES = [
  { value: "", label: "any" },
  ...ACTIONS.map((action) => ({ value: action, label: action })),
];

function Filters({ filter, isFiltered }: { readonly filter: Filter; readonly isFiltered: boolean }) {
  return (
    <form class="filters many" action="/console/audit" aria-label="Conditions">
      <TextField
        name="account"
        label="Account"
        value={filter.account}
        maxlength={MAX_ACTOR_LENGTH}
        hint="Its e-mail or its id"
      />
      <TextField
        name="actor"
        label="Actor"
        value={filter.actor}
        maxlength={MAX_ACTOR_LENGTH}
        hint="Such as operator:olga"
      />
      <Select name="action" label="Action" value={filter.action} choices={ACTION_CHOICES} />
      <TextField name="key" label="Key" value={filter.key} maxlength={36} hint="Its id" />
      <TextField name="since" label="From" type="date" value={filter.since} />
      <TextField name="until" label="To" type="date" value={filter.until} hint="This day is included, UTC" />
      <div class="actions">
        <button type="submit">Show</button>
        {isFiltered && <a href="/console/audit">Show all</a>}
      </div>
    </form>
  );
}

const columnsOf = ({ emails, now }: Pick<AuditProps, "emails" | "now">) => [
  { label: "Time", cell: ({ at }: AuditRow) => <Ago at={at} now={now} /> },
  { label: "Actor", cell: (row: AuditRow) => <Who {...row} /> },
  { label: "Action", cell: ({ action }: AuditRow) => action },
  { label: "Concerns", cell: (row: AuditRow) => <Concerned {...row} emails={emails} /> },
  { label: "Change", cell: (row: AuditRow) => <Changes {...row} /> },
  {
    label: "Reason",
    cell: ({ reason }: AuditRow) =>
      reason ? <Foreign text={cutText(reason, MOST_OF_REASON)} /> : <span class="muted">none</span>,
  },
];

function Who({ actor, door, address }: AuditRow) {
  const how = [door, address && `from ${address}`].filter((part) => part !== null);
  return (
    <>
      <a class="thing" href={toAddress(PATH, { actor })}>
        <Foreign text={actor} />
      </a>
      <span class="more">
        <Foreign text={how.join(", ")} />
      </span>
    </>
  );
}

function Concerned({ keyId, userId, emails }: AuditRow & Pick<AuditProps, "emails">) {
  if (keyId === null && userId === null) return <span class="muted">none</span>;
  return (
    <>
      {keyId && <Id kind="key" id={keyId} page="keys" />}
      {userId && <Id kind="account" id={userId} page="accounts" name={emails.get(userId)} />}
    </>
  );
}

interface IdProps {
  readonly kind: string;
  readonly id: string;
  readonly page: "keys" | "accounts";
  readonly name?: string | undefined;
}

/** A link to a thing by its name, or by the end of its id: identifiers of one minute begin alike. */
function Id({ kind, id, page, name }: IdProps) {
  return (
    <a class="thing" href={`/console/${page}/${id}`} title={id}>
      {name === undefined ? (
        <>
          {kind} <code>{`…${id.slice(-6)}`}</code>
        </>
      ) : (
        <Foreign text={name} />
      )}
    </a>
  );
}
