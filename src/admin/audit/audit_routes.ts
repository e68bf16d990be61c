/** The audit log, for programs that follow it. */
import * as v from "valibot";
import {
  AUDIT_CONDITIONS,
  AUDIT_FIELDS,
  AUDIT_POSITION,
  followAudit,
  isHeld,
  renderAuditRow,
} from "../../audit/mod.ts";
import { described, schemasOf } from "../../base/answer_fields.ts";
import { isRefusal, refuse } from "../../base/refusal.ts";
import { parsedField, wholeNumber } from "../../base/rule.ts";
import { ACCOUNT_CONDITION, findAccountOfAudit } from "../../licensing/mod.ts";
import { sayRows } from "../../notices/mod.ts";
import { TOO_MANY_AT_ONCE } from "../frame/api/authenticate.ts";
import { parseCursor, renderCursor } from "../frame/api/cursor.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { PAGE_FIELDS, USUAL_ROWS } from "../frame/api/page.ts";
import { route, titled } from "../frame/api/route.ts";

/** The conditions of the API. The console reads key, actor and days in its own way. */
export const AUDIT_ENTRIES = conditionFields({ account: ACCOUNT_CONDITION, ...AUDIT_CONDITIONS });

const AUDIT_ROW = titled("AuditRow", {
  ...schemasOf(AUDIT_FIELDS),
  says: v.optional(described(v.string(), "Of a row about a notice: the sentence of the notice as it is now")),
});

/** Some proxies, and this listener, end a connection after 30 seconds without an answer. */
const MAX_WAIT_SECONDS = 20;

export const followAuditRoute = route("GET /audit", "audit:read", {
  id: "followAudit",
  summary: "Read the audit log, oldest rows first, and follow it",
  description:
    "Rows have the order in which their transactions began. No row is missed: a page ends before the oldest " +
    "transaction that still runs, so a long import delays the rows that were written after it began. `next` is never " +
    "null: a page with fewer rows than `limit` has the last rows for now, and its `next` gives later rows. With `wait` " +
    "the answer comes with the next row, at most a second after it. Without `wait`, and after a page without rows, read " +
    "again after a pause of a second: if many readers wait, the others are answered at once.",
  query: v.strictObject({
    ...AUDIT_ENTRIES,
    ...PAGE_FIELDS,
    wait: v.optional(
      parsedField(wholeNumber(0, MAX_WAIT_SECONDS), {
        default: 0,
        description: "If there are no rows, waits so many seconds for the next one",
      }),
    ),
  }),
  success: {
    schema: v.object({ data: v.array(AUDIT_ROW), next: v.string() }),
    description: "Rows, and the cursor from which to read on",
  },
  codes: ["NOT_FOUND", "CURSOR_EXPIRED"],
  async run({ auditWaits, clock, database }, { query, now, pauseTurn, request, right, token }) {
    const { limit = USUAL_ROWS, after, wait = 0, ...filters } = query;
    const list = { name: "audit", filters, position: AUDIT_POSITION };
    const cursor = parseCursor(list, after, now);
    if (isRefusal(cursor)) return cursor;
    const { account: who, key: keyUuid, ...rest } = filters;
    const accountUuid = await findAccountOfAudit(database, who);
    if (isRefusal(accountUuid)) return accountUuid;
    const filter = { ...rest, keyUuid, accountUuid };
    const read = (after: string | undefined) => followAudit(database, { filter, limit, after });
    let part = await read(cursor.position);
    const endMs = clock.monotonicMs() + wait * 1_000;
    for (let hasNews = true; hasNews && !isRefusal(part) && part.rows.length === 0; ) {
      const waitMs = endMs - clock.monotonicMs();
      if (waitMs <= 0) break;
      const { signal } = request;
      const waiting = { filter, after: part.position, waitMs, sender: token.uuid, signal };
      const isBack = await pauseTurn(async () => {
        hasNews = await auditWaits.wait(waiting);
      });
      if (!isBack) return TOO_MANY_AT_ONCE;
      // Nobody reads this answer.
      if (signal.aborted) break;
      if (!(await isHeld(database, right, clock.now())))
        return refuse(right.lost.code, `Cannot show rows: ${right.lost.why}`);
      part = await read(part.position);
    }
    if (isRefusal(part)) return part;
    const next = renderCursor(list, { at: cursor.at, position: part.position });
    const rows = await sayRows(database, part.rows, now);
    return {
      data: rows.map(({ says, ...row }) => ({ ...renderAuditRow(row), ...(says && { says }) })),
      next,
    };
  },
});
