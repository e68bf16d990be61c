/** Finds the root secret for a backup, and plans which secret an installation has after a restore. */
import { existsSync } from "node:fs";
import { pathInData } from "../base/host/mod.ts";
import { createSecrets, opensCanary, parseRootSecret, type RootSecret } from "../base/secrets/mod.ts";
import type { ProvenBackup } from "../installation/backup/mod.ts";
import type { Config, GivenSecret } from "../installation/config/mod.ts";
import { findSecret } from "../installation/mod.ts";
import { CommandRefused, orRefuse } from "./run.ts";

interface SecretPlan {
  /** The text of the secret to write into the data folder. */
  readonly keep?: string;
  /** Whether the restore leaves out the data that the secret sealed. */
  readonly withoutSealed: boolean;
  /** Sentences that say what the operator still has to do. */
  readonly advice: readonly string[];
}

const NOTHING_TO_DO: SecretPlan = { withoutSealed: false, advice: [] };

/** Makes sure, before the restore changes anything, that the service can open the backup's sealed data afterwards. */
export function planSecret(
  proven: ProvenBackup,
  config: Config,
  { forgetSealed }: { readonly forgetSealed: boolean },
): SecretPlan {
  const { name, secret, canary } = proven;
  const present = orRefuse(findSecret(config));
  if (secret !== undefined) {
    const own = rootOf({ text: secret, source: name });
    if (present === undefined) {
      if (config.databaseUrl === undefined) return { ...NOTHING_TO_DO, keep: secret };
      const advice =
        `The database is external, so give the service the backup's secret: \`tar --zstd -xOf ${name === proven.path ? name : "FILE"} secret\` ` +
        "prints it; put it into a file, and name the file in CLAVIGER_SECRET_FILE";
      return { withoutSealed: false, advice: [advice] };
    }
    if (rootOf(present).equals(own)) return adviseGiven(config);
    throw new CommandRefused(
      `Cannot restore ${name}: the backup has its own secret, and ${present.source} is another one; remove ` +
        "that secret first",
    );
  }
  if (forgetSealed) {
    return {
      withoutSealed: true,
      advice: [
        "There is no repository token: set one with `claviger installer set-token`",
        "The next start makes new keys to sign licenses: clients that pinned the old keys refuse new licenses until " +
          "their SDK has the new ones, which `claviger licenses public-keys` prints",
        "To its earlier backups the installation is a new one: the next backup into their folder needs --into-shared-folder " +
          "once",
      ],
    };
  }
  if (canary === undefined) return NOTHING_TO_DO;
  if (present !== undefined && opensCanary(createSecrets(rootOf(present)), canary)) {
    return adviseGiven(config);
  }
  const wrong = present === undefined ? "" : `; the secret of ${present.source} is another one`;
  const where =
    config.databaseUrl === undefined
      ? `put the right secret into ${pathInData(config.dataDir, "secret")}, or name its file in CLAVIGER_SECRET_FILE`
      : "name the file of the right secret in CLAVIGER_SECRET_FILE";
  throw new CommandRefused(
    `Cannot restore ${name}: the backup has no secret, and its sealed data needs the secret of the ` +
      `installation that made the backup${wrong}; ${where}, or leave out the repository token ` +
      "and the keys that sign licenses with --forget-sealed",
  );
}

/** If this command has the secret and the data folder has none, tells the operator to give it to the service, too. */
function adviseGiven({ secret, databaseUrl, dataDir }: Config): SecretPlan {
  const path = pathInData(dataDir, "secret");
  if (secret === undefined || databaseUrl !== undefined || existsSync(path)) return NOTHING_TO_DO;
  const advice =
    `This command used the secret of ${secret.source}, and ${dataDir} has none: give the service the same ` +
    `secret, by CLAVIGER_SECRET_FILE or as the file ${path}`;
  return { withoutSealed: false, advice: [advice] };
}

/** Returns the secret that goes into a backup; ends the command if there is none, or if it is not valid. */
export function demandSecret(config: Config): GivenSecret {
  const secret = orRefuse(findSecret(config));
  if (secret === undefined) {
    throw new CommandRefused(
      config.databaseUrl === undefined
        ? `Cannot back up the secret: there is none in ${config.dataDir}; start the service once to make it`
        : "Cannot back up the secret: none is given; name its file in CLAVIGER_SECRET_FILE",
    );
  }
  rootOf(secret);
  return secret;
}

function rootOf({ text, source }: GivenSecret): RootSecret {
  const parsed = parseRootSecret(text);
  if (parsed.ok) return parsed.rootSecret;
  throw new CommandRefused(`Cannot use the secret of ${source}: ${parsed.error}`);
}
