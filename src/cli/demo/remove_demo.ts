/** Removes the data of `serve --demo`. */

import type { By } from "../../audit/mod.ts";
import { systemClock } from "../../base/clock.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import type { Database } from "../../database/mod.ts";
import { deleteStart } from "../../database/processes/mod.ts";
import { deleteRefusalCounts, listKeys, revokeKey } from "../../licensing/keys/mod.ts";
import { createLicenseChanges, eraseAccount, findAccount, hasAccount } from "../../licensing/mod.ts";
import { listAllModels, retireVersion } from "../../models/mod.ts";
import { clearInstallerToken, createTokenSource } from "../../models/repository_token/mod.ts";
import { deleteActivityByReason } from "../../usage/activity/mod.ts";
import { deleteLatencyOf } from "../../usage/latency/mod.ts";
import { deleteUsage, restartCount } from "../../usage/mod.ts";
import { orRefuse } from "../run.ts";
import { DEMO_PROCESS, DEMO_REASON, DEMO_TOKEN } from "./add_demo.ts";
import models from "./models.json" with { type: "json" };
import { TABLES } from "./tables.ts";

/** The e-mails of a demo's accounts. Every demo has the last one, also that of an earlier version. */
const EMAILS = TABLES.customers.map(({ email = "" }) => email);

/** Tells whether the database has a demo. */
export function hasDemo(database: Database): Promise<boolean> {
  return hasAccount(database, EMAILS.at(-1) ?? "");
}

/**
 * Removes a demo: revokes its keys, deletes their use, their refusals and their latencies, erases its accounts (rows of keys are never
 * deleted), retires its models, and removes its token. A token or a version of a model that the operator added stays,
 * and so does the audit log. `token` tells whether the stored token was the demo's, and was removed.
 */
export async function removeDemo(
  database: Database,
  { secrets, ...by }: By & { readonly secrets: Secrets },
): Promise<{ readonly keys: number; readonly models: readonly string[]; readonly token: boolean }> {
  const tokens = createTokenSource({ database, secrets, clock: { ...systemClock, now: () => by.now } });
  const current = await tokens.current();
  const isDemoToken = !isRefusal(current) && current.token === DEMO_TOKEN;
  if (isDemoToken) orRefuse(await clearInstallerToken(database, by));
  const retired: string[] = [];
  const listed = new Map((await listAllModels(database)).map((model) => [model.name, model]));
  for (const { name, version } of models) {
    const model = listed.get(name);
    if (model === undefined || model.version !== version || model.owner !== null) continue;
    orRefuse(await retireVersion(database, { name, version }, by));
    retired.push(`${name} ${version}`);
  }
  return { keys: await removeAccounts(database, by), models: retired, token: isDemoToken };
}

/** Removes the accounts, and returns the number of keys that were not revoked yet. */
async function removeAccounts(database: Database, by: By): Promise<number> {
  const found = await Promise.all(EMAILS.map((email) => findAccount(database, { email })));
  const uuids = found.flatMap((account) => account?.uuid ?? []);
  const changes = createLicenseChanges(database);
  let keys = 0;
  for (const uuid of uuids) {
    for (const { id, state } of await listKeys(database, { now: by.now, filter: { accountUuid: uuid } })) {
      if (state === "revoked") continue;
      orRefuse(await revokeKey(changes, { uuid: parseId("key", id) ?? "" }, by));
      keys++;
    }
  }
  // Now no client can add to them.
  await deleteUsage(database, uuids);
  await deleteRefusalCounts(database, uuids);
  await deleteActivityByReason(database, DEMO_REASON);
  await deleteLatencyOf(database, DEMO_PROCESS);
  await deleteStart(database, DEMO_PROCESS);
  await restartCount(database);
  // The account that `hasDemo` looks for is erased last, so that an interrupted removal can be run again.
  for (const uuid of uuids) orRefuse(await eraseAccount(database, uuid, by));
  return keys;
}
