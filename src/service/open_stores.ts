import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { loadCertificate } from "../base/tls/mod.ts";
import { migrate, migrations, openDatabase } from "../database/mod.ts";
import { refuseAdminListener } from "../installation/config/mod.ts";
import {
  type Installation,
  isSealed,
  openInstallation,
  openSecrets,
  proveSecret,
} from "../installation/mod.ts";
import { prepareSigningKeys } from "../licensing/signed_licenses/mod.ts";
import { openServedFiles } from "../models/mod.ts";
import { openGitHubApp } from "../models/repository_token/mod.ts";
import { openProvider } from "../operators/identity/mod.ts";
import type { ServiceOptions } from "./service.ts";
import type { StopOrder } from "./stop_order.ts";

export type Stores = Exclude<Awaited<ReturnType<typeof openStores>>, Refusal>;

/** Reads the files that settings name, such as the App's key and the certificate, and opens the database and the secret. */
export async function openStores(options: ServiceOptions, order: StopOrder) {
  const { config, clock, log } = options;
  const close = (installation: Installation) =>
    order.add({ stop: (deadlineMs) => installation.close(deadlineMs) }, "own");
  if (options.installation !== undefined) close(options.installation);
  // Checked first: a wrong setting must not leave a new database behind.
  const unsafe = refuseAdminListener(config);
  if (unsafe !== undefined) return unsafe;
  const app = config.gitHubApp && openGitHubApp(config.gitHubApp);
  if (isRefusal(app)) return app;
  const provider = config.provider && openProvider(config.provider, { clock, log });
  if (isRefusal(provider)) return provider;
  const tls = config.tls && loadCertificate(config.tls);
  if (isRefusal(tls)) return tls;
  const servedFiles = openServedFiles({ place: config, clock, log });
  if (isRefusal(servedFiles)) return servedFiles;
  order.add(servedFiles);
  const installation =
    options.installation ?? (await openInstallation({ ...options, holder: "serve", create: true }));
  if (isRefusal(installation)) return installation;
  if (options.installation === undefined) close(installation);
  try {
    const content = await openContent(options, order, installation);
    return isRefusal(content) ? content : { app, provider, tls, servedFiles, installation, ...content };
  } catch (error) {
    const damage = await installation.dataFault?.damageAfter(error);
    if (damage === undefined) throw error;
    // The server may have ended because of it, and the error only says that it does not answer.
    return damage;
  }
}

/** Migrates the database, opens it and proves the secret. */
async function openContent(options: ServiceOptions, order: StopOrder, installation: Installation) {
  const { config, clock, log } = options;
  const migrated = await migrate(installation.address, migrations, { log });
  if (isRefusal(migrated)) return migrated;
  const schema = migrated.applied.at(-1)?.name;
  if (schema !== undefined)
    log.info("Migrated the database", { schema, migrations: migrated.applied.length });
  const pool = openDatabase(installation.address, { clock, log });
  order.add({ stop: () => pool.close() });
  const secret = openSecrets(config, { create: true, isSealed: await isSealed(pool) });
  if (isRefusal(secret)) return secret;
  const { secrets } = secret;
  const wrongSecret = await proveSecret(pool, secrets, clock.now());
  if (wrongSecret !== undefined) {
    secret.forget();
    return refuse("INVALID_REQUEST", wrongSecret);
  }
  await prepareSigningKeys(pool, { secrets, now: clock.now(), log });
  options.onOpened?.({ installation, database: pool, secrets });
  const pulseDatabase = openDatabase(installation.address, { clock, log, maxConnections: 1 });
  order.add({ stop: () => pulseDatabase.close() });
  return { pool, pulseDatabase, secrets };
}
