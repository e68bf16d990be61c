/**
 * The operator's own name for a license, such as an order number. It is unique in the installation and compared as bytes.
 */

import { toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import type { Database } from "../database/mod.ts";
import { allowsRow, type Restriction, UNRESTRICTED } from "./restriction.ts";

/** The constraint that refuses an external id that another license has. */
export const EXTERNAL_ID_UNIQUE = "external_id_unique";

/**
 * Returns the refusal for an external id that another license has, with the id of that license if the restriction allows
 * to see it. If no license has the external id, the refusal is `otherwise`.
 */
export async function refuseTakenExternalId(
  database: Database,
  what: string,
  { externalId, restriction = UNRESTRICTED, otherwise }: TakenExternalId,
): Promise<Refusal> {
  const [license] = await database.read<{ uuid: string; isShown: boolean }>(
    (sql) => sql`
      select l.id as uuid, exists (select from keys k where license_id = l.id and ${allowsRow(sql, restriction)}) as "isShown"
        from licenses l where external_id = ${externalId ?? null}::text`,
  );
  if (license === undefined && otherwise !== undefined) return otherwise;
  return refuse("ALREADY_EXISTS", `Cannot ${what}: another license has this external id`, {
    ...(license?.isShown && { id: toId("lic", license.uuid) }),
  });
}

interface TakenExternalId {
  readonly externalId: string | null | undefined;
  readonly restriction?: Restriction | undefined;
  readonly otherwise?: Refusal;
}
