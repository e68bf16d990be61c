/** Mutes accounts and licenses, such as those of the vendor's own tests: no notices are made for them. */
import { auditCte, type By, nameOfActor } from "../audit/mod.ts";
import { newUuid, parseId, toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import type { Rule } from "../base/rule.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { newestKeyOf } from "../licensing/mod.ts";

/** One account or one license, by its UUID. */
export type Mutable = { readonly accountUuid: string } | { readonly licenseUuid: string };

/** The rule for the id of an account or of a license. */
export const MUTABLE: Rule<Mutable> = {
  expects: "the id of an account or of a license",
  keywords: {},
  parse(text) {
    const licenseUuid = parseId("lic", text);
    if (licenseUuid !== undefined) return { licenseUuid };
    const accountUuid = parseId("usr", text);
    return accountUuid === undefined ? undefined : { accountUuid };
  },
};

/** Who changes it, and the id of the notice on whose page that is, if it is one: the log then names it. */
interface MuteBy extends By {
  readonly notice?: string;
}

interface ChangedMute {
  /** False if it was so already. */
  readonly isChanged: boolean;
}

/** Mutes an account or a license: from now on no notice is made for it, and the upkeep withdraws its open ones. Refuses one that is not there. */
export async function mute(database: Database, of: Mutable, by: MuteBy): Promise<ChangedMute | Refusal> {
  return await change(database, of, {
    ...by,
    action: "notice.mute",
    statement: (sql, thing) => sql`
      insert into muted_notices (id, account_id, license_id, muted_at, muted_by)
      select ${newUuid()}::uuid, ${"accountUuid" in of ? sql`id, null::uuid` : sql`null::uuid, id`}, ${by.now}::timestamptz,
             ${nameOfActor(by.actor)}::text
        from ${thing}
      on conflict do nothing
      returning account_id, license_id`,
  });
}

/** Ends the mute of an account or a license: the next look makes the notices that are true. Refuses one that is not there. */
export async function unmute(database: Database, of: Mutable, by: By): Promise<ChangedMute | Refusal> {
  return await change(database, of, {
    ...by,
    action: "notice.unmute",
    statement: (sql, thing) => sql`
      delete from muted_notices o using ${thing}
       where ${"accountUuid" in of ? sql`o.account_id` : sql`o.license_id`} = thing.id
      returning o.account_id, o.license_id`,
  });
}

interface Change extends MuteBy {
  readonly action: "notice.mute" | "notice.unmute";
  /** Changes the row of the CTE `thing`, which has the `id`, and returns it. */
  readonly statement: (sql: Sql, thing: Fragment) => Fragment;
}

async function change(
  database: Database,
  of: Mutable,
  { action, statement, actor, now, notice }: Change,
): Promise<ChangedMute | Refusal> {
  const isAccount = "accountUuid" in of;
  const uuid = isAccount ? of.accountUuid : of.licenseUuid;
  const [row] = await database.query<{ isChanged: boolean }>(
    (sql) => sql`
      with thing as materialized (select id from ${sql(isAccount ? "accounts" : "licenses")} where id = ${uuid}::uuid),
      changed as (${statement(sql, sql`thing`)}),
      logged as (
        ${auditCte(sql, {
          action,
          actor,
          at: now,
          from: sql`
            (select coalesce(c.account_id, l.account_id) as account_id, c.license_id, ${newestKeyOf(sql)} as key_id,
                    jsonb_build_object('muted', ${action === "notice.unmute"}::boolean) as before,
                    jsonb_strip_nulls(jsonb_build_object('muted', ${action === "notice.mute"}::boolean,
                                                         'notice', ${notice ?? null}::text)) as after
               from changed c left join licenses l on l.id = c.license_id) as changed`,
        })}
      )
      select exists (select from changed) as "isChanged" from thing`,
  );
  if (row !== undefined) return row;
  const id = isAccount ? `account ${toId("usr", uuid)}` : `license ${toId("lic", uuid)}`;
  const what = action === "notice.mute" ? "mute" : "unmute";
  return refuse("NOT_FOUND", `Cannot ${what} notices: there is no ${id}`);
}
