/** What rows of the audit log about notices say to people: the log has only ids and values. */
import type { AuditRow } from "../audit/mod.ts";
import { parseId } from "../base/ids.ts";
import type { Database } from "../database/mod.ts";
import { describeNotice, tellNotice } from "./describe_notice.ts";
import { WITHDRAWN_WORDS, type WithdrawnFor } from "./kinds.ts";
import { listNotices } from "./list_notices.ts";
import { isOpenNotice, type NoticeSummary } from "./notice.ts";

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

/** Returns the sentence of a row. Only what still needs somebody has advice. */
function say({ action, after }: AuditRow, notice: NoticeSummary): string {
  const what = tellNotice(notice);
  switch (action) {
    case WITHDRAWN:
      return `Withdrawn, because ${whyOf(after?.withdrawn_for)}: ${what}`;
    case "notice.done":
      return `Marked as done: ${what}`;
    case "notice.remind":
      return `Put off until ${String(after?.remind_at).slice(0, 10)}: ${what}`;
    default:
      return `${action === "notice.due" ? "Reminder: " : ""}${isOpenNotice(notice) ? describeNotice(notice) : `${what} (${sinceThen(notice)})`}`;
  }
}

/** Says what has become of a notice since its row was written. */
function sinceThen({ state, withdrawnFor }: NoticeSummary): string {
  if (state === "done") return "marked as done since";
  return state === "replaced"
    ? "a nearer notice has come since"
    : `withdrawn since, because ${whyOf(withdrawnFor)}`;
}

function whyOf(withdrawnFor: unknown): string {
  return WITHDRAWN_WORDS[withdrawnFor as WithdrawnFor] ?? "it was put right";
}
