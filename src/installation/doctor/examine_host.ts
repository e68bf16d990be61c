/** The checks that need no database: folder, disk, clock, certificate, GitHub App, and whether a service answers. */

import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  readFileSync,
  realpathSync,
  statfsSync,
} from "node:fs";
import { join } from "node:path";
import { toMinute, toTimestamp } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import { describeListener, findSystemUser, pathInData } from "../../base/host/mod.ts";
import { isLoopback, originOf, toReachedHost } from "../../base/listener_url.ts";
import { isReadable } from "../../base/read_regular_file.ts";
import { isRefusal } from "../../base/refusal.ts";
import { loadCertificate, tlsWarning } from "../../base/tls/mod.ts";
import { openGitHubApp, tryGitHubApp } from "../../models/repository_token/mod.ts";
import type { Config } from "../config/mod.ts";
import type { ServingAt } from "../mod.ts";
import { askCertificate, askHealth, toHealthUrl } from "./ask_health.ts";
import { examineOperators } from "./examine_operators.ts";
import { examineProvider } from "./examine_provider.ts";
import { findForeignFile } from "./find_foreign_file.ts";
import {
  type Check,
  type CheckResult,
  examine,
  type Finding,
  fail,
  ok,
  requireReadable,
  skip,
  skipUnseen,
  warn,
} from "./finding.ts";

interface HostContext {
  readonly config: Config;
  readonly clock: Clock;
  /** The address and certificate that the running service itself has noted in the data folder. */
  readonly serving?: ServingAt | undefined;
}

/** The years that a right clock can show: from the year in which this program was written. */
const YEARS = [2026, 2100] as const;
const MB = 1024 * 1024;
const LEAST_FREE_MB = 256;
const LITTLE_FREE_MB = 2_048;
const HEALTH_LIMIT_MS = 6_000;

/** Examines everything that needs no database. */
export function examineHost(context: HostContext): Promise<Finding[]> {
  return examine(context, CHECKS);
}

const CHECKS: readonly Check<HostContext>[] = [
  { name: "data folder", examine: examineFolder },
  { name: "disk", examine: examineDisk },
  { name: "clock", examine: examineClock },
  { name: "tls", examine: examineTls },
  { name: "github app", examine: examineApp },
  { name: "login", examine: examineProvider },
  { name: "service", examine: examineService },
  { name: "operators", examine: examineOperators },
];

function examineFolder({ config: { dataDir, databaseUrl } }: HostContext): CheckResult {
  if (!existsSync(dataDir)) {
    return databaseUrl === undefined
      ? warn(
          `${dataDir} does not exist yet`,
          "`claviger serve` creates it, or name the right folder with --data-dir",
        )
      : ok(`${dataDir} does not exist, and is needed only for hosted model files`);
  }
  const { uid } = lstatSync(realpathSync(dataDir));
  const secret = pathInData(dataDir, "secret");
  const secretMode = lstatSync(secret, { throwIfNoEntry: false })?.mode ?? 0;
  if ((secretMode & 0o077) !== 0) return fail(`other users may read ${secret}`, `chmod 600 ${secret}`);
  const mount = mountOf(realpathSync(dataDir));
  if (databaseUrl === undefined && mount?.options.includes("noexec")) {
    return fail(
      `${mount.path} is mounted noexec, but PostgreSQL runs from ${dataDir}`,
      `mount -o remount,exec ${mount.path}, and take noexec out of /etc/fstab`,
    );
  }
  const foreign = findForeignFile(realpathSync(dataDir));
  if (foreign !== undefined) {
    const owner = findSystemUser(uid)?.name ?? uid;
    return warn(
      `${foreign} does not belong to ${owner}, so the service may be unable to use it`,
      `chown -hR ${owner} ${dataDir}`,
    );
  }
  return ok(`${dataDir}, closed to others`);
}

/** Finds the mount that contains a path. Source: proc(5), `/proc/PID/mountinfo`. */
function mountOf(path: string): { readonly path: string; readonly options: readonly string[] } | undefined {
  if (!existsSync("/proc/self/mountinfo")) return undefined;
  let found: { path: string; options: string[] } | undefined;
  for (const line of readFileSync("/proc/self/mountinfo", "utf8").split("\n")) {
    const [, , , , at = "", options = ""] = line.split(" ");
    const isAbove = at === "/" || path === at || path.startsWith(`${at}/`);
    // A later mount hides an earlier mount of the same path.
    if (at !== "" && isAbove && at.length >= (found?.path.length ?? 0))
      found = { path: at, options: options.split(",") };
  }
  return found;
}

/** Examines how much of the disk of the data folder is free. */
export function examineDisk({ config: { dataDir } }: Pick<HostContext, "config">): CheckResult {
  let folder = dataDir;
  while (!existsSync(folder)) folder = join(folder, "..");
  const { bavail, bsize, files, ffree } = statfsSync(folder);
  const freeMb = Math.floor((bavail * bsize) / MB);
  const text = `${freeMb >= 10_240 ? `${Math.floor(freeMb / 1024)} GB` : `${freeMb} MB`} free for ${dataDir}`;
  const remedy = "free some space, or move the data folder to a larger disk";
  if (freeMb < LEAST_FREE_MB) return fail(text, remedy);
  if (files > 0 && ffree < 1_000)
    return fail(`only ${ffree} more files can be created for ${dataDir}`, remedy);
  return freeMb < LITTLE_FREE_MB ? warn(text, remedy) : ok(text);
}

function examineClock({ clock }: HostContext): CheckResult {
  const now = clock.now();
  const year = now.getUTCFullYear();
  return year < YEARS[0] || year > YEARS[1]
    ? fail(`it shows ${toTimestamp(now)}, which cannot be right`, "timedatectl set-ntp true, or set the time")
    : ok(toTimestamp(now));
}

async function examineTls({ config, clock, serving }: HostContext): Promise<CheckResult> {
  const { trustedProxies } = config;
  // The running service counts, not the settings: they apply from its next start.
  const { host, tls } = serving ?? config;
  if (tls === undefined) {
    const unseen = serving === undefined ? skipUnseen(config) : undefined;
    if (unseen !== undefined) return unseen;
    const isOpen = !isLoopback(host) && trustedProxies.length === 0;
    return isOpen
      ? warn(
          `keys reach ${host} unencrypted`,
          "set CLAVIGER_TLS_CERT and CLAVIGER_TLS_KEY, or put a proxy in front of the service",
        )
      : ok("none: only a proxy or this machine should call the service");
  }
  const found = [tls.certFile, tls.keyFile].every(isReadable)
    ? loadCertificate(tls)
    : serving && (await askCertificate(new URL(toUrl(serving)), { timeoutMs: HEALTH_LIMIT_MS }));
  if (found === undefined) {
    const unreadable = [tls.certFile, tls.keyFile].filter((file) => !isReadable(file)).join(" and ");
    const why = `this user may not read ${unreadable}, and no running service shows the certificate`;
    return skip(why, "run it while the service runs");
  }
  if (isRefusal(found)) return fail(found.sentence, "see CLAVIGER_TLS_CERT and CLAVIGER_TLS_KEY");
  const warning = tlsWarning(found, clock.now());
  if (warning === undefined) return ok(`the certificate is good until ${toMinute(found.expiresAt)}`);
  const isRefused = found.expiresAt <= clock.now() || found.validFrom > clock.now();
  return (isRefused ? fail : warn)(
    warning,
    tls.isCopy
      ? "renew the file that the unit passes to the service, then `systemctl restart claviger`"
      : `renew ${tls.certFile}, then \`systemctl reload claviger\``,
  );
}

/** The remedy for a GitHub App that cannot be used because of its key. */
export const APP_REMEDY = "name the file of its key in CLAVIGER_GITHUB_PRIVATE_KEY_FILE";

/** The remedies for a GitHub host that gives no token now. */
const REMEDIES = {
  away: (url: string) => `check whether this machine reaches ${url}`,
  limited: () => "wait: the service tries again when the host allows it",
  faulty: (url: string) => `check whether ${url} is the host's API and works; the service tries again`,
} as const;

async function examineApp({ config, clock }: HostContext): Promise<CheckResult> {
  const { gitHubApp } = config;
  const unseen = gitHubApp?.privateKeyFile === undefined ? skipUnseen(config) : undefined;
  if (unseen !== undefined) return unseen;
  if (gitHubApp === undefined) return ok("none: the repository token is a stored one");
  if (gitHubApp.privateKeyFile !== undefined) requireReadable(gitHubApp.privateKeyFile);
  const app = openGitHubApp(gitHubApp);
  if (isRefusal(app)) return fail(app.sentence, APP_REMEDY);
  const failure = await tryGitHubApp(app, { clock });
  if (failure === undefined) return ok(`App ${gitHubApp.appId} mints tokens for ${gitHubApp.repository}`);
  return failure.kind === "refused"
    ? fail(failure.reason, "remove this cause, then `systemctl restart claviger`")
    : warn(failure.reason, REMEDIES[failure.kind](gitHubApp.apiUrl));
}

async function examineService({ config, serving }: HostContext): Promise<CheckResult> {
  if (serving === undefined && config.databaseUrl === undefined) return await examineAbsence(config);
  // The service's own note comes first: another process cannot read the flags of `serve`, such as --port.
  const at = serving ?? config;
  const url = toHealthUrl(new URL(toUrl(at)));
  if (at.port === 0) return ok("the system chooses its port, so it cannot be asked here");
  const answer = await askHealth(url, { timeoutMs: HEALTH_LIMIT_MS, trustAny: true });
  if (answer.isHealthy) {
    // Without a data folder a service leaves no note, so only the address of the settings is known.
    const doubt =
      serving === undefined ? ", the address in the settings: it may be another installation" : "";
    return ok(`healthy at ${url.origin}${doubt}`);
  }
  if (answer.httpStatus === undefined) {
    return warn(`no service answers at ${url.origin}: ${answer.error}${renderHolder(at.port)}`, START);
  }
  return fail(`at ${url.origin}: ${answer.error}`, "see the service's log: `journalctl -u claviger`");
}

const START = "`systemctl start claviger` or `claviger serve`";

/**
 * Returns the finding for an installation whose data folder has no note of a running service: no service runs
 * from it, even if a server answers at the address of the settings.
 */
async function examineAbsence(config: Config): Promise<CheckResult> {
  const { dataDir } = config;
  // If this user may not read the folder, a note may exist: this throws EACCES, which becomes a `skip`.
  if (existsSync(dataDir)) accessSync(dataDir, constants.R_OK | constants.X_OK);
  const none = `no service runs from ${dataDir}`;
  if (config.port === 0) return warn(none, START);
  const url = toHealthUrl(new URL(toUrl(config)));
  const { httpStatus, database } = await askHealth(url, { timeoutMs: HEALTH_LIMIT_MS, trustAny: true });
  const holder = renderHolder(config.port);
  if (httpStatus === undefined) {
    return holder === "" ? warn(none, START) : warn(`${none}${holder}`, `${START}, with another --port`);
  }
  const other = database === undefined ? "another program answers" : "another installation answers";
  return warn(`${none}; at ${url.origin} ${other}${holder}`, `${START}, with another --port`);
}

/** Says who listens on a port, as the end of a finding; "" if nobody is found. */
function renderHolder(port: number): string {
  const holder = describeListener(port);
  return holder === undefined ? "" : `; port ${port} is in use by ${holder}`;
}

/** Returns the address at which this machine reaches a service that listens at `host` and `port`. */
function toUrl({ host, port, tls }: ServingAt): string {
  return originOf({ host: toReachedHost(host), port }, tls !== undefined);
}
