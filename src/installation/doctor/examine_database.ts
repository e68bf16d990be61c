/** The checks that need the database: those of the server, then secret, token, files and public address. */

import { DAY_MS, toMinute } from "../../base/calendar.ts";
import { isReachedByOthers } from "../../base/listener_url.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { opensCanary } from "../../base/secrets/mod.ts";
import { listProcesses } from "../../database/processes/mod.ts";
import { readMessage } from "../../licensing/keys/mod.ts";
import { listSigningKeys, openSigningKey } from "../../licensing/signed_licenses/mod.ts";
import { openGitHubApp } from "../../models/repository_token/mod.ts";
import { isTooWide, listTokens } from "../../operators/mod.ts";
import { findLastBackup } from "../backup/mod.ts";
import type { Config } from "../config/mod.ts";
import { findPublicUrl, openSecrets } from "../mod.ts";
import { eventTextsCheck } from "./examine_event_texts.ts";
import { APP_REMEDY, examineDisk } from "./examine_host.ts";
import { modelFilesCheck } from "./examine_model_files.ts";
import { examineServer, listServerChecks, type ServerContext } from "./examine_server.ts";
import {
  type Check,
  type CheckResult,
  examine,
  type Finding,
  type FindingState,
  type FoundCauses,
  fail,
  ok,
  requireReadable,
  skipFor,
  skipUnseen,
  warn,
} from "./finding.ts";

export interface DatabaseContext extends ServerContext {
  /** The state that the check of the GitHub App found; `ok` by default. */
  readonly app?: FindingState | undefined;
}

const SOON_DAYS = 14;

/**
 * Examines the server, the schema and then the content. Without the right schema the content cannot be read, so its
 * findings are `skip`. `found` gets the causes that were met.
 */
export async function examineDatabase(
  context: DatabaseContext,
  more: readonly Check<DatabaseContext>[] = [],
  found: FoundCauses = new Map(),
): Promise<Finding[]> {
  const server = await examineServer(context, found);
  const schema = server.at(-1);
  const checks = [...CONTENT_CHECKS, ...more];
  if (schema?.state === "fail") return [...server, ...skipAll(checks, skipFor(schema.name))];
  // What prevents the look at the schema also prevents the look at the content.
  if (schema?.state === "skip") return [...server, ...skipAll(checks, schema)];
  return [...server, ...(await examine(context, checks, found))];
}

/**
 * Returns a finding `skip` for each check that needs the database, because it cannot be opened. The check with the name `cause`
 * is left out: its finding says why.
 */
export function skipDatabase(
  config: Config,
  { cause, more }: { readonly cause: string; readonly more: readonly Check<DatabaseContext>[] },
): Finding[] {
  const checks = [...listServerChecks(config), ...CONTENT_CHECKS, ...more];
  return skipAll(
    checks.filter(({ name }) => name !== cause),
    skipFor(cause),
  );
}

function skipAll(checks: readonly { readonly name: string }[], result: CheckResult): Finding[] {
  return checks.map(({ name }) => ({ ...result, name }));
}

/**
 * Examines the disk, the database server, the schema, the model files, the public address, the rate limits, the texts of
 * events, the message for customers and the last backup. The running service can do this without further rights, and without requests to other hosts
 * but that of the bucket.
 */
export async function examineBriefly(context: ServerContext): Promise<Finding[]> {
  const found: FoundCauses = new Map();
  const disk = await examine(context, [{ name: "disk", examine: examineDisk }]);
  const server = await examineServer(context, found);
  return [...disk, ...server, ...(await examine(context, BRIEF_CHECKS, found))];
}

async function examineTokens({ database, clock }: DatabaseContext): Promise<CheckResult> {
  const tokens = await listTokens(database, { now: clock.now() });
  const usable = tokens.filter(({ state }) => state === "active" || state === "disabled");
  const tooWide = usable.filter(({ restriction, scopes }) => isTooWide(restriction, scopes));
  if (tooWide.length === 0)
    return ok(`${usable.length} usable, none has a scope that its restriction excludes`);
  return warn(
    `restricted to tiers or to a mode, but with scopes beyond keys: ${tooWide.map(({ name }) => name).join(", ")}`,
    "issue a token with another name and fewer scopes for each, then `claviger tokens revoke` the old one",
  );
}

async function examineSecret({ database, config }: DatabaseContext): Promise<CheckResult> {
  const [row] = await database.query<{ sealed: string }>((sql) => sql`select sealed from secret_canary`);
  const isSealed = row !== undefined;
  const opened = openSecrets(config, { create: false, isSealed });
  if (isRefusal(opened)) {
    const unseen = config.secret === undefined ? skipUnseen(config) : undefined;
    if (unseen !== undefined) return unseen;
    const isKept = isSealed && config.secret === undefined && config.databaseUrl === undefined;
    const remedy = isKept
      ? "put the file back, or name it in CLAVIGER_SECRET_FILE"
      : "give the secret of the first start";
    return fail(opened.sentence, remedy);
  }
  if (row === undefined) return warn("it has not sealed any data yet", "start the service once");
  return opensCanary(opened.secrets, row.sealed)
    ? ok("the secret that sealed this database")
    : fail(
        "another secret sealed this database",
        "give the secret of the first start in CLAVIGER_SECRET_FILE, or put the file `secret` back",
      );
}

/** Checks that each private key that can still sign opens, and fits its public key. */
async function examineSigningKeys({ database, config }: DatabaseContext): Promise<CheckResult> {
  const keys = await listSigningKeys(database);
  if (keys.length === 0) return warn("there are none yet", "start the service once");
  const opened = openSecrets(config, { create: false, isSealed: true });
  if (isRefusal(opened)) return skipUnseen(config) ?? fail("they cannot be opened", "see secret above");
  const broken = keys.filter((key) => openSigningKey(opened.secrets, key) === undefined);
  return broken.length === 0
    ? ok(`${keys.length}, all open and fit their public keys`)
    : fail(
        `${broken.length} of ${keys.length} cannot be opened, or do not fit their public keys: ${broken[0]?.kid}`,
        "give the secret of the first start, or restore the last backup: `claviger restore FILE`",
      );
}

async function examineToken({ database, config, clock, app = "ok" }: DatabaseContext): Promise<CheckResult> {
  const unseen = config.gitHubApp?.privateKeyFile === undefined ? skipUnseen(config) : undefined;
  if (unseen !== undefined) return unseen;
  if (config.gitHubApp !== undefined) {
    if (config.gitHubApp.privateKeyFile !== undefined) requireReadable(config.gitHubApp.privateKeyFile);
    if (isRefusal(openGitHubApp(config.gitHubApp)))
      return fail("the GitHub App that should mint it cannot be used", APP_REMEDY);
    if (app === "ok") return ok("minted by the GitHub App");
    const message = "minted by the GitHub App, which gives no token now";
    return { state: app, message, remedy: "see github app above" };
  }
  const remedy = "`claviger installer set-token < FILE`";
  const [row] = await database.query<{ expiresAt: Date | null }>(
    (sql) => sql`select expires_at as "expiresAt" from installer_token`,
  );
  if (row === undefined) return warn("no token is set: installers are told that none is configured", remedy);
  if (row.expiresAt === null) return ok("set, without an expiry");
  const leftMs = row.expiresAt.getTime() - clock.now().getTime();
  const at = toMinute(row.expiresAt);
  if (leftMs <= 0) return fail(`expired at ${at}`, remedy);
  return leftMs < SOON_DAYS * DAY_MS ? warn(`expires at ${at}`, remedy) : ok(`good until ${at}`);
}

const SET_PUBLIC_URL =
  "set CLAVIGER_PUBLIC_URL to the address under which clients reach the service, and restart it";

/**
 * Checks the public address. Without it, clients get no address for downloads: their list omits hosted models. The message
 * for a customer has only an address that other machines reach.
 */
const publicUrlCheck: Check<Pick<ServerContext, "database" | "config">> = {
  name: "public address",
  async examine({ database, config }) {
    const { publicUrl } = config;
    if (publicUrl !== undefined && !isReachedByOthers(publicUrl))
      return warn(
        `${publicUrl}, as set: only this machine reaches it, so messages for customers lack it`,
        SET_PUBLIC_URL,
      );
    if (publicUrl !== undefined) return ok(`${publicUrl}, as set: not called from here`);
    const demoUrl = findPublicUrl(config);
    if (demoUrl !== undefined)
      return ok(`${demoUrl}, where the demo listens; for other machines set CLAVIGER_PUBLIC_URL`);
    const unseen = skipUnseen(config);
    if (unseen !== undefined) return unseen;
    const [row] = await database.query<{ hosted: number }>(
      (sql) => sql`select count(distinct file) as hosted from model_versions where retired_at is null`,
    );
    return row?.hosted
      ? warn(
          `none is set: clients get no address to download the hosted model files from (${row.hosted} so far)`,
          SET_PUBLIC_URL,
        )
      : ok("none: no model files are hosted here, and messages for customers lack it");
  },
};

/**
 * A process reports once a minute. One that has missed two reports has most likely ended, although Health lists it until it
 * is lost.
 */
const GONE_SECONDS = 150;

/** Examines how the serving processes count the requests of a key: each for itself, or together in the database. */
const rateLimitsCheck: Check<Pick<ServerContext, "database">> = {
  name: "rate limits",
  async examine({ database }) {
    const serving = (await listProcesses(database)).filter(
      ({ seenSecondsAgo }) => seenSecondsAgo < GONE_SECONDS,
    );
    const alone = serving.filter(({ rateLimits }) => rateLimits === "process").length;
    if (serving.length <= 1) return ok("no second process serves");
    if (alone === 0) return ok(`${serving.length} processes count the requests of each key together`);
    if (alone < serving.length) {
      const message = `${alone} of ${serving.length} processes count the requests of a key alone, the others together`;
      return warn(message, "give all processes the same CLAVIGER_RATE_LIMITS");
    }
    const rule = "the balancer must send each key to one of them (`claviger guide replicas`)";
    return ok(`${alone} processes count alone: ${rule}`);
  },
};

const BACKUP_REMEDY = "`claviger backup FOLDER/`; `claviger guide service` has a timer for every hour";

const MISSING_REMEDY =
  "the backup named the files (`journalctl -u claviger-backup`), and `claviger models verify` does; put them back, or " +
  "add the models again under another version";

/** Examines when the last backup of this database was taken, and whether it has every model file. */
const backupCheck: Check<Pick<ServerContext, "config" | "database" | "clock">> = {
  name: "backup",
  async examine({ config, database, clock }) {
    const now = clock.now();
    const { takenAt, verifiedAt, missingModels, since, dueAt, isOverdue } = await findLastBackup(database, {
      now,
      overdueHours: config.backupOverdueHours,
    });
    const isVerified = takenAt?.getTime() === verifiedAt?.getTime();
    const lastVerified = verifiedAt === null ? "" : `; the last verified one at ${toMinute(verifiedAt)}`;
    const taken =
      takenAt === null
        ? `none since this database was made at ${toMinute(since)}`
        : `taken at ${toMinute(takenAt)}${isVerified ? " and verified" : `, not verified${lastVerified}`}`;
    const due = `due by ${toMinute(dueAt)}`;
    const next = takenAt === null ? "the first" : "the next";
    const lacks = missingModels
      ? `; the database is saved, ${counted(missingModels, "model file")} ${missingModels === 1 ? "is" : "are"} not`
      : "";
    if (!isOverdue) {
      const message = `${taken}${lacks}; ${next} is ${due}`;
      return lacks === "" ? ok(message) : warn(message, MISSING_REMEDY);
    }
    const why = since > now ? "that is in the future, so a clock was wrong" : `${next} was ${due}`;
    return warn(`${taken}${lacks}; ${why}`, BACKUP_REMEDY);
  },
};

/** Examines the message for customers. With a wrong file the console shows the usual message. */
const messageCheck: Check<Pick<ServerContext, "config">> = {
  name: "key message",
  examine({ config }) {
    const file = config.customerMessageFile;
    if (file === undefined) return skipUnseen(config) ?? ok("the usual one");
    requireReadable(file);
    const read = readMessage(file);
    return isRefusal(read)
      ? warn(
          `${read.sentence}; the console shows the usual message`,
          "correct the file: it is read each time",
        )
      : ok(`that of ${file}`);
  },
};

/** The checks of what the database holds that the running service makes, too. */
const BRIEF_CHECKS: readonly Check<ServerContext>[] = [
  modelFilesCheck,
  publicUrlCheck,
  rateLimitsCheck,
  eventTextsCheck,
  messageCheck,
  backupCheck,
];

/** The checks of what the database holds. They need the right schema. */
const CONTENT_CHECKS: readonly Check<DatabaseContext>[] = [
  { name: "secret", examine: examineSecret },
  { name: "signing keys", examine: examineSigningKeys },
  { name: "installer token", examine: examineToken },
  { name: "tokens", examine: examineTokens },
  ...BRIEF_CHECKS,
];
