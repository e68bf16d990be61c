/**
 * `claviger systemd`: prints the units with which systemd runs the service and its backup.
 *
 * A unit has no `Environment=`: the settings file has every setting, so the service and the commands read the same
 * file. The unit only has what systemd must do: the capability for a port below 1024, copies of files that only root
 * may read, or a group that may read them. `--settings` prints the lines of the settings file that belong to the unit.
 */
import packageJson from "../../../package.json" with { type: "json" };
import { findSystemUser } from "../../base/host/mod.ts";
import { matching, wholeNumber } from "../../base/rule.ts";
import { readOrigin } from "../../base/version.ts";
import {
  createLookup,
  DEFAULT_ENV_FILE,
  parseSetting,
  refuseSameAddress,
  type SettingName,
  settingOf,
} from "../../installation/config/mod.ts";
import { command } from "../command.ts";
import { NEEDS_PERSON, WRONG_USAGE } from "../exit_status.ts";
import { settingText } from "../options.ts";
import { flag, option, type ValuesOf } from "../parameter.ts";
import { WrongUsage } from "../run.ts";

/** Refuses characters that have a special meaning in a unit or a settings file, such as `%`, `:`, quotes and the space. */
const PATH = matching(/^\/[\w./+@-]+$/, "an absolute path of letters, digits and . _ + @ -");
const GROUP = matching(/^[a-z_][a-z0-9_-]{0,31}$/, "the name of a group");

const BACKUP_UNITS = [
  "claviger-backup.service",
  "claviger-backup.timer",
  "claviger-failed@.service",
] as const;

/** The options that give a setting. */
const SETTING_NAMES = {
  host: "CLAVIGER_HOST",
  port: "CLAVIGER_PORT",
  adminListen: "CLAVIGER_ADMIN_LISTEN",
  tlsCert: "CLAVIGER_TLS_CERT",
  tlsKey: "CLAVIGER_TLS_KEY",
  secret: "CLAVIGER_SECRET_FILE",
  githubKey: "CLAVIGER_GITHUB_PRIVATE_KEY_FILE",
} as const satisfies Readonly<Record<string, SettingName>>;

const OF_SERVICE = [...Object.keys(SETTING_NAMES), "tlsGroup", "settings"];

const OPTIONS = {
  binary: option("the path of the executable; by default where its package or the manual installs it", PATH, {
    as: "path",
    default: readOrigin() === "package" ? process.execPath : "/usr/local/bin/claviger",
  }),
  host: option("the address to listen on", settingText("CLAVIGER_HOST")),
  port: option(
    "the port to listen on; below 1024 the unit gets the capability for it",
    wholeNumber(1, 65_535),
  ),
  adminListen: option(
    "serve the console and the API for operators at this address; its port gets the capability, too",
    settingText("CLAVIGER_ADMIN_LISTEN"),
    { as: "host:port" },
  ),
  tlsCert: option("the certificate; a copy is given to the service as a credential", PATH, { as: "file" }),
  tlsKey: option("the certificate's private key; a copy is given to the service as a credential", PATH, {
    as: "file",
  }),
  tlsGroup: option(
    "give no credentials for TLS: the service reads both files as a member of this group",
    GROUP,
    { as: "group" },
  ),
  secret: option("the file of the root secret, which the user claviger must be able to read", PATH, {
    as: "file",
  }),
  githubKey: option(
    "the file of the GitHub App's private key, which the user claviger must be able to read",
    PATH,
    { as: "file" },
  ),
  settings: flag(
    "print the lines of /etc/claviger/claviger.env that the other options stand for, instead of the unit",
  ),
  unit: option(
    "print a unit of the hourly backup instead, or the unit that tells people when it failed",
    BACKUP_UNITS,
    {
      as: "name",
      conflicts: [...OF_SERVICE, "sysusers"],
    },
  ),
  template: flag("print the template claviger@.service, by which one host runs several services", {
    conflicts: ["port", "adminListen", "unit", "sysusers"],
  }),
  sysusers: flag("print the line for sysusers.d that creates the service's user, instead of the unit", {
    conflicts: OF_SERVICE,
  }),
};

export const systemd = command({
  name: "systemd",
  description: "print a hardened systemd unit for this service or its backup",
  options: OPTIONS,
  run(values, { invocation, print }) {
    if (values.unit !== undefined) return invocation.out(renderBackupUnit(values.unit, values.binary));
    if (values.sysusers) return invocation.out(SYSUSERS_LINE);
    refuseWrongOptions(values);
    const settings = toSettings(values);
    if (values.settings && settings.length === 0)
      throw new WrongUsage(
        "Cannot print settings: name at least one option that gives a setting, such as --port",
      );
    if (values.settings) return invocation.out(settings.map((each) => `${toLine(each)}\n`).join(""));
    invocation.out(renderUnit(values, settings));
    const missing = findMissing(settings);
    if (missing.length > 0)
      print.note(
        `claviger: The service needs these lines in ${DEFAULT_ENV_FILE}; --settings prints them alone:`,
      );
    for (const each of missing) print.note(`  ${toLine(each)}`);
    const warning = warnOfUser(findSystemUser("claviger"));
    if (warning !== undefined) print.note(`claviger: ${warning}`);
  },
});

type Values = ValuesOf<typeof OPTIONS>;

interface Setting {
  readonly name: SettingName;
  readonly value: string;
}

/** Returns the settings for which the options stand, in the order of the options. */
function toSettings(values: Values): Setting[] {
  return Object.entries(SETTING_NAMES).flatMap(([option, name]) => {
    const value = values[option as keyof typeof SETTING_NAMES];
    return value === undefined ? [] : [{ name, value: String(value) }];
  });
}

function toLine({ name, value }: Setting): string {
  return `${name}=${value}`;
}

/**
 * Returns the settings that a settings file lacks or has with another value; all of them if this user may not read the
 * file, or if it is wrong.
 */
export function findMissing(settings: readonly Setting[], envFile?: string): readonly Setting[] {
  try {
    const find = createLookup({ env: {}, envFile, workingFolder: "/", isRoot: false });
    return settings.filter(({ name, value }) => find(name).value !== value);
  } catch {
    return settings;
  }
}

function refuseWrongOptions({ host, port, adminListen, tlsCert, tlsKey, tlsGroup }: Values): void {
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw new WrongUsage("Cannot print the unit: --tls-cert and --tls-key go together");
  }
  if (tlsGroup !== undefined && tlsCert === undefined) {
    throw new WrongUsage("Cannot print the unit: --tls-group needs --tls-cert and --tls-key");
  }
  const same = refuseSameAddress({
    host: host ?? settingOf("CLAVIGER_HOST").default,
    port: port ?? Number(settingOf("CLAVIGER_PORT").default),
    adminListen: parseSetting("CLAVIGER_ADMIN_LISTEN", adminListen ?? ""),
  });
  if (same !== undefined) throw new WrongUsage(same.sentence);
}

const STATE_FOLDER = "/var/lib/claviger";
const BACKUPS_FOLDER = "/var/backups/claviger";

/** Names no shell: systemd's default is a shell that does not allow a login. Source: sysusers.d(5). */
const SYSUSERS_LINE = `u claviger - "Claviger, licensing and model registry" ${STATE_FOLDER}\n`;

/** The numbers of users that a unit with DynamicUser gets. Source: the page UIDS-GIDS of systemd. */
const DYNAMIC_UIDS = [61_184, 65_519] as const;

/** Returns why the unit cannot start on this host yet, from the user of the name `claviger`; undefined if it can. */
export function warnOfUser(user: { readonly uid: number } | undefined): string | undefined {
  const create = "create it with the line that `claviger systemd --sysusers` prints";
  if (user === undefined)
    return `The user claviger is missing on this host: before you start this unit, ${create}; see \`claviger guide service\``;
  if (user.uid < DYNAMIC_UIDS[0] || user.uid > DYNAMIC_UIDS[1]) return undefined;
  return `The user claviger exists only while the unit with DynamicUser runs: stop that unit first, then ${create}; see \`claviger guide systemd\``;
}

/** A port below this one needs a capability, and no user namespace of the unit's own (`PrivateUsers=`). */
const FIRST_FREE_PORT = 1_024;

/**
 * Writes the unit.
 *
 * The unit allows what a JIT and PostgreSQL need: memory that is both written and executed, executables in
 * the state folder, unix sockets, shared memory and child processes.
 *
 * This is one long function, so that the code shows the unit in the order of its lines.
 */
function renderUnit(values: Values, settings: readonly Setting[]): string {
  const { binary, port, adminListen, tlsCert, tlsKey, tlsGroup, template } = values;
  const operators = parseSetting("CLAVIGER_ADMIN_LISTEN", adminListen ?? "");
  const isPrivileged = [port ?? 0, operators?.port ?? 0].some((each) => each > 0 && each < FIRST_FREE_PORT);
  const hasCredentials = tlsCert !== undefined && tlsGroup === undefined;
  const all = template ? "'claviger@*'" : "claviger";

  return `${[
    `# Printed by \`claviger systemd\`, version ${packageJson.version}. A unit of your own goes into`,
    `# /etc/systemd/system/${template ? "claviger@" : "claviger"}.service; then`,
    `#   systemctl daemon-reload && systemctl enable --now ${template ? "claviger@1 claviger@2" : "claviger"}`,
    `# Settings are in ${DEFAULT_ENV_FILE}. Commands of the user claviger read the file, too.`,
    ...(settings.length > 0
      ? [
          "# This unit needs these lines there; the same command with --settings prints them:",
          ...settings.map((each) => `#   ${toLine(each)}`),
        ]
      : []),
    ...(template
      ? ["# Settings of one service, such as its CLAVIGER_PORT, are in /etc/claviger/claviger@1.env."]
      : []),
    "",
    "[Unit]",
    `Description=Claviger, licensing and model registry${template ? ", service %i" : ""}`,
    "Wants=network-online.target",
    "After=network-online.target postgresql.service",
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    "Type=notify",
    "NotifyAccess=main",
    `ExecStart=${binary} serve`,
    "ExecReload=/bin/kill -HUP $MAINPID",
    `EnvironmentFile=-${DEFAULT_ENV_FILE}`,
    ...(template ? ["EnvironmentFile=/etc/claviger/claviger@%i.env"] : []),
    ...(hasCredentials
      ? [
          "# Copies of the two files that the settings name. The service reads them if its user may not read the files",
          `# themselves. systemd makes them at the start: after a renewal, \`systemctl restart ${all}\`.`,
          `LoadCredential=claviger-tls-cert:${tlsCert}`,
          `LoadCredential=claviger-tls-key:${tlsKey}`,
        ]
      : []),
    ...(tlsGroup === undefined
      ? []
      : [`# After a renewal, \`systemctl reload ${all}\`.`, `SupplementaryGroups=${tlsGroup}`]),
    "",
    "# The service's own system user (`claviger systemd --sysusers` prints the line that creates it), so that",
    "# commands also work while the service is stopped.",
    "User=claviger",
    `# ${STATE_FOLDER} must not be mounted noexec: PostgreSQL is unpacked there.`,
    "StateDirectory=claviger",
    "StateDirectoryMode=0700",
    "UMask=0077",
    "",
    "# The first start unpacks PostgreSQL, and a start after a crash may have much to recover.",
    "TimeoutStartSec=15min",
    "# The service stops within 10 s. Only the service gets SIGTERM, and it stops its PostgreSQL. systemd kills",
    "# the processes that are left.",
    "KillMode=mixed",
    "TimeoutStopSec=20s",
    "Restart=always",
    "RestartSec=1s",
    "# Faults that only a person can repair. systemd itself reports a missing user (217), a link in place of the data",
    "# folder (238) and a missing credential (243). A restart does not help (`claviger guide troubleshooting`).",
    `RestartPreventExitStatus=${WRONG_USAGE} ${NEEDS_PERSON} 217 238 243`,
    "WatchdogSec=30s",
    "# If the kernel kills PostgreSQL because memory is short, the service starts it again.",
    "OOMPolicy=continue",
    "LimitNOFILE=65536",
    "LimitCORE=0",
    "TasksMax=512",
    "# You may set MemoryMax=. Never set MemoryDenyWriteExecute= or LimitAS=: a JIT does not work with them.",
    "",
    ...(isPrivileged
      ? ["CapabilityBoundingSet=CAP_NET_BIND_SERVICE", "AmbientCapabilities=CAP_NET_BIND_SERVICE"]
      : ["CapabilityBoundingSet=", "AmbientCapabilities=", "PrivateUsers=yes"]),
    ...HARDENING,
    "",
    "[Install]",
    "WantedBy=multi-user.target",
  ].join("\n")}\n`;
}

// No RemoveIPC=: when the service ends, systemd would remove the shared memory of the PostgreSQL that a command of the
// same user runs.
const HARDENING = [
  "NoNewPrivileges=yes",
  "ProtectSystem=strict",
  "ProtectHome=yes",
  "PrivateTmp=yes",
  "PrivateDevices=yes",
  "DevicePolicy=closed",
  "PrivateIPC=yes",
  "ProtectProc=invisible",
  "ProcSubset=pid",
  "ProtectClock=yes",
  "ProtectControlGroups=yes",
  "ProtectHostname=yes",
  "ProtectKernelLogs=yes",
  "ProtectKernelModules=yes",
  "ProtectKernelTunables=yes",
  "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
  "RestrictNamespaces=yes",
  "RestrictRealtime=yes",
  "RestrictSUIDSGID=yes",
  "LockPersonality=yes",
  "KeyringMode=private",
  "SystemCallArchitectures=native",
  "SystemCallFilter=@system-service",
  "SystemCallFilter=~@privileged @resources",
  "SystemCallErrorNumber=EPERM",
];

/** The backup must see the process of the service, and the shared memory of its PostgreSQL. */
const HIDES_SERVICE = ["ProtectProc=invisible", "PrivateIPC=yes"];

/** Writes a unit of the hourly backup. */
function renderBackupUnit(name: (typeof BACKUP_UNITS)[number], binary: string): string {
  const texts = {
    "claviger-backup.service": `[Unit]
Description=Backup of Claviger
OnFailure=claviger-failed@%N.service

[Service]
Type=oneshot
ExecStart=${binary} backup ${BACKUPS_FOLDER}/ --with-secret --keep 24h,7d,5w
User=claviger
UMask=0077
ReadWritePaths=${BACKUPS_FOLDER} ${STATE_FOLDER}
CapabilityBoundingSet=
PrivateUsers=yes
${HARDENING.filter((line) => !HIDES_SERVICE.includes(line)).join("\n")}
`,
    "claviger-backup.timer": `[Unit]
Description=Backup of Claviger every hour

[Timer]
OnCalendar=hourly
RandomizedDelaySec=10min
FixedRandomDelay=true
Persistent=true

[Install]
WantedBy=timers.target
`,
    "claviger-failed@.service": `[Unit]
Description=Tell everyone who is logged in that %i failed

[Service]
Type=oneshot
ExecStart=/usr/bin/systemd-cat -t claviger -p emerg /bin/echo '%i failed: see journalctl -u %i'
`,
  };
  return texts[name];
}
