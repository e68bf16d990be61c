/** What can be said without a database: folder, disk, clock, certificate, and whether a service answers. */
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
import { toTimestamp } from "../calendar.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/mod.ts";
import { originOf } from "../endpoints.ts";
import type { ServingAt } from "../installation/mod.ts";
import { isRefusal } from "../refusal.ts";
import { openGitHubApp, tryGitHubApp } from "../repository_token/mod.ts";
import { readTlsIdentity, tlsWarning } from "../tls/mod.ts";
import { askHealth } from "./ask_health.ts";
import { type Check, demandSight, examine, type Finding, fail, ok, unseenBy, warn } from "./finding.ts";

export interface HostContext {
  readonly config: Config;
  readonly clock: Clock;
  /** What the running service itself says of where it listens and with what. */
  readonly serving?: ServingAt | undefined;
}

/** Before this program was written, and after it will be forgotten: a clock that shows them is wrong. */
const YEARS = [2026, 2100] as const;
const MB = 1024 * 1024;
const LEAST_FREE_MB = 256;
const LITTLE_FREE_MB = 2_048;
const HEALTH_LIMIT_MS = 6_000;
const LOOPBACK = /^(127\.|::1$|localhost$)/;

export function examineHost(
  context: HostContext,
  more: readonly Check<HostContext>[] = [],
): Promise<Finding[]> {
  return examine(context, [...CHECKS, ...more]);
}

const CHECKS: readonly Check<HostContext>[] = [
  { name: "data folder", examine: examineFolder },
  { name: "disk", examine: examineDisk },
  { name: "clock", examine: examineClock },
  { name: "tls", examine: examineTls },
  { name: "github app", examine: examineApp },
  { name: "service", examine: examineService },
];

function examineFolder({ config: { dataDir, databaseUrl } }: HostContext): Finding {
  const name = "data folder";
  if (!existsSync(dataDir)) {
    return databaseUrl === undefined
      ? warn(
          name,
          `${dataDir} does not exist yet`,
          "`claviger serve` makes it, or name the right one with --data-dir",
        )
      : ok(name, `${dataDir} does not exist, and is needed for hosted model files only`);
  }
  const { mode } = lstatSync(realpathSync(dataDir));
  if ((mode & 0o022) !== 0) return fail(name, `others may write to ${dataDir}`, `chmod go-w ${dataDir}`);
  const secret = join(dataDir, "secret");
  const secretMode = lstatSync(secret, { throwIfNoEntry: false })?.mode ?? 0;
  if ((secretMode & 0o077) !== 0) return fail(name, `others may read ${secret}`, `chmod 600 ${secret}`);
  const mount = mountOf(realpathSync(dataDir));
  if (databaseUrl === undefined && mount?.options.includes("noexec")) {
    return fail(
      name,
      `${mount.path} is mounted noexec, and PostgreSQL is run from ${dataDir}`,
      `mount -o remount,exec ${mount.path}, and take noexec out of /etc/fstab`,
    );
  }
  return ok(name, `${dataDir}, closed to others`);
}

/** The mount that a path is on. Source: proc(5), `/proc/PID/mountinfo`. */
function mountOf(path: string): { readonly path: string; readonly options: readonly string[] } | undefined {
  if (!existsSync("/proc/self/mountinfo")) return undefined;
  let found: { path: string; options: string[] } | undefined;
  for (const line of readFileSync("/proc/self/mountinfo", "utf8").split("\n")) {
    const [, , , , at = "", options = ""] = line.split(" ");
    const isAbove = at === "/" || path === at || path.startsWith(`${at}/`);
    // A later mount lies over an earlier one of the same path.
    if (at !== "" && isAbove && at.length >= (found?.path.length ?? 0))
      found = { path: at, options: options.split(",") };
  }
  return found;
}

function examineDisk({ config: { dataDir } }: HostContext): Finding {
  let folder = dataDir;
  while (!existsSync(folder)) folder = join(folder, "..");
  const { bavail, bsize, files, ffree } = statfsSync(folder);
  const freeMb = Math.floor((bavail * bsize) / MB);
  const text = `${freeMb >= 10_240 ? `${Math.floor(freeMb / 1024)} GB` : `${freeMb} MB`} free for ${dataDir}`;
  const remedy = "free some space, or move the data folder to a larger disk";
  if (freeMb < LEAST_FREE_MB) return fail("disk", text, remedy);
  if (files > 0 && ffree < 1_000)
    return fail("disk", `${ffree} files can still be made for ${dataDir}`, remedy);
  return freeMb < LITTLE_FREE_MB ? warn("disk", text, remedy) : ok("disk", text);
}

function examineClock({ clock }: HostContext): Finding {
  const now = clock.now();
  const year = now.getUTCFullYear();
  return year < YEARS[0] || year > YEARS[1]
    ? fail("clock", `it is ${toTimestamp(now)}, which cannot be`, "timedatectl set-ntp true, or set the time")
    : ok("clock", toTimestamp(now));
}

function examineTls({ config, clock, serving }: HostContext): Finding {
  const { trustedProxies } = config;
  // A service that runs without a certificate has none, whatever the settings of its next start say.
  const { host, tls } = serving ?? config;
  if (tls === undefined) {
    const unseen = serving === undefined ? unseenBy("tls", config) : undefined;
    if (unseen !== undefined) return unseen;
    const isOpen = !LOOPBACK.test(host) && trustedProxies.length === 0;
    return isOpen
      ? warn(
          "tls",
          `keys reach ${host} unencrypted`,
          "set CLAVIGER_TLS_CERT and CLAVIGER_TLS_KEY, or put a proxy before",
        )
      : ok("tls", "none: a proxy before the service, or this machine alone, is meant to use it");
  }
  for (const file of [tls.certFile, tls.keyFile]) demandSight(file);
  const found = readTlsIdentity(tls);
  if (isRefusal(found)) return fail("tls", found.sentence, "see CLAVIGER_TLS_CERT and CLAVIGER_TLS_KEY");
  const warning = tlsWarning(found, clock.now());
  if (warning === undefined)
    return ok("tls", `the certificate is good until ${toTimestamp(found.expiresAt)}`);
  const isRefused = found.expiresAt <= clock.now() || found.validFrom > clock.now();
  return (isRefused ? fail : warn)(
    "tls",
    warning,
    tls.isCopy
      ? "renew the file that the unit hands over, then `systemctl restart claviger`"
      : `renew ${tls.certFile}, then \`systemctl reload claviger\``,
  );
}

/** What to do about a GitHub App that cannot be used: it is its key. */
export const MEND_APP =
  "give its key to `claviger systemd --github-key`, or name the file by CLAVIGER_GITHUB_PRIVATE_KEY_FILE";

/** What to do about a GitHub host that gives no token now. */
const REMEDIES = {
  away: (url: string) => `see whether this machine reaches ${url}`,
  limited: () => "wait: the service tries again when the host allows it",
  faulty: (url: string) => `see whether ${url} is the host's interface and works; the service tries again`,
} as const;

async function examineApp({ config, clock }: HostContext): Promise<Finding> {
  const { gitHubApp } = config;
  const unseen = gitHubApp?.privateKeyFile === undefined ? unseenBy("github app", config) : undefined;
  if (unseen !== undefined) return unseen;
  if (gitHubApp === undefined) return ok("github app", "none: the repository token is one that is stored");
  if (gitHubApp.privateKeyFile !== undefined) demandSight(gitHubApp.privateKeyFile);
  const app = openGitHubApp(gitHubApp);
  if (isRefusal(app)) return fail("github app", app.sentence, MEND_APP);
  const failure = await tryGitHubApp(app, { clock });
  if (failure === undefined)
    return ok("github app", `App ${gitHubApp.appId} mints tokens for ${gitHubApp.repository}`);
  return failure.kind === "refused"
    ? fail("github app", failure.reason, "mend what the sentence names, then `systemctl restart claviger`")
    : warn("github app", failure.reason, REMEDIES[failure.kind](gitHubApp.apiUrl));
}

async function examineService({ config, serving }: HostContext): Promise<Finding> {
  if (serving === undefined && config.databaseUrl === undefined) return await examineAbsence(config);
  // The service's own word first: `serve --port` is no setting that anybody else could read.
  const at = serving ?? config;
  const url = new URL(toUrl(at));
  if (at.port === 0) return ok("service", "its port is the system's choice, so nobody can be asked");
  const answer = await askHealth(url, { timeoutMs: HEALTH_LIMIT_MS, trustAny: true });
  if (answer.isHealthy) {
    // Without a data folder a service leaves no word of itself: the address is all that there is to go by.
    const doubt = serving === undefined ? ", by the settings alone: it may be another installation's" : "";
    return ok("service", `healthy at ${url.origin}${doubt}`);
  }
  if (answer.httpStatus === undefined) {
    return warn("service", `none answers at ${url.origin}: ${answer.error}`, START);
  }
  return fail(
    "service",
    `at ${url.origin}: ${answer.error}`,
    "see the service's log: `journalctl -u claviger`",
  );
}

const START = "`systemctl start claviger` or `claviger serve`";

/**
 * A service leaves its word in the data folder: without one none runs from it, whoever answers at the address
 * of the settings.
 */
async function examineAbsence(config: Config): Promise<Finding> {
  const { dataDir } = config;
  // Where this user may not look, nothing is known: what is thrown says so.
  if (existsSync(dataDir)) accessSync(dataDir, constants.R_OK | constants.X_OK);
  const none = `none runs from ${dataDir}`;
  if (config.port === 0) return warn("service", none, START);
  const url = new URL(toUrl(config));
  const { httpStatus, database } = await askHealth(url, { timeoutMs: HEALTH_LIMIT_MS, trustAny: true });
  if (httpStatus === undefined) return warn("service", none, START);
  const other = database === undefined ? "what answers is no Claviger" : "another installation's answers";
  return warn("service", `${none}; at ${url.origin} ${other}`, `${START}, with another --port`);
}

/** Where a service that listens there is asked from this machine. */
function toUrl({ host, port, tls }: ServingAt): string {
  const reached = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `${originOf({ host: reached, port }, tls !== undefined)}/api/health`;
}
