/** The accounts and licenses that are muted, as operators see them. */
import * as v from "valibot";
import { fieldsOf, identifier, renderFields, timestamp } from "../base/answer_fields.ts";
import { toTimestamp } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import type { Database } from "../database/mod.ts";

/** An account or a license that is muted. */
export interface Muted {
  readonly id: string;
  /** The account itself, or that of the license. */
  readonly userId: string;
  /** Null if the whole account is muted. */
  readonly licenseId: string | null;
  readonly email: string;
  readonly mutedAt: Date;
  /** As the audit log names the actor. */
  readonly mutedBy: string;
}

interface ListPart {
  /** Only the rows for which no notice is made about this license, or about the licenses of this account. */
  readonly about?: { readonly licenseUuid?: string; readonly accountUuid: string } | undefined;
  readonly afterUuid?: string | undefined;
  readonly limit?: number | undefined;
}

/** Lists what is muted, the first muted one first. `id` is the position in the list, a UUID. */
export async function listMuted(
  database: Database,
  { about, afterUuid, limit }: ListPart = {},
): Promise<Muted[]> {
  const rows = await database.read<
    Omit<Muted, "userId" | "licenseId"> & { accountUuid: string; licenseUuid: string | null }
  >(
    (sql) => sql`
      select o.id, a.id as "accountUuid", l.id as "licenseUuid", a.email, o.muted_at as "mutedAt", o.muted_by as "mutedBy"
        from muted_notices o
        left join licenses l on l.id = o.license_id
        join accounts a on a.id = coalesce(o.account_id, l.account_id)
       where ${about === undefined ? sql`true` : sql`(o.account_id = ${about.accountUuid}::uuid or o.license_id = ${about.licenseUuid ?? null}::uuid)`}
         and ${afterUuid === undefined ? sql`true` : sql`o.id > ${afterUuid}::uuid`}
       order by o.id limit ${limit ?? null}::bigint`,
  );
  return rows.map(({ accountUuid, licenseUuid, ...rest }) => ({
    ...rest,
    userId: toId("usr", accountUuid),
    licenseId: licenseUuid && toId("lic", licenseUuid),
  }));
}

const field = fieldsOf<Muted>();

export const MUTED_FIELDS = {
  user_id: field(identifier("usr"), ({ userId }) => userId),
  license_id: field(
    v.nullable(identifier("lic")),
    ({ licenseId }) => licenseId,
    "Null if the whole account is muted",
  ),
  email: field(v.string(), ({ email }) => email),
  muted_at: field(timestamp(), ({ mutedAt }) => toTimestamp(mutedAt)),
  muted_by: field(v.string(), ({ mutedBy }) => mutedBy),
} as const;

/** Renders what is muted as JSON, for `--json` of the command and for the API. */
export function renderMuted(muted: Muted) {
  return renderFields(MUTED_FIELDS, muted);
}
