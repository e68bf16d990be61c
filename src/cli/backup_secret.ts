/** The root secret on its way into a backup and out of it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ProvenBackup } from "../backup/mod.ts";
import type { Config } from "../config/mod.ts";
import { readSecretFile } from "../installation/mod.ts";
import { createSecrets, opensCanary, parseRootSecret, type RootSecret } from "../secrets/mod.ts";
import { CommandRefused, orRefuse } from "./run.ts";

export interface SecretPlan {
  /** The text to put into the data folder. */
  readonly keep?: string;
  readonly withoutSealed: boolean;
  /** What is left for the operator to do. */
  readonly advice: readonly string[];
}

const NOTHING_TO_DO: SecretPlan = { withoutSealed: false, advice: [] };

/** Makes sure, before anything is touched, that what the backup has sealed can be opened afterwards. */
export function planSecret(
  proven: ProvenBackup,
  config: Config,
  { forgetSealed }: { readonly forgetSealed: boolean },
): SecretPlan {
  const { path, secret, canary } = proven;
  const present = findSecret(config);
  if (secret !== undefined) {
    const own = rootOf({ text: secret, source: path });
    if (present === undefined) {
      if (config.databaseUrl === undefined) return { ...NOTHING_TO_DO, keep: secret };
      const advice =
        `The database is external, so the service must be given the backup's secret: tar --zstd -xOf ` +
        `${path} secret prints it; put it into a file that CLAVIGER_SECRET_FILE names`;
      return { withoutSealed: false, advice: [advice] };
    }
    if (rootOf(present).equals(own)) return adviseGiven(config);
    throw new CommandRefused(
      `Cannot restore ${path}: it brings its own secret, and ${present.source} is another; take that ` +
        "away first",
    );
  }
  if (forgetSealed) {
    return {
      withoutSealed: true,
      advice: ["There is no installer token: set one with `claviger installer set-token`"],
    };
  }
  if (canary === undefined) return NOTHING_TO_DO;
  if (present !== undefined && opensCanary(createSecrets(rootOf(present)), canary)) {
    return adviseGiven(config);
  }
  const wrong = present === undefined ? "" : `, which that of ${present.source} is not`;
  const where =
    config.databaseUrl === undefined
      ? `put it into ${join(config.dataDir, "secret")} or name its file by CLAVIGER_SECRET_FILE`
      : "name its file by CLAVIGER_SECRET_FILE";
  throw new CommandRefused(
    `Cannot restore ${path}: it holds no secret, and what is sealed in it needs the secret of the ` +
      `installation that it was taken from${wrong}; ${where}, or leave out the installer token ` +
      "with --forget-sealed",
  );
}

/** A secret that was given to this command alone is not in the folder that the service will start on. */
function adviseGiven({ secret, databaseUrl, dataDir }: Config): SecretPlan {
  const path = join(dataDir, "secret");
  if (secret === undefined || databaseUrl !== undefined || existsSync(path)) return NOTHING_TO_DO;
  const advice =
    `The secret is that of ${secret.source}, and none is in ${dataDir}: the service needs CLAVIGER_SECRET_FILE ` +
    `too, or the file as ${path}`;
  return { withoutSealed: false, advice: [advice] };
}

export interface FoundSecret {
  readonly text: string;
  readonly source: string;
}

/** The secret as text: the one that is configured, else the data folder's. */
function findSecret(config: Config): FoundSecret | undefined {
  if (config.secret !== undefined) return config.secret;
  if (config.databaseUrl !== undefined) return undefined;
  const source = join(config.dataDir, "secret");
  const text = orRefuse(readSecretFile(source));
  return text === undefined ? undefined : { text, source };
}

/** The secret that a backup is to hold; ends the command where there is none, or none that can be used. */
export function demandSecret(config: Config): FoundSecret {
  const secret = findSecret(config);
  if (secret === undefined) {
    throw new CommandRefused(
      config.databaseUrl === undefined
        ? `Cannot back up the secret: there is none in ${config.dataDir}; start the service once to make it`
        : "Cannot back up the secret: none is given; name its file by CLAVIGER_SECRET_FILE",
    );
  }
  rootOf(secret);
  return secret;
}

function rootOf({ text, source }: FoundSecret): RootSecret {
  const parsed = parseRootSecret(text);
  if (parsed.ok) return parsed.rootSecret;
  throw new CommandRefused(`Cannot use the secret of ${source}: ${parsed.error.replace(/^[^:]*: /, "")}`);
}
