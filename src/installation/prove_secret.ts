import { opensCanary, type Secrets, sealCanary } from "../base/secrets/mod.ts";
import type { Database } from "../database/mod.ts";

/** Tells whether the database was already sealed with a secret. If so, only that secret can be used. */
export async function isSealed(database: Database): Promise<boolean> {
  const rows = await database.query((sql) => sql`select from secret_canary`);
  return rows.length > 0;
}

/**
 * Proves that the root secret is the one that sealed this database. A database without a canary gets one; an
 * existing canary must open. Returns the sentence of the refusal; undefined if the secret is right.
 */
export async function proveSecret(
  database: Database,
  secrets: Secrets,
  now: Date,
): Promise<string | undefined> {
  const [row] = await database.query<{ sealed: string }>(
    (sql) => sql`
      insert into secret_canary as c (sealed, created_at)
      values (${sealCanary(secrets)}, ${now}::timestamptz)
      on conflict (only_row) do update set sealed = c.sealed
      returning sealed`,
  );
  return row !== undefined && opensCanary(secrets, row.sealed)
    ? undefined
    : "Cannot use this secret: the database was sealed with another one; give the secret of the first start " +
        "in CLAVIGER_SECRET or CLAVIGER_SECRET_FILE, or put the file `secret` back into the data folder";
}
