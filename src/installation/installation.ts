/**
 * An installation as the service and every command find it: its database and its root secret.
 *
 * Without `DATABASE_URL` both are in the data folder. A command uses the PostgreSQL of the running service, or
 * starts it for itself if no service runs.
 */
import {
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { pathInData } from "../base/host/mod.ts";
import { quoteShellWord } from "../base/quote_shell_word.ts";
import { readRegularFile } from "../base/read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { createSecrets, generateRootSecret, parseRootSecret, type Secrets } from "../base/secrets/mod.ts";
import { FILE_REASONS, hasCode, type Reasons, reasonOf } from "../base/system_error.ts";
import {
  type DataFault,
  type EmbeddedOptions,
  NO_RESTORE_NOTE,
  openEmbedded,
  type RestoreNote,
} from "../database/embedded/mod.ts";
import { type DatabaseAddress, nameOfDatabase, toDatabaseAddress } from "../database/mod.ts";
import type { Config, GivenSecret } from "./config/mod.ts";

interface InstallationOptions
  extends Pick<
    EmbeddedOptions,
    "platform" | "clock" | "log" | "holder" | "create" | "restores" | "joins" | "isInterrupted"
  > {
  readonly config: Config;
}

export interface Installation {
  readonly address: DatabaseAddress;
  /** Where the data is, in words: the folder, or the server without its password. */
  readonly place: string;
  /** True if a running service holds the data folder, and its database was opened. */
  readonly isServed?: boolean;
  /** The note of a restore into it. */
  readonly restoreNote?: RestoreNote;
  /** What is wrong with the data while this process runs its server; undefined if it does not. */
  readonly dataFault?: DataFault;
  /** Closes the installation. Close all connections to the database first. */
  close(deadlineMs: number): Promise<void>;
}

/**
 * Opens the database, and starts the one inside if necessary. For a service the configured secret is checked first:
 * an invalid secret must not leave a new database behind.
 */
export async function openInstallation(options: InstallationOptions): Promise<Installation | Refusal> {
  const { config } = options;
  if (options.holder === "serve" && (config.secret !== undefined || config.databaseUrl !== undefined)) {
    const given = openSecrets(config, { create: false });
    if (isRefusal(given)) return given;
  }
  if (config.databaseUrl !== undefined) {
    return {
      address: toDatabaseAddress(config.databaseUrl),
      place: `the PostgreSQL at ${nameOfDatabase(config.databaseUrl)}`,
      isServed: false,
      restoreNote: NO_RESTORE_NOTE,
      close: async () => {},
    };
  }
  if (options.holder === "serve") closeSecret(options);
  const server = await openEmbedded({
    ...options,
    dataDir: config.dataDir,
    postgresBin: config.postgresBin,
  });
  if (isRefusal(server)) return server;
  return {
    address: server.address,
    place: config.dataDir,
    isServed: !server.owned,
    restoreNote: server.restoreNote,
    dataFault: server.dataFault,
    close: (deadlineMs) => server.stop(deadlineMs),
  };
}

/** Closes the secret of the data folder to other users. Kubernetes opens it to the group of a volume (`fsGroup`). */
function closeSecret({ config: { dataDir }, log }: InstallationOptions): void {
  const path = pathInData(dataDir, "secret");
  try {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (!found?.isFile() || found.uid !== process.geteuid?.() || (found.mode & 0o077) === 0) return;
    chmodSync(path, 0o600);
    log.warn("The secret was closed: other users could read it", { path });
  } catch {
    // Whoever opens the folder next says what is wrong with it; `doctor` reports a secret that stays open.
  }
}

interface InstallationSecrets {
  readonly secrets: Secrets;
  /** Removes a secret that was just generated and does not fit the database. */
  forget(): void;
}

/**
 * Reads the root secret: the configured one, otherwise the one of the data folder, which `create` generates if it is
 * missing. An external database needs a configured secret, because the data folder may not move along with the
 * database. For a database that is already sealed no secret is generated: it could not open anything.
 */
export function openSecrets(
  config: Config,
  options: { readonly create: boolean; readonly isSealed?: boolean },
): InstallationSecrets | Refusal {
  const found = findSecret(config);
  if (isRefusal(found)) return found;
  if (found !== undefined) return parse(found);
  if (config.databaseUrl !== undefined) {
    return refuse(
      "INVALID_REQUEST",
      "The database is external, so the secret must be given: name the file of the first start's secret by " +
        "CLAVIGER_SECRET_FILE, or give it in CLAVIGER_SECRET; only for a new database make one, by " +
        "`openssl rand -hex 32`, and keep it",
    );
  }
  const path = pathInData(config.dataDir, "secret");
  if (options.isSealed) {
    return refuse(
      "INVALID_REQUEST",
      `Cannot open what the database was sealed with: there is no file secret in ${config.dataDir}, and no ` +
        "secret was given; put the one of the first start back, or name it by CLAVIGER_SECRET_FILE",
    );
  }
  if (!options.create) {
    return refuse(
      "INVALID_REQUEST",
      `The file ${path} is missing: put it back, or start the service once to make it`,
    );
  }
  const text = generateRootSecret();
  keepSecret(config.dataDir, text);
  const made = parse({ text, source: path });
  return isRefusal(made) ? made : { ...made, forget: () => rmSync(path, { force: true }) };
}

/** Writes a secret into a data folder that has none. */
export function keepSecret(dataDir: string, text: string): void {
  const path = pathInData(dataDir, "secret");
  const draft = `${path}.new`;
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: "wx", flush: true });
  // Written completely or not at all, and synced before it seals anything: a power cut must not leave a database
  // whose secret is lost.
  linkSync(draft, path);
  rmSync(draft);
  const folder = openSync(dataDir, "r");
  fsyncSync(folder);
  closeSync(folder);
}

/**
 * Finds the secret of the settings, otherwise the one of the data folder. With an external database only the settings
 * count.
 */
export function findSecret(config: Config): GivenSecret | Refusal | undefined {
  if (config.secret !== undefined) return config.secret;
  if (config.databaseUrl !== undefined) return undefined;
  const source = pathInData(config.dataDir, "secret");
  try {
    return { text: readRegularFile(source, SECRET_LIMIT_BYTES), source };
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    // GNU's chown gives it the owner of the folder, who is the user of the service.
    const owner = `\`chown --reference=${quoteShellWord(config.dataDir)} ${quoteShellWord(source)}\``;
    const reasons: Reasons = { ...REASONS, EACCES: `${FILE_REASONS.EACCES}; as root run ${owner}` };
    return refuse("INVALID_REQUEST", `Cannot read the secret ${source}: ${reasonOf(error, reasons)}`);
  }
}

const SECRET_LIMIT_BYTES = 64 * 1024;

const REASONS: Reasons = {
  ...FILE_REASONS,
  EFBIG: `it has more than ${SECRET_LIMIT_BYTES} bytes`,
};

function parse({ text, source }: GivenSecret): InstallationSecrets | Refusal {
  const parsed = parseRootSecret(text);
  if (parsed.ok) return { secrets: createSecrets(parsed.rootSecret), forget: () => {} };
  const why = `${parsed.error}; it must be ${SECRET_FORM}`;
  return refuse("INVALID_REQUEST", `Cannot use the secret of ${source}: ${why}`);
}

const SECRET_FORM = "32 random bytes, such as `openssl rand -hex 32` prints";
