/** What operators do with a notice: they mark it as done, or put it off until a day. */
import { auditCte, type By, nameOfActor } from "../audit/mod.ts";
import { DAY, DAY_MS, parseTimestamp } from "../base/calendar.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import type { Rule } from "../base/rule.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { auditColumns } from "./_audit_columns.ts";
import { STATE_MEANINGS } from "./kinds.ts";
import { refuseUnknownNotice } from "./list_notices.ts";

/** For how many days a notice can be put off. */
export const MOST_DAYS_OFF = 365;

/** The rule for the day until which a notice is put off: its first second, UTC. */
export const REMIND_DAY: Rule<Date> = {
  expects: "a day such as 2027-01-31",
  keywords: {
    format: "date",
    description: "The notice is among the open ones again from the beginning of this day, UTC",
    examples: ["2027-01-31"],
  },
  parse: (text) => (DAY.parse(text) === undefined ? undefined : parseTimestamp(text)),
};

interface ChangedNotice {
  /** False if the notice was so already. */
  readonly isChanged: boolean;
}

/** Marks a notice as done. Refuses a notice that was withdrawn or replaced. */
export function markDone(
  database: Database,
  uuid: string,
  { actor, now }: By,
): Promise<ChangedNotice | Refusal> {
  return changeNotice(database, uuid, {
    what: "mark notice as done",
    action: "notice.done",
    by: { actor, now },
    isSame: (sql) => sql`state = 'done'`,
    changes: (sql) => sql`
      state = 'done', closed_at = ${now}::timestamptz, closed_by = ${nameOfActor(actor)}::text, remind_at = null`,
    isAllowed: (sql) => sql`state in ('open', 'done')`,
    before: (sql) => sql`jsonb_build_object('state', 'open')`,
    more: (sql) => sql`'{}'::jsonb`,
  });
}

/**
 * Puts a notice off: until `remindAt` it is not among the open ones, and then it is there again. Refuses a time that has passed or
 * lies more than {@linkcode MOST_DAYS_OFF} days ahead, and a notice that is not open.
 */
export async function remindLater(
  database: Database,
  uuid: string,
  { remindAt, actor, now }: By & { readonly remindAt: Date },
): Promise<ChangedNotice | Refusal> {
  const what = "put off notice";
  const wrong =
    remindAt <= now
      ? "the day must lie ahead"
      : remindAt.getTime() - now.getTime() > MOST_DAYS_OFF * DAY_MS
        ? `the day must lie at most ${MOST_DAYS_OFF} days ahead`
        : undefined;
  if (wrong !== undefined)
    return refuse("INVALID_REQUEST", `Cannot ${what}: ${wrong}`, { fields: [{ field: "on", error: wrong }] });
  return await changeNotice(database, uuid, {
    what,
    action: "notice.remind",
    by: { actor, now },
    isSame: (sql) => sql`remind_at = ${remindAt}::timestamptz`,
    changes: (sql) => sql`remind_at = ${remindAt}::timestamptz`,
    isAllowed: (sql) => sql`state = 'open'`,
    before: (sql) => sql`jsonb_build_object('remind_at', remind_at)`,
    more: (sql) => sql`jsonb_build_object('remind_at', ${remindAt}::timestamptz)`,
  });
}

interface Change {
  readonly what: string;
  readonly action: "notice.done" | "notice.remind";
  readonly by: By;
  /** Whether the notice is so already. */
  readonly isSame: (sql: Sql) => Fragment;
  readonly isAllowed: (sql: Sql) => Fragment;
  readonly changes: (sql: Sql) => Fragment;
  /** The value before the change, of the row before it. */
  readonly before: (sql: Sql) => Fragment;
  /** What the row of the audit log has besides. */
  readonly more: (sql: Sql) => Fragment;
}

async function changeNotice(
  database: Database,
  uuid: string,
  { what, action, by: { actor, now }, isSame, isAllowed, changes, before, more }: Change,
): Promise<ChangedNotice | Refusal> {
  const [row] = await database.query<{
    state: keyof typeof STATE_MEANINGS;
    isAllowed: boolean;
    isChanged: boolean;
  }>(
    (sql) => sql`
      with held as materialized (
        select id, state, ${isAllowed(sql)} as is_allowed, coalesce(${isSame(sql)}, false) as is_same, ${before(sql)} as before
          from notices where id = ${uuid}::uuid for update
      ),
      changed as (
        update notices n set ${changes(sql)}
          from held where n.id = held.id and is_allowed and not is_same
        returning n.*, held.before
      ),
      noted as (
        ${auditCte(sql, {
          action,
          actor,
          at: now,
          from: sql`
            (select before, account_id, license_id, key_id, after || ${more(sql)} as after
               from (select changed.before, ${auditColumns(sql, sql`changed`)} from changed) as rows) as changed`,
        })}
      )
      select state, is_allowed as "isAllowed", exists (select from changed) as "isChanged" from held`,
  );
  if (row === undefined) return refuseUnknownNotice(what, uuid);
  if (row.isAllowed) return { isChanged: row.isChanged };
  return refuse("CONFLICT", `Cannot ${what}: it is ${row.state} (${STATE_MEANINGS[row.state]})`);
}
