import type { Database } from "../database/mod.ts";
import { toId } from "../ids.ts";

export interface AuditFilter {
  /** The number of rows, newest first; 100 by default. */
  readonly limit?: number;
  readonly keyUuid?: string;
  readonly accountUuid?: string;
  /** Only rows at or after this instant. */
  readonly since?: Date;
  /** Only rows before this instant. */
  readonly until?: Date;
}

export interface AuditRow {
  readonly at: Date;
  readonly actor: string;
  readonly action: string;
  readonly userId: string | null;
  readonly licenseId: string | null;
  readonly keyId: string | null;
  readonly before: unknown;
  readonly after: unknown;
  readonly reason: string | null;
}

/** Lists the rows of the audit log, newest first. */
export async function listAudit(database: Database, filter: AuditFilter = {}): Promise<AuditRow[]> {
  const rows = await database.query<AuditRow>(
    (sql) => sql`
      select at, actor, action, account_id as "userId", license_id as "licenseId", key_id as "keyId",
             before, after, reason
        from audit
       where (${filter.keyUuid ?? null}::uuid is null or key_id = ${filter.keyUuid ?? null}::uuid)
         and (${filter.accountUuid ?? null}::uuid is null or account_id = ${filter.accountUuid ?? null}::uuid)
         and (${filter.since ?? null}::timestamptz is null or at >= ${filter.since ?? null}::timestamptz)
         and (${filter.until ?? null}::timestamptz is null or at < ${filter.until ?? null}::timestamptz)
       order by id desc
       limit ${filter.limit ?? 100}`,
  );
  return rows.map((row) => ({
    ...row,
    userId: row.userId && toId("usr", row.userId),
    licenseId: row.licenseId && toId("lic", row.licenseId),
    keyId: row.keyId && toId("key", row.keyId),
  }));
}
