/** Makes keys in every state that the contract knows. */

import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { type IssuedKey, revokeKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges, type Tier } from "../../src/licensing/mod.ts";
import type { IssueOptions, TestService } from "./service.ts";

/** A key in the right form that no test issues. */
export const UNKNOWN_KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;

export type State = "active" | "expired" | "suspended" | "revoked";

/** Issues a key and brings it into a state. */
export async function issueIn(
  service: TestService,
  state: State,
  options: IssueOptions = {},
): Promise<IssuedKey> {
  const key = await service.issue(options);
  await bringInto(service, key, state);
  return key;
}

/** Brings a key into a state: expired by SQL, suspended and revoked by the change of an operator. */
export async function bringInto(service: TestService, key: IssuedKey, state: State): Promise<void> {
  if (state === "expired") await expire(service, key);
  if (state === "suspended" || state === "revoked") {
    const actor = { kind: "command", name: "test" } as const;
    const uuid = uuidOf(key);
    const by = { actor, now: service.clock.now() };
    const changed =
      state === "suspended"
        ? await suspendKey(createLicenseChanges(service.database), uuid, by)
        : await revokeKey(createLicenseChanges(service.database), { uuid }, by);
    if (isRefusal(changed)) throw new Error(changed.sentence);
  }
}

/** Sets the expiry of a key's license one second into the past, by SQL, because no operator may set such an expiry. */
export async function expire(service: TestService, { licenseUuid }: IssuedKey): Promise<void> {
  const at = new Date(service.clock.now().getTime() - 1_000);
  await service.database.query(
    (sql) => sql`update licenses set expires_at = ${at}::timestamptz where id = ${licenseUuid}::uuid`,
  );
}

/** Changes columns of a key's license by SQL. A service reads the change with its next pulse. */
export async function updateLicense(
  { database }: Pick<TestService, "database">,
  { licenseUuid }: Pick<IssuedKey, "licenseUuid">,
  columns: {
    readonly tier?: Tier;
    readonly monthly_limit?: number;
    readonly max_offline_days?: number | null;
  },
): Promise<void> {
  await database.query((sql) => sql`update licenses set ${sql(columns)} where id = ${licenseUuid}::uuid`);
}

/** Issues a key with a monthly limit and uses the limit up with one event. */
export async function issueUsedUp(service: TestService, options: IssueOptions = {}): Promise<IssuedKey> {
  const key = await service.issue({ ...options, monthlyLimit: 1 });
  const event = { api_key: key.apiKey, event_type: "inference" };
  const { status } = await service.post("/v1/analytics/log", event);
  if (status !== 202) throw new Error(`Cannot use up the month: ${status}`);
  return key;
}

/** Issues a second key for a key's license, as rotating does. */
export async function issueBeside(service: TestService, { licenseUuid }: IssuedKey): Promise<IssuedKey> {
  const key = await service.issue();
  await service.database.query(
    (sql) => sql`update keys set license_id = ${licenseUuid}::uuid where id = ${uuidOf(key)}::uuid`,
  );
  return { ...key, licenseUuid };
}

/** Returns the UUID of a key. */
export function uuidOf({ id }: Pick<IssuedKey, "id">): string {
  return parseId("key", id) ?? "";
}

/** Returns the UUID of a key's account. */
export function accountOf({ userId }: Pick<IssuedKey, "userId">): string {
  return parseId("usr", userId) ?? "";
}
