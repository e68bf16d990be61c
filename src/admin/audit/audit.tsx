/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import {
  ACTIONS,
  ACTOR_OR_NAME,
  ACTOR_TEXT,
  AUDIT_FIELDS,
  type AuditRow,
  actorsOf,
  countAudit,
  countImport,
  describeActor,
  type ListedAuditRow,
  listAudit,
  PAGE_POSITION,
  renderAuditRow,
  wordsOf,
} from "../../audit/mod.ts";
import { DAY, DAY_MS, parseTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { renderCsv } from "../../base/text/mod.ts";
import { type Database, MOST_COUNTED } from "../../database/mod.ts";
import { listKeys } from "../../licensing/keys/mod.ts";
import { findAccountOfAudit } from "../../licensing/mod.ts";
import { SEARCH_FIELD } from "../frame/api/fields.ts";
import { Changes, REASON_COLUMN } from "../frame/console/components/changes.tsx";
import { choicesOf, Select, TextField } from "../frame/console/components/form.tsx";
import { Deed, type NamedThings, nameThings } from "../frame/console/components/history.tsx";
import { toAddress } from "../frame/console/components/list.tsx";
import { Ago, Foreign } from "../frame/console/components/values.tsx";
import { type Asked, fieldOf } from "../frame/console/conditions.ts";
import type { FieldsOf } from "../frame/console/form_fields.ts";
import type { Found, List } from "../frame/console/list_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { AUDIT_ENTRIES } from "./audit_routes.ts";

const PATH = "/console/audit";
const ENTRIES = {
  ...AUDIT_ENTRIES,
  key: v.optional(SEARCH_FIELD),
  actor: v.optional(parsedField(ACTOR_OR_NAME)),
  /** The first and the last day. */
  since: v.optional(parsedField(DAY)),
  until: v.optional(parsedField(DAY)),
  after: v.optional(v.pipe(v.string(), v.regex(PAGE_POSITION, "must be that of a link to the next page"))),
} as const;
type AuditEntries = typeof ENTRIES;

/** A row that can stand for a whole import, with the number of its keys. */
interface Folded extends ListedAuditRow {
  readonly imported?: number | undefined;
}

type Row = Folded & NamedThings;

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
    { label: "Time", isOrdered: true, cell: ({ at }) => <Ago at={at} now={now} /> },
    { label: "Actor", cell: Who },
    { label: "What", cell: What },
    { label: "Change", cell: Changes },
    REASON_COLUMN,
  ],
  order: "newest",
  noun: "change",
  noneMeets: "No change meets these conditions.",
  none: () => "Nothing has been changed yet.",
  csv: (pages) => renderCsv(pages, { columns: Object.keys(AUDIT_FIELDS), toCells }),
};

async function findRows(
  { options: { database }, now }: Visit,
  { account: who, key, actor: by, since, until, ...conditions }: FieldsOf<AuditEntries>,
): Promise<Found<Row> | Refusal> {
  const keyUuid = key === undefined ? undefined : await findKeyUuid(database, { text: key, now });
  if (isRefusal(keyUuid)) return keyUuid;
  const actor = by === undefined ? undefined : await findActor(database, by);
  if (isRefusal(actor)) return actor;
  const accountUuid = await findAccountOfAudit(database, who);
  if (isRefusal(accountUuid)) return accountUuid;
  const filter = {
    ...conditions,
    actor,
    keyUuid,
    accountUuid,
    since: dayOf(since),
    // The last day is included.
    until: dayOf(until, DAY_MS),
  };
  const list = (after: string | undefined, limit: number, oldestFirst = false) =>
    listAudit(database, { ...filter, limit, after, oldestFirst });
  const folds = keyUuid === undefined && accountUuid === undefined && conditions.action === undefined;
  const imports = new Map<string, number | undefined>();
  const readImport = async (xid: string) => {
    if (!imports.has(xid)) imports.set(xid, await countImport(database, xid));
    return imports.get(xid);
  };
  return {
    async read(after, limit, isBackwards) {
      const rows: Folded[] = [];
      // A page before an import begins with newer rows than those of the import.
      let from = isBackwards && folds ? after?.replace(/\.0$/, LAST) : after;
      for (let left = limit; left > 0; left = limit - rows.length) {
        const found = await list(from, left, isBackwards);
        for (const row of found) {
          const xid = folds && row.action === "key.import" ? row.position.split(".")[0] : "";
          const imported = xid ? await readImport(xid) : undefined;
          const position = imported === undefined ? row.position : `${xid}.0`;
          from = imported !== undefined && isBackwards ? `${xid}${LAST}` : position;
          if (rows.at(-1)?.position !== position) rows.push({ ...row, position, imported });
        }
        if (found.length < left) break;
      }
      return await nameThings(database, rows);
    },
    async readAll(after, limit) {
      return await nameThings(database, await list(after, limit));
    },
    // The count has every row of an import, but the page has one row for all of them.
    async count(after) {
      const hasFolded = imports.values().some((imported) => imported !== undefined);
      return hasFolded ? undefined : await countAudit(database, { ...filter, after });
    },
  };
}

/** The end of a position behind all rows of a transaction. */
const LAST = `.${"9".repeat(18)}`;

/** Finds the key that a text names: by its id, or by what the list of keys finds if that is one key. */
async function findKeyUuid(database: Database, { text, now }: { readonly text: string; readonly now: Date }) {
  const uuid = parseId("key", text);
  if (uuid !== undefined) return uuid;
  const search = { text, accountUuids: [], licenseUuids: [], isTooWide: false };
  const [only, other] = await listKeys(database, { now, filter: { search, limit: 2 } });
  if (only && !other) return parseId("key", only.id) ?? "";
  const found = only ? "several keys match" : "no key matches";
  return refuse("INVALID_REQUEST", `Nothing is shown: key must name one key, and ${found}`);
}

/** Finds the actor that a text names. A name without a kind must be that of one actor in the log. */
async function findActor(database: Database, text: string): Promise<string | Refusal> {
  const actors = actorsOf(text);
  if (actors.length === 1) return text;
  const rows = await Promise.all(actors.map((actor) => listAudit(database, { actor, limit: 1 })));
  const found = rows.flat().map(({ actor }) => actor);
  if (found[0] !== undefined && found.length === 1) return found[0];
  const expected = found.length === 0 ? ACTOR_TEXT.expects : `one of ${found.join(", ")}`;
  return refuse("INVALID_REQUEST", `Nothing is shown: actor must be ${expected}`);
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
      <TextField {...field("actor")} label="Actor" hint="Such as olga, or operator:olga" />
      <Select {...field("action")} label="Action" choices={choicesOf(ACTIONS, wordsOf)} />
      <TextField {...field("key")} label="Key" hint="Its id, or its last four as …6442" />
      <TextField {...field("since")} label="From" hint="A day such as 2026-11-20" />
      <TextField {...field("until")} label="To" hint="This day is included, UTC" />
    </>
  );
}

function Who({ actor, address }: AuditRow) {
  const how = [actor, address && `from ${address}`].filter((part) => part !== null);
  return (
    <>
      <a class="thing" href={toAddress(PATH, { actor })}>
        <Foreign text={describeActor(actor)} />
      </a>
      <small>
        <Foreign text={how.join(", ")} />
      </small>
    </>
  );
}

function What({ imported = 0, ...row }: Row) {
  if (imported < 2) return <Deed {...row} />;
  const address = { action: row.action, after: row.position.replace(/\.0$/, LAST) };
  const keys = counted(imported, "key", { most: MOST_COUNTED });
  return (
    <div class="thing">
      imported <a href={toAddress(PATH, address)}>{keys}</a>
      <code class="more">{row.action}</code>
    </div>
  );
}

function toCells(row: Row) {
  const { before, after, ...cells } = renderAuditRow(row);
  const toText = (values: unknown) => (values === null ? "" : JSON.stringify(values));
  return { ...cells, before: toText(before), after: toText(after) };
}
