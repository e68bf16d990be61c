import { auditCte, type By } from "../audit/mod.ts";
import {
  allowsRow,
  ERASED,
  isErased,
  isLiving,
  type KeyState,
  type LicenseChanges,
  REVOKED,
  type Restriction,
  UNRESTRICTED,
} from "../licensing/mod.ts";
import type { Refusal } from "../refusal.ts";
import { refuseKeyChange } from "./_refuse_key_change.ts";

interface Options extends By {
  readonly restriction?: Restriction | undefined;
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
export function suspendKey(
  changes: LicenseChanges,
  uuid: string,
  change: Options,
): Promise<ChangedKey | Refusal> {
  return changeState(changes, uuid, { ...change, ...SUSPEND });
}

/** Resumes a suspended key. Refuses a key in any other state: a revoked key stays revoked. */
export function resumeKey(
  changes: LicenseChanges,
  uuid: string,
  change: Options,
): Promise<ChangedKey | Refusal> {
  return changeState(changes, uuid, { ...change, ...RESUME });
}

async function changeState(
  changes: LicenseChanges,
  uuid: string,
  { verb, from, to, otherwise, actor, now, restriction = UNRESTRICTED }: Options & Transition,
): Promise<ChangedKey | Refusal> {
  const action = `key.${verb}` as const;
  const [row] = await changes.change<ChangedKey>(
    (sql) => sql`
      with old as (
        select k.id, k.license_id, l.account_id
          from keys k join licenses l on l.id = k.license_id
         where k.id = ${uuid}::uuid and k.state = ${from} and ${allowsRow(sql, restriction)}
           and ${to === "active" ? isLiving(sql, sql`l.account_id`) : sql`true`}
           for update of k for share of l
      ),
      changed as (
        update keys k set state = ${to}
          from old where k.id = old.id
        returning old.account_id, k.license_id, k.id as key_id,
                  jsonb_build_object('state', ${from}::text) as before,
                  jsonb_build_object('state', ${to}::text) as after
      ),
      logged as (${auditCte(sql, { action, actor, at: now, from: sql`changed` })})
      select license_id as "licenseUuid" from changed`,
  );
  if (row !== undefined) return row;
  return await refuseKeyChange(changes.database, uuid, {
    what: `${verb} key`,
    now,
    restriction,
    reasonOf({ state, email }) {
      if (state === "revoked") return REVOKED;
      if (to === "active" && isErased({ email })) return { why: ERASED };
      return state === from ? undefined : { why: otherwise };
    },
  });
}
