/**
 * Adds the demo data of `serve --demo` to an empty database, prints `curl` lines to try it, and removes the data again.
 *
 * The demo's test keys are derived from the root secret, so that every start can show them. As of every key, only their
 * hashes are stored.
 */
import { deleteActivity } from "../../activity/mod.ts";
import type { Actor } from "../../audit/mod.ts";
import type { Brand } from "../../brand.ts";
import { DAY_MS, monthOf } from "../../calendar.ts";
import { type Clock, systemClock } from "../../clock.ts";
import type { Config } from "../../config/mod.ts";
import { type Database, openDatabase, openSession } from "../../database/mod.ts";
import { computeFigures } from "../../figures/mod.ts";
import { parseId } from "../../ids.ts";
import {
  countKeys,
  deleteRefusals,
  findKey,
  generateApiKey,
  type ImportedKey,
  importKeys,
  type KeySummary,
  listKeys,
  type NewApiKey,
  revokeKey,
  suspendKey,
} from "../../keys/mod.ts";
import {
  createLicenseChanges,
  eraseAccount,
  findAccount,
  hasAccount,
  monthlyLimitOf,
  TIERS,
} from "../../licensing/mod.ts";
import { silentLog } from "../../log.ts";
import {
  addModel,
  listAllModels,
  parseNewModel,
  retireVersion,
  storeBytes,
  toMegabytes,
} from "../../models/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { clearInstallerToken, createTokenSource, setInstallerToken } from "../../repository_token/mod.ts";
import type { Secrets } from "../../secrets/mod.ts";
import type { OpenInstallation } from "../../service/mod.ts";
import { countUse, deleteUsage, importedUsageCte, restartCount } from "../../usage/mod.ts";
import { orRefuse } from "../run.ts";
import { DEMO_CUSTOMERS } from "./customers.ts";
import { addDemoActivity, addDemoCustomers, toDemoEmail } from "./history.ts";
import { makeDemoModels } from "./models.ts";
import { DEMO_REASON } from "./use.ts";

export interface DemoKey {
  /** The tier of a key that works, otherwise the reason why the key is refused. */
  readonly label: string;
  readonly apiKey: string;
}

export interface RemoveDemoOptions {
  readonly config: Config;
  readonly secrets: Secrets;
  readonly actor: Actor;
  readonly now: Date;
}

const TOKEN = "demo-repository-token";
/** The labels of the keys and of their accounts. */
const LABELS = [...TIERS, "expired", "suspended", "revoked", "quota used up"];

/**
 * Adds customers with ninety days of use, a test key for each tier and for each other state, four models and a
 * repository token. Returns the test keys; undefined, and adds nothing, if the database has keys already.
 */
export async function addDemo(
  { installation, database, secrets }: OpenInstallation,
  {
    config: { brand, dataDir },
    userName,
    clock,
  }: { readonly config: Config; readonly userName: string; readonly clock: Clock },
): Promise<readonly DemoKey[] | undefined> {
  if ((await countKeys(database)) > 0) return undefined;
  const now = clock.now();
  const actor: Actor = { kind: "command", name: userName, reason: DEMO_REASON };
  const expiresAt = new Date(now.getTime() + 365 * DAY_MS);
  const free = monthlyLimitOf("free") ?? 0;
  const by = { brand, secrets };
  const made = [
    ...TIERS.map((tier) => makeKey(by, tier, { tier, expiresAt })),
    makeKey(by, "expired", { tier: "research", expiresAt: new Date(now.getTime() - DAY_MS) }),
    makeKey(by, "suspended", { tier: "research", expiresAt }),
    makeKey(by, "revoked", { tier: "research", expiresAt }),
    makeKey(by, "quota used up", { tier: "free", expiresAt, used: free }),
  ];
  const session = openSession(installation.address, { statementTimeoutMs: 10_000 });
  try {
    await addDemoCustomers(database, session, { brand, actor, now });
    const month = monthOf(now.getTime());
    const keys = made.map(({ key }, index) => ({ key, line: index + 1 }));
    orRefuse(
      await importKeys(session, keys, { actor, now, usageCte: (sql) => importedUsageCte(sql, month) }),
    );
  } finally {
    await session.close();
  }
  for (const { label, key } of made) {
    if (label !== "suspended" && label !== "revoked") continue;
    const found = await findKey(database, { hash: key.hash }, { now });
    const uuid = parseId("key", found?.id ?? "") ?? "";
    orRefuse(
      await (label === "revoked"
        ? revokeKey(createLicenseChanges(database), { uuid }, { actor, now })
        : suspendKey(createLicenseChanges(database), uuid, { actor, now })),
    );
  }
  for (const { fields, file } of makeDemoModels(brand)) {
    const sizeBytes = file.length;
    const stored = await storeBytes(dataDir, toChunks(file), { now, sizeBytes, onProgress() {} });
    const model = {
      ...fields,
      sizeMb: toMegabytes(sizeBytes),
      downloadUrl: null,
      checksum: stored.sha256,
      hostedBytes: sizeBytes,
      fileName: `${fields.name}.onnx`,
    };
    orRefuse(await addModel(database, orRefuse(parseNewModel(model, brand)), { actor, now }));
  }
  orRefuse(await setInstallerToken(database, { token: TOKEN, expiresAt: null }, { secrets, actor, now }));
  return made.map(({ label, apiKey }) => ({ label, apiKey }));
}

/**
 * Adds the activity of a demo, and computes the statistics at once, so that the console shows them when it is opened
 * for the first time. A function of its own, so that the keys are printed first.
 */
export async function completeDemo(
  { installation, database }: OpenInstallation,
  clock: Clock,
): Promise<void> {
  await addDemoActivity(database, clock.now());
  await countUse(database, { clock, isStopping: () => false });
  // Not by the service's own computation: it has just computed the figures of the empty database, and now pauses.
  const own = openDatabase(installation.address, { clock, log: silentLog, maxConnections: 1 });
  try {
    await computeFigures(own, { clock });
  } finally {
    await own.close();
  }
}

async function* toChunks(file: Buffer): AsyncGenerator<Buffer> {
  yield file;
}

/** The first account that a demo adds, and the first one that demos of earlier versions had. */
const [FIRST = "research"] = DEMO_CUSTOMERS.map(({ name }) => name);
const MARKS = [FIRST, "research"];

/** Tells whether the database has a demo, also one that was added only in part. */
export async function hasDemo(database: Database): Promise<boolean> {
  for (const label of MARKS) if (await hasAccount(database, toEmail(label))) return true;
  return false;
}

export interface RemovedDemo {
  readonly keys: number;
  readonly models: readonly string[];
  /** Whether the stored token was the demo's, and was removed. */
  readonly token: boolean;
}

/**
 * Removes a demo: revokes its keys, deletes their use and their refusals, erases its accounts (rows of keys are never
 * deleted), retires its models, and removes its token. A token or a version of a model that the operator added stays,
 * and so does the audit log.
 */
export async function removeDemo(
  database: Database,
  { config, secrets, actor, now }: RemoveDemoOptions,
): Promise<RemovedDemo> {
  const tokens = createTokenSource({ database, secrets, clock: { ...systemClock, now: () => now } });
  const current = await tokens.current();
  const isDemoToken = !isRefusal(current) && current.token === TOKEN;
  if (isDemoToken) orRefuse(await clearInstallerToken(database, { actor, now }));
  const models: string[] = [];
  const listed = new Map((await listAllModels(database)).map((model) => [model.name, model]));
  for (const { fields } of makeDemoModels(config.brand)) {
    const model = listed.get(fields.name);
    if (model === undefined || model.version !== fields.version || model.owner !== null) continue;
    orRefuse(await retireVersion(database, fields, { actor, now }));
    models.push(`${fields.name} ${fields.version}`);
  }
  const keys = await removeAccounts(database, { actor, now });
  return { keys, models, token: isDemoToken };
}

/** Removes the accounts, and returns the number of keys that were not revoked yet. */
async function removeAccounts(
  database: Database,
  by: { readonly actor: Actor; readonly now: Date },
): Promise<number> {
  const labels = [...DEMO_CUSTOMERS.map(({ name }) => name), ...LABELS];
  const found = await Promise.all(labels.map((label) => findAccount(database, { email: toEmail(label) })));
  const accounts = found.filter((account) => account !== undefined);
  const uuids = accounts.map(({ uuid }) => uuid);
  let keys = 0;
  for (const { uuid } of accounts) {
    for (const { id, state } of await listKeys(database, { now: by.now, filter: { accountUuid: uuid } })) {
      if (state === "revoked") continue;
      orRefuse(await revokeKey(createLicenseChanges(database), { uuid: parseId("key", id) ?? "" }, by));
      keys++;
    }
  }
  // Now no client can add to them.
  await deleteUsage(database, uuids);
  await deleteRefusals(database, uuids);
  await deleteActivity(database, DEMO_REASON);
  await restartCount(database);
  // The account that marks a demo is erased last, so that an interrupted removal can be run again.
  const isMark = (email: string) => email === toEmail("research");
  for (const { uuid } of accounts.toSorted((a, b) => Number(isMark(a.email)) - Number(isMark(b.email))))
    orRefuse(await eraseAccount(database, uuid, by));
  return keys;
}

function toEmail(label: string): string {
  return toDemoEmail(label.replaceAll(" ", "-"));
}

interface KeySource {
  readonly brand: Brand;
  readonly secrets: Secrets;
}

function deriveKey({ brand, secrets }: KeySource, label: string): NewApiKey {
  const bytes = Buffer.from(secrets.signer("demo-key").sign([label]), "base64url");
  return generateApiKey(brand, "test", { bytes });
}

function makeKey(
  source: KeySource,
  label: string,
  license: Pick<ImportedKey, "tier" | "expiresAt"> & { readonly used?: number },
): DemoKey & { readonly key: ImportedKey } {
  const { apiKey, hash, hint } = deriveKey(source, label);
  const known = { hash, hint, mode: "test", email: toEmail(label), organization: "Demo" } as const;
  return { label, apiKey, key: { ...known, monthlyLimit: null, used: 0, ...license } };
}

/**
 * Finds the test keys of a demo that was added before, without keys that were changed since. Finds none if the demo was
 * removed, if an earlier version added it, or if the root secret or the brand is another one.
 */
export async function findDemoKeys(
  { database, secrets }: Pick<OpenInstallation, "database" | "secrets">,
  { brand, now }: { readonly brand: Brand; readonly now: Date },
): Promise<readonly DemoKey[]> {
  const found = await Promise.all(
    LABELS.map(async (label) => {
      const { apiKey, hash } = deriveKey({ brand, secrets }, label);
      const key = await findKey(database, { hash }, { now });
      // An erased account has another e-mail: its revoked keys belong to no demo any more.
      const isOfDemo = key?.email === toEmail(label) && toLabel(key) === label;
      return isOfDemo ? [{ label, apiKey }] : [];
    }),
  );
  return found.flat();
}

function toLabel({ state, tier, used, monthlyLimit }: KeySummary): string {
  if (state !== "active") return state;
  return monthlyLimit !== null && used >= monthlyLimit ? "quota used up" : tier;
}

/** Renders the demo's keys, and `curl` lines that can be run without a change: only those whose key is shown. */
export function renderDemo(
  keys: readonly DemoKey[],
  { address, config }: { readonly address: string; readonly config: Config },
): string {
  const width = Math.max(...keys.map(({ label }) => label.length));
  const linesFor = (label: string, render: (apiKey: string) => readonly string[]) =>
    keys.filter((key) => key.label === label).flatMap(({ apiKey }) => render(apiKey));
  const post = (path: string, body: object) => `curl -s ${address}${path} -d '${JSON.stringify(body)}'`;
  const host = config.brand.installerHost;
  return [
    "",
    "Demo keys, shown at every start until the demo is removed:",
    ...keys.map(({ label, apiKey }) => `  ${label.padEnd(width)}  ${apiKey}`),
    "",
    "Try:",
    ...linesFor("research", (key) => [
      `  ${post("/v1/auth/validate", { api_key: key })}`,
      `  ${post("/v1/auth/refresh", { api_key: key })}`,
      `  curl -s -H 'X-API-Key: ${key}' ${address}/v1/models/list`,
      `  curl -s -H 'X-API-Key: ${key}' ${address}/v1/installer/${host}-token`,
      `  ${post("/v1/analytics/log", { api_key: key, event_type: "inference", duration_ms: 12.5 })}`,
    ]),
    ...linesFor("free", (key) => [`  ${post("/v1/auth/revoke", { api_key: key, reason: "tried it" })}`]),
    `  curl -s ${address}/api/health`,
    "",
    "",
  ].join("\n");
}
