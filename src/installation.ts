/**
 * An installation as the service and every command find it: its database and its root secret.
 *
 * Without `DATABASE_URL` both are in the data folder; whoever opens it gets the same PostgreSQL, started
 * for the occasion where no service runs.
 */
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import { openEmbedded } from "./database/embedded/mod.ts";
import type { DatabaseAddress } from "./database/mod.ts";
import type { Log } from "./log.ts";
import type { Platform } from "./platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "./refusal.ts";
import { createSecrets, generateRootSecret, parseRootSecret, type Secrets } from "./secrets/mod.ts";

export interface InstallationOptions {
  readonly config: Config;
  readonly platform: Platform;
  readonly clock: Clock;
  readonly log: Log;
  /** A service holds the data folder for as long as it runs; a command works beside it or without it. */
  readonly holder: "serve" | "command";
  /** Whether a folder without data is initialised or refused. */
  readonly create: boolean;
}

export interface Installation {
  readonly address: DatabaseAddress;
  /** Where the data is, for people: the folder, or the server without its password. */
  readonly place: string;
  /** Closes what was opened; connections to the database must be closed before. */
  close(deadlineMs: number): Promise<void>;
}

/** Opens the database, starting the one inside where it must. */
export async function openInstallation(options: InstallationOptions): Promise<Installation | Refusal> {
  const { config } = options;
  if (config.databaseUrl !== undefined) {
    return {
      address: { url: config.databaseUrl },
      place: `PostgreSQL at ${new URL(config.databaseUrl).host}`,
      close: async () => {},
    };
  }
  const server = await openEmbedded({ ...options, dataDir: config.dataDir });
  if (isRefusal(server)) return server;
  return { address: server.address, place: config.dataDir, close: (deadlineMs) => server.stop(deadlineMs) };
}

export interface InstallationSecrets {
  readonly secrets: Secrets;
  /** Takes back a secret that was generated just now and turned out not to fit the database. */
  forget(): void;
}

/**
 * Reads the root secret: the one that is configured, else the data folder's, which `create` generates
 * where there is none. An external database needs a configured one: there is no folder that is sure to
 * come along with it.
 */
export function openSecrets(
  config: Config,
  options: { readonly create: boolean },
): InstallationSecrets | Refusal {
  if (config.secret !== undefined) return parse(config.secret, "CLAVIGER_SECRET");
  if (config.databaseUrl !== undefined) {
    return refuse(
      "INVALID_REQUEST",
      "The database is external, so the secret must be given: put the output of `openssl rand -hex 32` into " +
        "CLAVIGER_SECRET, or into a file named by CLAVIGER_SECRET_FILE, and keep it",
    );
  }
  const path = join(config.dataDir, "secret");
  if (existsSync(path)) return parse(readFileSync(path, "utf8"), path);
  if (!options.create) {
    return refuse(
      "INVALID_REQUEST",
      `The file ${path} is missing: put it back, or start the service once to make it`,
    );
  }
  writeFileSync(path, `${generateRootSecret()}\n`, { mode: 0o600, flag: "wx" });
  chmodSync(path, 0o600);
  const made = parse(readFileSync(path, "utf8"), path);
  return isRefusal(made) ? made : { ...made, forget: () => rmSync(path) };
}

function parse(text: string, source: string): InstallationSecrets | Refusal {
  const parsed = parseRootSecret(text);
  return parsed.ok
    ? { secrets: createSecrets(parsed.rootSecret), forget: () => {} }
    : refuse("INVALID_REQUEST", `The secret of ${source} cannot be used. ${parsed.error}`);
}
