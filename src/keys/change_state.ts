import { type Actor, auditPart } from "../audit/mod.ts";
import type { Database } from "../database/mod.ts";
import { REVOKED } from "../licensing/mod.ts";
import type { Refusal } from "../refusal.ts";
import { refuseKeyChange } from "./_refuse_key_change.ts";

interface Change {
  readonly actor: Actor;
  readonly now: Date;
}

/** Suspends an active key: it answers `INVALID_KEY` until it is resumed. Refuses any other state. */
export async function suspendKey(
  database: Database,
  uuid: string,
  change: Change,
): Promise<{ readonly licenseUuid: string } | Refusal> {
  return (
    (await changeState(database, uuid, {
      ...change,
      from: "active",
      to: "suspended",
      action: "key.suspend",
    })) ??
    (await refuseKeyChange(database, uuid, {
      what: "suspend key",
      now: change.now,
      reasonOf: ({ state }) => {
        if (state === "revoked") return REVOKED;
        return state === "suspended" ? "it is suspended already" : undefined;
      },
    }))
  );
}

/** Resumes a suspended key. Refuses any other state: a revoked key stays revoked. */
export async function resumeKey(
  database: Database,
  uuid: string,
  change: Change,
): Promise<{ readonly licenseUuid: string } | Refusal> {
  return (
    (await changeState(database, uuid, {
      ...change,
      from: "suspended",
      to: "active",
      action: "key.resume",
    })) ??
    (await refuseKeyChange(database, uuid, {
      what: "resume key",
      now: change.now,
      reasonOf: ({ state }) => {
        if (state === "revoked") return REVOKED;
        return state === "suspended" ? undefined : "it is not suspended";
      },
    }))
  );
}

async function changeState(
  database: Database,
  uuid: string,
  {
    from,
    to,
    action,
    actor,
    now,
  }: Change & { readonly from: string; readonly to: string; readonly action: string },
): Promise<{ readonly licenseUuid: string } | undefined> {
  const [row] = await database.query<{ licenseUuid: string }>(
    (sql) => sql`
      with changed as (
        update keys k set state = ${to}
          from licenses l
         where l.id = k.license_id and k.id = ${uuid}::uuid and k.state = ${from}
        returning l.account_id, k.license_id, k.id as key_id,
                  jsonb_build_object('state', ${from}::text) as before,
                  jsonb_build_object('state', ${to}::text) as after
      ),
      logged as (${auditPart(sql, { action, actor, at: now, from: sql`changed` })})
      select license_id as "licenseUuid" from changed`,
  );
  return row;
}
