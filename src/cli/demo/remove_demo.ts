/** Removes the data of `serve --demo`. */
import { deleteActivity } from "../../activity/mod.ts";
import type { Actor } from "../../audit/mod.ts";
import { systemClock } from "../../clock.ts";
import type { Config } from "../../config/mod.ts";
import type { Database } from "../../database/mod.ts";
import { parseId } from "../../ids.ts";
import { deleteRefusals, listKeys, revokeKey } from "../../keys/mod.ts";
import { createLicenseChanges, eraseAccount, findAccount, hasAccount } from "../../licensing/mod.ts";
import { listAllModels, retireVersion } from "../../models/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { clearInstallerToken, createTokenSource } from "../../repository_token/mod.ts";
import type { Secrets } from "../../secrets/mod.ts";
import { deleteUsage, restartCount } from "../../usage/mod.ts";
import { orRefuse } from "../run.ts";
import { DEMO_REASON, DEMO_TOKEN } from "./add_demo.ts";
import { toDemoEmail } from "./keys.ts";
import { makeDemoModels } from "./models.ts";
import { TABLES } from "./tables.ts";

interface By {
  readonly actor: Actor;
  readonly now: Date;
}

export interface RemovedDemo {
  readonly keys: number;
  readonly models: readonly string[];
  /** Whether the stored token was the demo's, and was removed. */
  readonly token: boolean;
}

/** An account that every demo has, also that of an earlier version. */
const MARK = toDemoEmail("research");

/** Tells whether the database has a demo. */
export function hasDemo(database: Database): Promise<boolean> {
  return hasAccount(database, MARK);
}

/**
 * Removes a demo: revokes its keys, deletes their use and their refusals, erases its accounts (rows of keys are never
 * deleted), retires its models, and removes its token. A token or a version of a model that the operator added stays,
 * and so does the audit log.
 */
export async function removeDemo(
  database: Database,
  { config, secrets, ...by }: By & { readonly config: Config; readonly secrets: Secrets },
): Promise<RemovedDemo> {
  const tokens = createTokenSource({ database, secrets, clock: { ...systemClock, now: () => by.now } });
  const current = await tokens.current();
  const isDemoToken = !isRefusal(current) && current.token === DEMO_TOKEN;
  if (isDemoToken) orRefuse(await clearInstallerToken(database, by));
  const models: string[] = [];
  const listed = new Map((await listAllModels(database)).map((model) => [model.name, model]));
  for (const { fields } of makeDemoModels(config.brand)) {
    const model = listed.get(fields.name);
    if (model === undefined || model.version !== fields.version || model.owner !== null) continue;
    orRefuse(await retireVersion(database, fields, by));
    models.push(`${fields.name} ${fields.version}`);
  }
  return { keys: await removeAccounts(database, by), models, token: isDemoToken };
}

/** Removes the accounts, and returns the number of keys that were not revoked yet. */
async function removeAccounts(database: Database, by: By): Promise<number> {
  const emails = TABLES.customers.map(({ name = "" }) => toDemoEmail(name));
  const found = await Promise.all(emails.map((email) => findAccount(database, { email })));
  const accounts = found.filter((account) => account !== undefined);
  const changes = createLicenseChanges(database);
  let keys = 0;
  for (const { uuid } of accounts) {
    for (const { id, state } of await listKeys(database, { now: by.now, filter: { accountUuid: uuid } })) {
      if (state === "revoked") continue;
      orRefuse(await revokeKey(changes, { uuid: parseId("key", id) ?? "" }, by));
      keys++;
    }
  }
  // Now no client can add to them.
  const uuids = accounts.map(({ uuid }) => uuid);
  await deleteUsage(database, uuids);
  await deleteRefusals(database, uuids);
  await deleteActivity(database, DEMO_REASON);
  await restartCount(database);
  // The account that marks a demo is erased last, so that an interrupted removal can be run again.
  for (const { uuid } of accounts.toSorted((a, b) => Number(a.email === MARK) - Number(b.email === MARK)))
    orRefuse(await eraseAccount(database, uuid, by));
  return keys;
}
