/** What the tests of notices share. */
import type { Database } from "../../src/database/mod.ts";
import {
  listNotices,
  makeNotices,
  type NoticeFilter,
  type NoticeSettings,
  type NoticeSummary,
} from "../../src/notices/mod.ts";

export const SETTINGS: NoticeSettings = { days: [30, 7, 1], shares: [80, 100], refusalsAnHour: 100 };

/** Runs the task once, at an instant. */
export async function makeAt(
  database: Database,
  at: string | Date,
  settings: Partial<NoticeSettings> = {},
): Promise<void> {
  const now = new Date(at);
  const clock = { now: () => now, nowMs: () => now.getTime(), monotonicMs: () => 0 };
  await makeNotices({ database, clock, isStopping: () => false }, { ...SETTINGS, ...settings });
}

/** Lists the notices, by default those that are open at an instant. */
export function notices(
  database: Database,
  at: string | Date,
  filter: NoticeFilter = { state: "open" },
): Promise<NoticeSummary[]> {
  return listNotices(database, { now: new Date(at), filter });
}

/** Returns each notice as its kind, its stage and its state, such as `license_end -7 open`. */
export async function shown(
  database: Database,
  at: string | Date,
  filter: NoticeFilter = {},
): Promise<string[]> {
  const found = await notices(database, at, filter);
  return found.map(({ kind, stage, state }) => `${kind} ${stage} ${state}`);
}

/** Returns what the audit log says of notices: the action, and the stage or the state, in order. */
export async function audited(database: Database): Promise<string[]> {
  const rows = await database.query<{ said: string }>(
    (sql) => sql`
      select concat_ws(' ', action, after->>'kind', coalesce(after->>'days', after->>'percent'), after->>'withdrawn_for') as said
        from audit where action like 'notice.%' order by id`,
  );
  return rows.map(({ said }) => said);
}
