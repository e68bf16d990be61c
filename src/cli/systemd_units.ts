/** The texts of the units with which systemd runs the service and its backup. */
import packageJson from "../../package.json" with { type: "json" };
import { DEFAULT_ENV_FILE, parseSetting, type SettingName } from "../installation/config/mod.ts";
import { NEEDS_PERSON, WRONG_USAGE } from "./exit_status.ts";

export const BACKUP_UNITS = [
  "claviger-backup.service",
  "claviger-backup.timer",
  "claviger-failed@.service",
] as const;

/** A setting that belongs to a unit, and stands in the settings file. */
export interface UnitSetting {
  readonly name: SettingName;
  readonly value: string;
}

/** Returns the line of the settings file. */
export function toLine({ name, value }: UnitSetting): string {
  return `${name}=${value}`;
}

/** What decides about the lines of the service's unit. */
interface UnitOptions {
  readonly binary: string;
  readonly port?: number;
  readonly adminListen?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsGroup?: string;
  readonly template: boolean;
}

const STATE_FOLDER = "/var/lib/claviger";
const BACKUPS_FOLDER = "/var/backups/claviger";

/** Names no shell: systemd's default is a shell that does not allow a login. Source: sysusers.d(5). */
export const SYSUSERS_LINE = `u claviger - "Claviger, licensing and model registry" ${STATE_FOLDER}\n`;

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
export function renderUnit(options: UnitOptions, settings: readonly UnitSetting[]): string {
  const { binary, port, adminListen, tlsCert, tlsKey, tlsGroup, template } = options;
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
export function renderBackupUnit(name: (typeof BACKUP_UNITS)[number], binary: string): string {
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
