/** The audit log, for programs that follow it. */
import * as v from "valibot";
import {
  AUDIT_CONDITIONS,
  AUDIT_FIELDS,
  AUDIT_POSITION,
  followAudit,
  renderAuditRow,
} from "../../audit/mod.ts";
import { schemasOf } from "../../base/answer_fields.ts";
import { isRefusal } from "../../base/refusal.ts";
import { ACCOUNT_CONDITION, findAccountOfAudit } from "../../licensing/mod.ts";
import { parseCursor, renderCursor } from "../frame/api/cursor.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { PAGE_FIELDS, USUAL_ROWS } from "../frame/api/page.ts";
import { route, titled } from "../frame/api/route.ts";

/** The conditions of the API. The console reads key, actor and days in its own way. */
export const AUDIT_ENTRIES = conditionFields({ account: ACCOUNT_CONDITION, ...AUDIT_CONDITIONS });

const AUDIT_ROW = titled("AuditRow", schemasOf(AUDIT_FIELDS));

export const followAuditRoute = route("GET /audit", "audit:read", {
  id: "followAudit",
  summary: "Read the audit log, oldest rows first, and follow it",
  description:
    "Rows have the order in which their transactions began. No row is missed: a page ends before the oldest " +
    "transaction that still runs, so a long import delays the rows that were written after it began. `next` is never " +
    "null: a page with fewer rows than `limit` has the last rows for now, and its `next` gives later rows. Read " +
    "again after a pause.",
  query: v.strictObject({ ...AUDIT_ENTRIES, ...PAGE_FIELDS }),
  success: {
    schema: v.object({ data: v.array(AUDIT_ROW), next: v.string() }),
    description: "Rows, and the cursor from which to read on",
  },
  codes: ["NOT_FOUND", "CURSOR_EXPIRED"],
  async run({ database }, { query: { limit = USUAL_ROWS, after, ...filters }, now }) {
    const list = { name: "audit", filters, position: AUDIT_POSITION };
    const cursor = parseCursor(list, after, now);
    if (isRefusal(cursor)) return cursor;
    const { account: who, key: keyUuid, ...rest } = filters;
    const accountUuid = await findAccountOfAudit(database, who);
    if (isRefusal(accountUuid)) return accountUuid;
    const filter = { ...rest, keyUuid, accountUuid };
    const part = await followAudit(database, { filter, limit, after: cursor.position });
    if (isRefusal(part)) return part;
    const next = renderCursor(list, { at: cursor.at, position: part.position });
    return { data: part.rows.map(renderAuditRow), next };
  },
});
