/**
 * Remembers when the last backup of this database was taken, so that a missing backup is noticed, and when the backups before it
 * were, because a backup can make the service slow. A restored database has no backup yet.
 */
import type { Database, Sql } from "../../database/mod.ts";

export interface LastBackup {
  /** The time of its snapshot; null if none was taken. */
  readonly takenAt: Date | null;
  /** The time of the snapshot of the last one that was read back; null if none was. */
  readonly verifiedAt: Date | null;
  /** How many model files the last one that should have had them could not save; null if there was no such backup. */
  readonly missingModels: number | null;
  /** The time of the last one, otherwise the time of the first start or the restore that made this database. */
  readonly since: Date;
  /** `overdueHours` after `since`. */
  readonly dueAt: Date;
  /** Whether the next one is overdue, also if `since` is an hour or more ahead: then a wrong clock wrote it. */
  readonly isOverdue: boolean;
}

/** Finds what is known of the last backup. The alert rule ClavigerBackupOverdue is the same rule. */
export async function findLastBackup(
  database: Pick<Database, "read">,
  { now, overdueHours }: { readonly now: Date; readonly overdueHours: number },
): Promise<LastBackup> {
  const [row] = await database.read<LastBackup>(
    (sql) => sql`
      select *, ${now}::timestamptz not between since - interval '1 hour' and "dueAt" as "isOverdue"
        from (select taken_at as "takenAt", verified_at as "verifiedAt",
                     missing_models as "missingModels",
                     coalesce(taken_at, (select min(applied_at) from schema_migrations)) as since
                from (select) as always left join last_backup on true) as last,
             lateral (select since + ${overdueHours}::integer * interval '1 hour' as "dueAt") as next`,
  );
  if (row === undefined) throw new Error("The statement returns one row");
  return row;
}

/** The most times of backups that are kept. */
export const MOST_TAKEN = 100;

/** Lists when the backups of a span were taken, the earliest first; only the last {@linkcode MOST_TAKEN} are known. */
export async function listTakenAt(
  database: Pick<Database, "read">,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<readonly Date[]> {
  const rows = await database.read<{ at: Date }>(
    (sql) => sql`
      -- A program of an older version, or one that took the last backup before this table was there, noted only that one.
      select at from (select at from taken_backups union select taken_at from last_backup) as taken
       where at >= ${from}::timestamptz and at < ${to}::timestamptz
       order by at`,
  );
  return rows.map(({ at }) => at);
}

interface TakenBackup {
  readonly takenAt: Date;
  readonly isVerified: boolean;
  /** How many model files it should have and does not; null if it was taken of the tables alone. */
  readonly missingModels: number | null;
}

/** Notes a backup. An earlier time replaces later ones, which a wrong clock wrote. */
export async function noteBackup(
  sql: Sql,
  { takenAt, isVerified, missingModels }: TakenBackup,
): Promise<undefined> {
  await sql`
    insert into last_backup as last (taken_at, verified_at, missing_models)
    values (${takenAt}::timestamptz, case when ${isVerified}::boolean then ${takenAt}::timestamptz end,
            ${missingModels}::bigint)
    on conflict (is_only) do update
      set taken_at = excluded.taken_at, verified_at = coalesce(excluded.verified_at, last.verified_at),
          missing_models = coalesce(excluded.missing_models, last.missing_models)`;
  await sql`insert into taken_backups (at) values (${takenAt}::timestamptz) on conflict do nothing`;
  await sql`
    delete from taken_backups
     where at > ${takenAt}::timestamptz + interval '1 hour'
        or at in (select at from taken_backups order by at desc offset ${MOST_TAKEN}::integer)`;
}
