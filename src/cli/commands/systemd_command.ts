/** `claviger systemd`: prints the unit by which systemd runs the service. */
import type { Command } from "commander";
import { InvalidArgumentError, Option } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import { WRONG_SETTINGS, WRONG_USAGE } from "../exit_status.ts";
import { wholeNumberOption } from "../options.ts";
import { WrongUsage } from "../run.ts";
import type { Surroundings } from "../surroundings.ts";

export interface UnitOptions {
  readonly binary: string;
  readonly host?: string;
  readonly port?: number;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsGroup?: string;
  readonly secret?: string;
  readonly githubKey?: string;
}

interface SystemdOptions extends UnitOptions {
  readonly sysusers: boolean;
}

export function addSystemdCommand(program: Command, surroundings: Surroundings): void {
  program
    .command("systemd")
    .description("print a hardened systemd unit for this service")
    .option("--binary <path>", "where the executable lies", pathOption, "/usr/local/bin/claviger")
    .option("--host <host>", "the address to listen on", hostOption)
    .option(
      "--port <port>",
      "the port; below 1024 it gets the one capability for that",
      wholeNumberOption(1, 65_535),
    )
    .option("--tls-cert <file>", "the certificate, handed over as a credential", pathOption)
    .option("--tls-key <file>", "its key, handed over as a credential", pathOption)
    .option(
      "--tls-group <group>",
      "leave both where they are: members of this group may read them",
      groupOption,
    )
    .option("--secret <file>", "the root secret, handed over as a credential", pathOption)
    .option("--github-key <file>", "the GitHub App's key, handed over as a credential", pathOption)
    .addOption(
      new Option("--sysusers", "print the line of sysusers.d that makes the service's user instead")
        .default(false)
        .conflicts(["host", "port", "tlsCert", "tlsKey", "tlsGroup", "secret", "githubKey"]),
    )
    .action((options: SystemdOptions) =>
      surroundings.out(options.sysusers ? SYSUSERS_LINE : renderUnit(options)),
    );
}

const STATE_FOLDER = "/var/lib/claviger";

/** Source: sysusers.d(5). No shell is named: systemd's own default is one that nobody can log in with. */
const SYSUSERS_LINE = `u claviger - "Claviger, licensing and model registry" ${STATE_FOLDER}\n`;

const CREDENTIALS = [
  { option: "secret", name: "claviger-secret", setting: "CLAVIGER_SECRET_FILE" },
  { option: "githubKey", name: "claviger-github-key", setting: "CLAVIGER_GITHUB_PRIVATE_KEY_FILE" },
  { option: "tlsCert", name: "claviger-tls-cert", setting: "CLAVIGER_TLS_CERT" },
  { option: "tlsKey", name: "claviger-tls-key", setting: "CLAVIGER_TLS_KEY" },
] as const;

/** A privileged port needs a capability, and that the service lives in the users' own name space. */
const FIRST_FREE_PORT = 1_024;

/**
 * Writes the unit.
 *
 * What is left open is what a JIT and a PostgreSQL need: memory that is both written and executed,
 * executables of its own in the state folder, unix sockets, shared memory and child processes.
 *
 * Stays one long function, so that the unit stands there as it is printed.
 */
export function renderUnit(options: UnitOptions): string {
  const { binary, host, port, tlsCert, tlsKey, tlsGroup } = options;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw new WrongUsage("Cannot print the unit: --tls-cert and --tls-key go together");
  }
  if (tlsGroup !== undefined && tlsCert === undefined) {
    throw new WrongUsage("Cannot print the unit: --tls-group needs --tls-cert and --tls-key");
  }
  const isPrivileged = port !== undefined && port < FIRST_FREE_PORT;
  const environment = [
    ...(host === undefined ? [] : [`CLAVIGER_HOST=${host}`]),
    ...(port === undefined ? [] : [`CLAVIGER_PORT=${port}`]),
    ...(tlsGroup === undefined ? [] : [`CLAVIGER_TLS_CERT=${tlsCert}`, `CLAVIGER_TLS_KEY=${tlsKey}`]),
  ];
  const credentials = CREDENTIALS.filter(({ option }) => options[option] !== undefined).filter(
    ({ option }) => tlsGroup === undefined || !option.startsWith("tls"),
  );
  const handsTlsOver = credentials.some(({ option }) => option.startsWith("tls"));

  return `${[
    `# Printed by \`claviger systemd\`, version ${packageJson.version}. Put it into`,
    "# /etc/systemd/system/claviger.service, then",
    "#   systemctl daemon-reload && systemctl enable --now claviger",
    "# Settings are in /etc/claviger/claviger.env; systemd reads it as root, so root alone needs to.",
    "",
    "[Unit]",
    "Description=Claviger, licensing and model registry",
    "Wants=network-online.target",
    "After=network-online.target postgresql.service",
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    "Type=notify",
    "NotifyAccess=main",
    `ExecStart=${binary} serve`,
    "ExecReload=/bin/kill -HUP $MAINPID",
    "EnvironmentFile=-/etc/claviger/claviger.env",
    ...environment.map((line) => `Environment=${line}`),
    // Named besides being there: without one, the service refuses to start instead of doing without.
    ...credentials.flatMap(({ option, name, setting }) => [
      `LoadCredential=${name}:${options[option]}`,
      `Environment=${setting}=/run/credentials/%n/${name}`,
    ]),
    ...(handsTlsOver
      ? ["# Credentials are copied at start: after a renewal, `systemctl restart claviger`."]
      : []),
    ...(tlsGroup === undefined
      ? []
      : ["# After a renewal, `systemctl reload claviger`.", `SupplementaryGroups=${tlsGroup}`]),
    "",
    "# A system user of its own (`claviger systemd --sysusers` has the line that makes it): commands work while",
    "# the service is stopped, too.",
    "User=claviger",
    `# ${STATE_FOLDER} must not be mounted noexec: PostgreSQL is unpacked there.`,
    "StateDirectory=claviger",
    "StateDirectoryMode=0700",
    "UMask=0077",
    "",
    "# The first start unpacks PostgreSQL, and one after a crash may have much to recover.",
    "TimeoutStartSec=15min",
    "# It stops by itself within 10 s. SIGTERM is for the service alone, which then stops its PostgreSQL;",
    "# what is left after that is killed.",
    "KillMode=mixed",
    "TimeoutStopSec=20s",
    "Restart=always",
    "RestartSec=1s",
    "# Wrong usage and wrong settings, which no restart mends.",
    `RestartPreventExitStatus=${WRONG_USAGE} ${WRONG_SETTINGS}`,
    "WatchdogSec=30s",
    "# A PostgreSQL that the kernel killed for want of memory is started again by the service.",
    "OOMPolicy=continue",
    "LimitNOFILE=65536",
    "LimitCORE=0",
    "TasksMax=512",
    "# MemoryMax= is yours to set. Never MemoryDenyWriteExecute= or LimitAS=: a JIT does not live with them.",
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

/** A path that means in a unit what it says: `%` and `:` and spaces have meanings of their own there. */
function pathOption(text: string): string {
  if (/^\/[\w./+@-]+$/.test(text)) return text;
  throw new InvalidArgumentError("It must be an absolute path of letters, digits and . _ + @ -");
}

function hostOption(text: string): string {
  if (/^[\w.:-]{1,255}$/.test(text)) return text;
  throw new InvalidArgumentError("It must be an address or host name");
}

function groupOption(text: string): string {
  if (/^[a-z_][a-z0-9_-]{0,31}$/.test(text)) return text;
  throw new InvalidArgumentError("It must be the name of a group");
}
