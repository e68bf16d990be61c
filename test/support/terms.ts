/** Licenses whose terms begin with their first use. */
import type { Database } from "../../src/database/mod.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";

const DAY_MS = 86_400_000;

type OfLicense = Pick<IssuedKey, "licenseUuid">;

/** Gives a license a term of some days that begins with its next use, or at the latest start. */
export async function giveTerm(
  database: Database,
  { licenseUuid }: OfLicense,
  { days, latestStart }: { readonly days: number; readonly latestStart: Date },
): Promise<void> {
  const expiresAt = new Date(latestStart.getTime() + days * DAY_MS);
  await database.query(
    (sql) => sql`
      update licenses set term_days = ${days}::integer, latest_start = ${latestStart}::timestamptz, started_at = null,
             expires_at = ${expiresAt}::timestamptz
       where id = ${licenseUuid}::uuid`,
  );
}

/** What the tables have about the term of a license. */
export interface StoredTerm {
  /** Null before the first use. */
  readonly startedAt: Date | null;
  readonly expiresAt: Date;
  /** How many rows of the audit log say that it started. */
  readonly starts: number;
}

export async function readTerm(database: Database, { licenseUuid }: OfLicense): Promise<StoredTerm> {
  const [row] = await database.query<StoredTerm>(
    (sql) => sql`
      select started_at as "startedAt", expires_at as "expiresAt",
             (select count(*) from audit where action = 'license.start' and license_id = l.id) as starts
        from licenses l where id = ${licenseUuid}::uuid`,
  );
  if (row === undefined) throw new Error("There is no such license");
  return { ...row, starts: Number(row.starts) };
}

/** Runs `work` while every start of a term fails, as when the disk of the database is full. */
export async function whileStartsFail(database: Database, work: () => Promise<void>): Promise<void> {
  await database.query((sql) =>
    sql.unsafe(`do $do$ begin
      create function fail_starts() returns trigger language plpgsql as
        'begin raise exception using errcode = ''53100''; end';
      create trigger fail_starts before update of started_at on licenses for each row execute function fail_starts();
    end $do$`),
  );
  try {
    await work();
  } finally {
    await database.query((sql) => sql`drop function fail_starts cascade`);
  }
}
