/**
 * Removes the texts of the events of erased accounts: messages of errors, metadata, and names of models that are not in
 * the registry. The function `sweep_erased` of the database does it, some pages at a time; any process goes on where
 * another one stopped.
 */
import type { Database } from "../database/mod.ts";
import type { TaskContext } from "../database/upkeep/mod.ts";
import { FIRST_PAGES, nextPages, rest } from "./_sweep.ts";

/** Goes on until the texts are removed, or the service stops. */
export async function eraseTexts({
  database,
  clock,
  isStopping,
}: Pick<TaskContext, "database" | "clock" | "isStopping">): Promise<void> {
  for (let pages = FIRST_PAGES; !isStopping(); ) {
    const beganMs = clock.monotonicMs();
    const [row] = await database.query<{ goesOn: boolean }>(
      (sql) => sql`select sweep_erased(${pages}::integer) as "goesOn"`,
    );
    if (!row?.goesOn) return;
    const tookMs = clock.monotonicMs() - beganMs;
    pages = nextPages(pages, tookMs);
    await rest(tookMs);
  }
}

/** Returns the month whose events are being read now, such as `2026-05`; undefined if none is. */
export async function findErasedMonth(database: Database): Promise<string | undefined> {
  const [row] = await database.read<{ month: string | null }>(
    (sql) =>
      sql`select replace(substring(place from '[0-9]{4}_[0-9]{2}$'), '_', '-') as month from erasure_sweep`,
  );
  return row?.month ?? undefined;
}
