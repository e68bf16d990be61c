/** What rows of the audit log about notices say to people: the log has only ids and values. */
import type { AuditRow } from "../audit/mod.ts";
import { parseId } from "../base/ids.ts";
import type { Database } from "../database/mod.ts";
import { describeNotice, tellNotice } from "./describe_notice.ts";
import { WITHDRAWN_WORDS, type WithdrawnFor } from "./kinds.ts";
import { listNotices } from "./list_notices.ts";
import type { NoticeSummary } from "./notice.ts";

const WITHDRAWN = "notice.withdraw";
const SAID: ReadonlySet<string> = new Set([
  "notice.make",
  WITHDRAWN,
  "notice.done",
  "notice.remind",
  "notice.due",
]);

/** Adds to each row about a notice what the notice says now as `says`. Other rows stay as they are. */
export async function sayRows<Row extends AuditRow>(
  database: Database,
  rows: readonly Row[],
  now: Date,
): Promise<readonly (Row & { readonly says?: string })[]> {
  const uuids = rows.flatMap((row) => noticeOf(row) ?? []);
  if (uuids.length === 0) return rows;
  const notices = await listNotices(database, { now, filter: { uuids } });
  const found = new Map(notices.map((notice) => [parseId("ntc", notice.id), notice]));
  return rows.map((row) => {
    const notice = found.get(noticeOf(row));
    return notice === undefined ? row : { ...row, says: say(row, notice) };
  });
}

function noticeOf({ action, after }: AuditRow): string | undefined {
  const id = SAID.has(action) ? after?.notice : undefined;
  return typeof id === "string" ? parseId("ntc", id) : undefined;
}

/** Returns the sentence of a row. What is not true any more has no advice. */
function say({ action, after }: AuditRow, notice: NoticeSummary): string {
  if (action !== WITHDRAWN) return describeNotice(notice);
  const why = WITHDRAWN_WORDS[after?.withdrawn_for as WithdrawnFor] ?? "it was put right";
  return `No longer true, because ${why}: ${tellNotice(notice)}`;
}
