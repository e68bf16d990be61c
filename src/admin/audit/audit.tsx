/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import {
  ACTIONS,
  type AuditRow,
  countAudit,
  type ListedAuditRow,
  listAudit,
  PAGE_POSITION,
} from "../../audit/mod.ts";
import { DAY, DAY_MS, parseTimestamp } from "../../calendar.ts";
import { parseId } from "../../ids.ts";
import { findAccountNamed, findEmails } from "../../licensing/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { parsedField } from "../../rule.ts";
import { Changes, REASON_COLUMN } from "../frame/console/components/changes.tsx";
import { choicesOf, Select, TextField } from "../frame/console/components/form.tsx";
import { toAddress } from "../frame/console/components/list.tsx";
import { Ago, Foreign, NONE, ThingLink } from "../frame/console/components/values.tsx";
import { type Asked, fieldOf } from "../frame/console/conditions.ts";
import type { FieldsOf } from "../frame/console/form_fields.ts";
import type { Found, List } from "../frame/console/list_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { AUDIT_CONDITIONS } from "./audit_routes.ts";

const PATH = "/console/audit";
const ENTRIES = {
  ...AUDIT_CONDITIONS,
  /** The first and the last day. */
  since: v.optional(parsedField(DAY)),
  until: v.optional(parsedField(DAY)),
  after: v.optional(v.pipe(v.string(), v.regex(PAGE_POSITION, "must be that of a link to the next page"))),
} as const;
type AuditEntries = typeof ENTRIES;

/** A row with the e-mail of its account. */
interface Row extends ListedAuditRow {
  readonly email: string | undefined;
}

/** The audit log. */
export const AUDIT: List<AuditEntries, Row> = {
  title: "Audit",
  path: "/audit",
  scope: "audit:read",
  entries: ENTRIES,
  find: findRows,
  toAfter: ({ position }) => position,
  hasManyFields: true,
  Fields,
  columns: ({ now }) => [
    { label: "Time", cell: ({ at }) => <Ago at={at} now={now} /> },
    { label: "Actor", cell: Who },
    { label: "Action", cell: ({ action }) => action },
    { label: "Concerns", cell: Concerned },
    { label: "Change", cell: Changes },
    REASON_COLUMN,
  ],
  order: "newest first",
  noun: "change",
  noneMeets: "No change meets these conditions.",
  none: () => "Nothing has been changed yet.",
};

async function findRows(
  { options: { database } }: Visit,
  { account: who, key: keyUuid, since, until, ...conditions }: FieldsOf<AuditEntries>,
): Promise<Found<Row> | Refusal> {
  const accountUuid = who === undefined ? undefined : await findAccountUuid(database, who);
  if (isRefusal(accountUuid)) return accountUuid;
  const filter = {
    ...conditions,
    keyUuid,
    accountUuid,
    since: dayOf(since),
    // The last day is included.
    until: dayOf(until, DAY_MS),
  };
  return {
    async read(after, limit, oldestFirst) {
      const rows = await listAudit(database, { ...filter, limit, after, oldestFirst });
      const uuids = rows.flatMap(({ userId }) => parseId("usr", userId ?? "") ?? []);
      const emails = await findEmails(database, [...new Set(uuids)]);
      return rows.map((row) => ({ ...row, email: emails.get(row.userId ?? "") }));
    },
    count: (after) => countAudit(database, { ...filter, after }),
  };
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
  const at = parseTimestamp(text);
  // PostgreSQL does not read the year 10000 as Date writes it, and no change is later.
  return at && parseTimestamp(new Date(at.getTime() + laterMs).toISOString());
}

function Fields(asked: Asked<AuditEntries>) {
  const field = (name: keyof AuditEntries) => fieldOf(asked, name);
  return (
    <>
      <TextField {...field("account")} label="Account" hint="Its e-mail or its id" />
      <TextField {...field("actor")} label="Actor" hint="Such as operator:olga" />
      <Select {...field("action")} label="Action" choices={choicesOf(ACTIONS)} />
      <TextField {...field("key")} label="Key" hint="Its id" />
      <TextField {...field("since")} label="From" hint="A day such as 2026-11-20" />
      <TextField {...field("until")} label="To" hint="This day is included, UTC" />
    </>
  );
}

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

function Concerned({ keyId, userId, email }: Row) {
  if (keyId === null && userId === null) return NONE;
  return (
    <>
      {keyId && <ThingLink page="keys" id={keyId} kind="key" />}
      {userId && <ThingLink page="accounts" id={userId} kind="account" name={email} />}
    </>
  );
}
