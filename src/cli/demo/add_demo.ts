/** Adds the data of `serve --demo` to an empty database. */
import { Readable } from "node:stream";
import { type Actor, type By, nameOfActor } from "../../audit/mod.ts";
import type { Clock } from "../../base/clock.ts";
import { newUuid } from "../../base/ids.ts";
import { silentLog } from "../../base/log.ts";
import { VERSION } from "../../base/version.ts";
import { type DatabaseSession, openDatabase, openSession } from "../../database/mod.ts";
import type { Config } from "../../installation/config/mod.ts";
import { generateApiKey, hasKeys } from "../../licensing/keys/mod.ts";
import type { Brand } from "../../licensing/mod.ts";
import { monthlyLimitOf, TIERS } from "../../licensing/mod.ts";
import { addModel, parseNewModel, storeBytes, toMegabytes } from "../../models/mod.ts";
import { setInstallerToken } from "../../models/repository_token/mod.ts";
import type { OpenInstallation } from "../../service/mod.ts";
import { computeFigures } from "../../usage/figures/mod.ts";
import { countUse } from "../../usage/mod.ts";
import { orRefuse } from "../run.ts";
import history from "./history.sql" with { type: "text" };
import { type DemoKey, deriveKeys } from "./keys.ts";
import { makeDemoModels } from "./models.ts";
import { TABLES } from "./tables.ts";

/** The mark of the demo in the audit log and in the activity. */
export const DEMO_REASON = "demo";
export const DEMO_TOKEN = "demo-repository-token";
/** The process of the demo's latencies and of their start, which never ran. */
export const DEMO_PROCESS = "00000000-0000-7000-8000-0000000000de";

/**
 * Adds customers with ninety days of use, a test key for each tier and for each other state, four models and a
 * repository token. Returns the test keys; undefined, and adds nothing, if the database has keys already.
 */
export async function addDemo(
  { installation, database, secrets }: OpenInstallation,
  options: { readonly config: Config; readonly userName: string; readonly clock: Clock },
): Promise<readonly DemoKey[] | undefined> {
  if (await hasKeys(database)) return undefined;
  const { brand } = options.config;
  const now = options.clock.now();
  const actor: Actor = { kind: "command", name: options.userName, reason: DEMO_REASON };
  const keys = deriveKeys(brand, secrets);
  await using session = openSession(installation.address, { statementTimeoutMs: 10_000 });
  await addHistory(session, { brand, keys, actor, now });
  for (const { fields, file } of makeDemoModels(brand)) {
    const sizeBytes = file.length;
    const stored = orRefuse(
      await storeBytes(options.config, Readable.from([file]), { now, sizeBytes, onProgress() {} }),
    );
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
  const token = { token: DEMO_TOKEN, expiresAt: null };
  orRefuse(await setInstallerToken(database, token, { secrets, actor, now }));
  return keys;
}

/** Adds the customers with their history, in one statement. Nobody knows their keys, except for the given ones. */
export async function addHistory(
  session: DatabaseSession,
  { brand, keys, actor, now }: By & { readonly brand: Brand; readonly keys: readonly DemoKey[] },
): Promise<void> {
  const limits = Object.fromEntries(TIERS.map((tier) => [tier, monthlyLimitOf(tier)]));
  const customers = TABLES.customers.map((customer) => {
    const { hash, hint } =
      keys.find(({ email }) => email === customer.email) ?? generateApiKey(brand, "test");
    const ids = { account_id: newUuid(), license_id: newUuid(), key_id: newUuid() };
    return { ...customer, hash, hint, ...ids };
  });
  // The ids of the keys after a rotation come later than all others, because lists are in the order of the ids.
  const rotatable = customers.map((customer) => {
    const { hash, hint } = generateApiKey(brand, "test");
    return { ...customer, next_key_id: newUuid(), next_hash: hash, next_hint: hint };
  });
  const process = { process_id: DEMO_PROCESS, version: VERSION };
  const given = { ...TABLES, ...process, now, actor: nameOfActor(actor), limits, customers: rotatable };
  await session.transaction((sql) => sql.unsafe(history, [JSON.stringify(given)]));
}

/**
 * Computes the figures of a demo at once, so that the console shows them when it is opened for the first time. A
 * function of its own, so that the keys are printed first.
 */
export async function completeDemo(
  { installation, database }: OpenInstallation,
  clock: Clock,
): Promise<void> {
  await countUse(database, { clock, isStopping: () => false });
  // Not by the service's own computation: it has just computed the figures of the empty database, and now pauses.
  await using own = openDatabase(installation.address, { clock, log: silentLog, maxConnections: 1 });
  await computeFigures(own, { clock });
}
