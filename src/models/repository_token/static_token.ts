import { auditCte, type By } from "../../audit/mod.ts";
import { PAST_EXPIRY } from "../../base/calendar.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import type { Database } from "../../database/mod.ts";

/** The purpose for which the token is sealed: text that was sealed for another purpose does not open in its place. */
export const TOKEN_PURPOSE = "installer-token";

const MAX_LENGTH = 4_096;

/** Parses a token from standard input: one line of at most 4,096 printable ASCII characters without spaces. */
export function parseInstallerToken(text: string): string | Refusal {
  const token = text.replace(/\r?\n$/, "");
  if (token === "") return refuse("INVALID_REQUEST", "Cannot set token: standard input is empty");
  if (token.length > MAX_LENGTH || !/^[\x21-\x7e]+$/.test(token)) {
    return refuse(
      "INVALID_REQUEST",
      "Cannot set token: it must be one line of at most 4096 printable characters without spaces",
    );
  }
  return token;
}

/** Seals the token and stores it in place of the previous token. The audit log records the change without the token. */
export async function setInstallerToken(
  database: Database,
  token: { readonly token: string; readonly expiresAt: Date | null },
  { secrets, actor, now }: By & { readonly secrets: Secrets },
): Promise<Refusal | undefined> {
  const { expiresAt } = token;
  if (expiresAt !== null && expiresAt <= now) {
    return refuse("INVALID_REQUEST", `Cannot set token: ${PAST_EXPIRY}`);
  }
  await database.query(
    (sql) => sql`
      with changed as (
        insert into installer_token (sealed, expires_at, set_at)
        values (${secrets.seal(TOKEN_PURPOSE, token.token)}, ${expiresAt}::timestamptz, ${now}::timestamptz)
        on conflict (only_row) do update
          set sealed = excluded.sealed, expires_at = excluded.expires_at, set_at = excluded.set_at
        returning null::jsonb as before, jsonb_build_object('expires_at', expires_at) as after
      )
      ${auditCte(sql, { action: "installer.set_token", actor, at: now, from: sql`changed` })}`,
  );
  return undefined;
}

/** Removes the token; refuses if no token is set. */
export async function clearInstallerToken(
  database: Database,
  { actor, now }: By,
): Promise<Refusal | undefined> {
  const cleared = await database.query<{ only_row: boolean }>(
    (sql) => sql`
      with old as (delete from installer_token returning only_row, expires_at),
      changed as (
        select jsonb_build_object('expires_at', expires_at) as before, null::jsonb as after
          from old
      ),
      logged as (${auditCte(sql, { action: "installer.clear_token", actor, at: now, from: sql`changed` })})
      select only_row from old`,
  );
  return cleared.length === 0 ? refuse("NOT_FOUND", "Cannot clear token: no token is set") : undefined;
}
