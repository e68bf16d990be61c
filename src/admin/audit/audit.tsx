/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { ACTIONS, type AuditRow, PAGE_POSITION, pageAudit } from "../../audit/mod.ts";
import { DAY_MS, parseTimestamp } from "../../calendar.ts";
import { parseId } from "../../ids.ts";
import { findAccountNamed, findEmails } from "../../licensing/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { Changes } from "../frame/console/components/changes.tsx";
import { Select, TextField } from "../frame/console/components/form.tsx";
import { Heading, Notice } from "../frame/console/components/layout.tsx";
import { Pages, ROWS, toAddress } from "../frame/console/components/list.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { Ago, Foreign } from "../frame/console/components/values.tsx";
import { type Asked, codeOf, fieldOf, readConditions } from "../frame/console/conditions.ts";
import { cutText, MOST_OF_REASON } from "../frame/console/cut_text.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { AUDIT_CONDITIONS } from "./audit_routes.ts";

const PATH = "/console/audit";
const dayEntry = (name: string) =>
  v.optional(
    v.pipe(
      v.string(),
      v.check((text) => dayOf(text) !== undefined, `${name} must be a day such as 2026-11-22`),
    ),
  );

const ENTRIES = {
  ...AUDIT_CONDITIONS,
  /** The first and the last day. */
  since: dayEntry("since"),
  until: dayEntry("until"),
  after: v.optional(
    v.pipe(v.string(), v.regex(PAGE_POSITION, "after must be that of a link to the next page")),
  ),
} as const;
type AskedAudit = Asked<typeof ENTRIES>;

/** The audit log, newest first: the rows that meet every condition of the query. */
export async function auditPage({ options: { database }, query, now }: Visit): Promise<Page> {
  const asked = readConditions(query, ENTRIES);
  const found = await findRows(database, asked);
  const rest = isRefusal(found) ? { ...NOTHING, warning: found.sentence } : found;
  const isFirst = !query.get("after");
  return {
    title: "Audit",
    ...codeOf(asked),
    body: <Audit asked={asked} {...rest} isFirst={isFirst} now={now} />,
  };
}

const NOTHING = { rows: [], next: undefined, emails: new Map<string, string>() };

async function findRows(database: Visit["options"]["database"], { values }: AskedAudit) {
  if (isRefusal(values)) return values;
  const { account: who, key: keyUuid, since, until, after, ...filter } = values;
  const accountUuid = who === undefined ? undefined : await findAccountUuid(database, who);
  if (isRefusal(accountUuid)) return accountUuid;
  const conditions = {
    ...filter,
    ...{ keyUuid, accountUuid },
    since: dayOf(since),
    // The last day is included.
    until: dayOf(until, DAY_MS),
  };
  const page = await pageAudit(database, { filter: conditions, limit: ROWS, after });
  const uuids = page.rows.flatMap(({ userId }) => parseId("usr", userId ?? "") ?? []);
  return { ...page, emails: await findEmails(database, [...new Set(uuids)]), warning: undefined };
}

/** The log keeps the rows of an erased account, so an id need not be that of an account. */
async function findAccountUuid(database: Visit["options"]["database"], who: string) {
  const uuid = parseId("usr", who);
  if (uuid !== undefined) return uuid;
  const account = await findAccountNamed(database, who, "show audit log");
  return isRefusal(account) ? account : account.uuid;
}

/** Returns the first moment of a day such as `2026-11-22`, or a moment so much later; undefined after the year 9999. */
function dayOf(text = "", laterMs = 0): Date | undefined {
  const at = text.length === 10 ? parseTimestamp(text) : undefined;
  // PostgreSQL does not read the year 10000 as Date writes it, and no change is later.
  return at && parseTimestamp(new Date(at.getTime() + laterMs).toISOString());
}

interface AuditProps {
  readonly asked: AskedAudit;
  readonly rows: readonly AuditRow[];
  /** The e-mails of accounts, by their ids. */
  readonly emails: ReadonlyMap<string, string>;
  readonly next: string | undefined;
  readonly isFirst: boolean;
  readonly warning: string | undefined;
  readonly now: Date;
}

function Audit({ asked, rows, emails, next, isFirst, warning, now }: AuditProps) {
  const isFiltered = Object.keys(asked.entered).length > 0;
  return (
    <>
      <Heading title="Audit" />
      <Filters asked={asked} isFiltered={isFiltered} />
      {warning && (
        <Notice kind="warning">
          <Foreign text={warning} />.
        </Notice>
      )}
      {rows.length > 0 ? (
        <Table caption="Changes, newest first" columns={columnsOf({ emails, now })} rows={rows} />
      ) : warning ? null : (
        <p class="empty">
          {isFiltered ? "No change meets these conditions." : "Nothing has been changed yet."}
        </p>
      )}
      <Pages path={PATH} conditions={asked.entered} after={next} isFirst={isFirst} />
    </>
  );
}

const ACTION_CHOICES = [
  { value: "", label: "any" },
  ...ACTIONS.map((action) => ({ value: action, label: action })),
];

function Filters({ asked, isFiltered }: { readonly asked: AskedAudit; readonly isFiltered: boolean }) {
  const field = (name: keyof typeof ENTRIES) => fieldOf(asked, name);
  // A browser shows nothing in a field for a day if the text is none.
  const day = (name: "since" | "until") => ({
    ...field(name),
    type: asked.errors[name] ? ("text" as const) : ("date" as const),
  });
  return (
    <form class="filters many" action="/console/audit" aria-label="Conditions">
      <TextField {...field("account")} label="Account" hint="Its e-mail or its id" />
      <TextField {...field("actor")} label="Actor" hint="Such as operator:olga" />
      <Select {...field("action")} label="Action" choices={ACTION_CHOICES} />
      <TextField {...field("key")} label="Key" hint="Its id" />
      <TextField {...day("since")} label="From" />
      <TextField {...day("until")} label="To" hint="This day is included, UTC" />
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
