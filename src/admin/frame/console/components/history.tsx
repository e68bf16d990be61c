/** @jsxImportSource hono/jsx */
import { type AuditFilter, type AuditRow, describeActor, listAudit, wordsOf } from "../../../../audit/mod.ts";
import { parseId } from "../../../../base/ids.ts";
import type { Database } from "../../../../database/mod.ts";
import { findHints } from "../../../../licensing/keys/mod.ts";
import { findEmails } from "../../../../licensing/mod.ts";
import { Changes, REASON_COLUMN } from "./changes.tsx";
import { Table } from "./table.tsx";
import { AccountLink, Ago, Foreign, KeyLink, Name } from "./values.tsx";

/** The most rows that a page shows. */
const HISTORY_ROWS = 20;

/** Reads the newest changes of a thing. */
export async function readHistory(database: Database, of: AuditFilter) {
  return await nameThings(database, await listAudit(database, { ...of, limit: HISTORY_ROWS }));
}

interface HistoryProps {
  /** The newest {@linkcode HISTORY_ROWS} rows of the audit log, newest first. */
  readonly rows: readonly (AuditRow & NamedThings)[];
  readonly now: Date;
  /** The conditions under which the audit log has all rows, such as `account=usr_…`. */
  readonly query: string;
}

/** The history of a thing: who changed it, how and why. */
export function History({ rows, now, query }: HistoryProps) {
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      <Table
        caption={
          rows.length === HISTORY_ROWS ? `The newest ${HISTORY_ROWS} changes` : "All changes, newest first"
        }
        columns={[
          { label: "When", cell: ({ at }) => <Ago at={at} now={now} /> },
          { label: "By", cell: ({ actor }) => <Foreign text={describeActor(actor)} /> },
          { label: "What", cell: Deed },
          { label: "Values", cell: Changes },
          REASON_COLUMN,
        ]}
        rows={rows}
      />
      <nav class="pages" aria-label="Audit log">
        <a href={`/console/audit?${query}`}>Show the changes in the audit log</a>
      </nav>
    </section>
  );
}

/** What people call the things that a row of the audit log concerns. */
export interface NamedThings {
  /** Undefined for a row without an account, and for an erased account. */
  readonly email: string | undefined;
  readonly hint: string | undefined;
}

/** Adds to rows of the audit log what people call their things. */
export async function nameThings<Row extends AuditRow>(
  database: Database,
  rows: readonly Row[],
): Promise<(Row & NamedThings)[]> {
  const uuidsOf = (kind: "usr" | "key", idOf: (row: Row) => string | null) => [
    ...new Set(rows.flatMap((row) => parseId(kind, idOf(row) ?? "") ?? [])),
  ];
  const accounts = uuidsOf("usr", ({ userId }) => userId);
  const keys = uuidsOf("key", ({ keyId }) => keyId);
  const [emails, hints] = await Promise.all([findEmails(database, accounts), findHints(database, keys)]);
  return rows.map((row) => ({
    ...row,
    email: emails.get(row.userId ?? ""),
    hint: hints.get(row.keyId ?? ""),
  }));
}

/** Says what was done, in words: `revoked the key …6442 of ada@example.org`. The code of the action stands below. */
export function Deed({ action, keyId, userId, email, hint, before, after }: AuditRow & NamedThings) {
  const { operator, token, name, version, signing_key } = { ...Object(before), ...Object(after) };
  const thing = [operator ?? token ?? name ?? signing_key, version].filter(
    (part) => typeof part === "string",
  );
  // The last four characters of the key; the whole hint of a key of which they are not known.
  const key = hint?.replace(/^.*…(?=[0-9a-f]{4}$)/, "…") ?? `id …${keyId?.slice(-6)}`;
  const isOfAccount = action.startsWith("account.");
  return (
    <div class="thing">
      {wordsOf(action)} {keyId && <KeyLink id={keyId} text={key} />}
      {!keyId && !isOfAccount && <Name text={thing.join(" ")} />}
      {userId && (isOfAccount ? " " : " of ")}
      {userId && <AccountLink id={userId} email={email ?? `…${userId.slice(-6)}`} />}
      <code class="more">{action}</code>
    </div>
  );
}
