import { type Actor, auditCte } from "../audit/mod.ts";
import type { Database } from "../database/mod.ts";
import { REVOKED } from "../licensing/mod.ts";
import type { Refusal } from "../refusal.ts";
import { refuseKeyChange } from "./_refuse_key_change.ts";
import type { KeyState } from "./key_record.ts";

interface Change {
  readonly actor: Actor;
  readonly now: Date;
}

interface ChangedKey {
  readonly licenseUuid: string;
}

interface Transition {
  readonly verb: "suspend" | "resume";
  readonly from: KeyState;
  readonly to: KeyState;
  /** Why a key that is neither revoked nor in the state `from` is refused. */
  readonly otherwise: string;
}

const SUSPEND: Transition = {
  verb: "suspend",
  from: "active",
  to: "suspended",
  otherwise: "it is suspended already",
};
const RESUME: Transition = {
  verb: "resume",
  from: "suspended",
  to: "active",
  otherwise: "it is not suspended",
};

/** Suspends an active key: requests with it get `INVALID_KEY` until it is resumed. Refuses a key in any other state. */
export function suspendKey(database: Database, uuid: string, change: Change): Promise<ChangedKey | Refusal> {
  return changeState(database, uuid, { ...change, ...SUSPEND });
}

/** Resumes a suspended key. Refuses a key in any other state: a revoked key stays revoked. */
export function resumeKey(database: Database, uuid: string, change: Change): Promise<ChangedKey | Refusal> {
  return changeState(database, uuid, { ...change, ...RESUME });
}

async function changeState(
  database: Database,
  uuid: string,
  { verb, from, to, otherwise, actor, now }: Change & Transition,
): Promise<ChangedKey | Refusal> {
  const action = `key.${verb}`;
  const [row] = await database.query<ChangedKey>(
    (sql) => sql`
      with changed as (
        update keys k set state = ${to}
          from licenses l
         where l.id = k.license_id and k.id = ${uuid}::uuid and k.state = ${from}
        returning l.account_id, k.license_id, k.id as key_id,
                  jsonb_build_object('state', ${from}::text) as before,
                  jsonb_build_object('state', ${to}::text) as after
      ),
      logged as (${auditCte(sql, { action, actor, at: now, from: sql`changed` })})
      select license_id as "licenseUuid" from changed`,
  );
  if (row !== undefined) return row;
  return await refuseKeyChange(database, uuid, {
    what: `${verb} key`,
    now,
    reasonOf({ state }) {
      if (state === "revoked") return REVOKED;
      return state === from ? undefined : otherwise;
    },
  });
}
