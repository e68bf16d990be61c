import type { Sql } from "../../database/mod.ts";

/**
 * Gives every seat that had not ended at the time of the backup a whole term from now, because no heartbeat reached the
 * database since. Without the root secret nobody can name a machine any more: then each is released, and only the licenses
 * that were signed for it keep its place taken. For a transaction of its caller.
 */
export async function restoreMachines(
  sql: Sql,
  { isSecretLost, madeAt }: { readonly isSecretLost: boolean; readonly madeAt: string },
): Promise<void> {
  if (isSecretLost) {
    await sql`
      update machines
         set active_until = '-infinity', ended_at = case when signed_until <= clock_timestamp() then clock_timestamp() end
       where ended_at is null`;
    return;
  }
  await sql`
    update machines m set active_until = clock_timestamp() + make_interval(mins => l.seat_minutes)
      from licenses l
     where l.id = m.license_id and m.ended_at is null and isfinite(m.active_until)
       and m.active_until > ${madeAt}::timestamptz`;
}
