import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { notesOfSettings, warnOfUser } from "../../src/cli/commands/systemd_command.ts";
import { DEFAULT_ENV_FILE, type SettingName } from "../../src/installation/config/mod.ts";
import { usageErrorOf } from "./command_line.ts";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine();

const TLS = ["--tls-cert", "/etc/claviger/tls.crt", "--tls-key", "/etc/claviger/tls.key"];
const analyze = Bun.which("systemd-analyze");
const sysusers = Bun.which("systemd-sysusers");

/** Prints a unit. The note says which lines of the settings file belong to it. */
async function printed(...args: string[]): Promise<{ readonly text: string; readonly note: string }> {
  const { status, out, err } = await line.run(["systemd", ...args]);
  expect(status).toBe(0);
  // A host without the service's user gets a warning.
  return { text: out, note: err.replace(/^claviger: The user claviger [^\n]+\n$/m, "") };
}

async function unit(...args: string[]): Promise<string> {
  return (await printed(...args)).text;
}

async function settingsOf(...args: string[]): Promise<string> {
  const { status, out, err } = await line.run(["systemd", ...args, "--settings"]);
  expect([status, err]).toEqual([0, ""]);
  return out;
}

describe("claviger systemd", () => {
  test("prints a unit that allows a JIT and a PostgreSQL", async () => {
    const lines = (await unit()).split("\n");
    // After wrong usage or wrong settings a restart would fail again every second, without end.
    expect(lines).toContain("RestartPreventExitStatus=2 78 217 238 243");
    for (const setting of ["Type=notify", "User=claviger", "StateDirectory=claviger", "KillMode=mixed"])
      expect(lines).toContain(setting);
    // DynamicUser removes the user when the service stops; then no command could read the stopped service's data folder.
    expect(lines.join("\n")).not.toContain("DynamicUser");
    expect(lines).toContain("ExecStart=/usr/local/bin/claviger serve");
    expect(lines).toContain("EnvironmentFile=-/etc/claviger/claviger.env");
    expect(lines.filter((each) => /^(MemoryDenyWriteExecute|LimitAS|NoExecPaths)=/.test(each))).toEqual([]);
    expect(lines.filter((each) => each.startsWith("LoadCredential="))).toEqual([]);
  });

  test("sets the restrictions that DynamicUser would imply and a static user does not", async () => {
    const lines = (await unit()).split("\n");
    for (const setting of ["NoNewPrivileges", "RestrictSUIDSGID", "PrivateTmp", "ProtectHome"])
      expect(lines).toContain(`${setting}=yes`);
    expect(lines).toContain("ProtectSystem=strict");
  });

  test("does not remove the shared memory of a command's PostgreSQL when the service ends", async () => {
    expect(await unit()).not.toContain("RemoveIPC");
  });

  test("prints the line from which systemd-sysusers makes its user", async () => {
    const text = await unit("--sysusers");
    expect(text).toBe('u claviger - "Claviger, licensing and model registry" /var/lib/claviger\n');
    const wrong = await line.run(["systemd", "--sysusers", "--port", "443"]);
    expect(usageErrorOf(wrong)).toContain("--sysusers");
    if (sysusers === null) return;
    const root = join(line.folder, "sysusers");
    mkdirSync(join(root, "etc"), { recursive: true });
    const made = Bun.spawnSync([sysusers, "--root", root, "--inline", text.trim()]);
    expect([made.exitCode, made.stdout.toString()]).toEqual([0, ""]);
    expect(readFileSync(join(root, "etc/passwd"), "utf8")).toMatch(
      /^claviger:x:\d+:\d+:Claviger, licensing and model registry:\/var\/lib\/claviger:\/usr\/sbin\/nologin$/m,
    );
  });

  test("needs the capability for a low port of operators, too", async () => {
    expect(await unit("--admin-listen", "127.0.0.1:8081")).toContain("\nCapabilityBoundingSet=\n");
    expect(await unit("--admin-listen", "[::]:443")).toContain(
      "\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n",
    );
    const noHost = await line.run(["systemd", "--host", "not a host"]);
    expect(usageErrorOf(noHost)).toContain("It must be an address or host name to listen on");
    const portAlone = await line.run(["systemd", "--admin-listen", "8081"]);
    expect(usageErrorOf(portAlone)).toContain("It must be HOST:PORT");
  });

  test("refuses one address for clients and operators, with the sentence of the start", async () => {
    const equal = ["--port", "8443", "--admin-listen", "127.0.0.1:8443"];
    const refused = usageErrorOf(await line.run(["systemd", ...equal]));
    expect(refused).toContain(
      "Cannot serve operators at 127.0.0.1:8443: clients are served at the same address; ",
    );
    const started = await line.here(["serve", ...equal]);
    expect(started).toMatchObject({ status: 78, out: "", err: `claviger: ${refused}\n` });
    // Without options for clients, the unit's service has the default address.
    usageErrorOf(await line.run(["systemd", "--admin-listen", "127.0.0.1:8080"]));
    expect(await settingsOf("--port", "8443", "--admin-listen", "127.0.0.1:8080")).toContain(
      "127.0.0.1:8080",
    );
  });

  const ofService: readonly (readonly string[])[] = [
    ["--host", "fe80::1%eth0"],
    ["--port", "443"],
    ["--admin-listen", "[fe80::1%1]:8081"],
    ["--secret", "/etc/claviger/secret"],
    ["--github-key", "/etc/claviger/app.pem"],
    TLS,
  ];
  const every = ofService.flat();
  const everyLine = [
    "CLAVIGER_HOST=fe80::1%eth0",
    "CLAVIGER_PORT=443",
    "CLAVIGER_ADMIN_LISTEN=[fe80::1%1]:8081",
    "CLAVIGER_TLS_CERT=/etc/claviger/tls.crt",
    "CLAVIGER_TLS_KEY=/etc/claviger/tls.key",
    "CLAVIGER_SECRET_FILE=/etc/claviger/secret",
    "CLAVIGER_GITHUB_PRIVATE_KEY_FILE=/etc/claviger/app.pem",
  ];

  test("prints no settings without an option that gives one, and says so", async () => {
    const { status, out, err } = await line.run(["systemd", "--binary", "/opt/claviger", "--settings"]);
    expect([status, out]).toEqual([2, ""]);
    expect(err).toContain(
      "Cannot print settings: name at least one option that gives a setting, such as --port",
    );
  });

  test("has no Environment= with any options, and names the lines of the settings file that it needs", async () => {
    let combined: string[][] = [[]];
    for (const option of [...ofService, ["--tls-group", "ssl-cert"]])
      combined = combined.flatMap((args) => [args, [...args, ...option]]);
    const all = combined.filter((args) => args.includes("--tls-cert") || !args.includes("--tls-group"));
    const ofTemplate = all
      .filter((args) => !args.includes("--port") && !args.includes("--admin-listen"))
      .map((args) => ["--template", ...args]);
    expect([all.length, ofTemplate.length]).toEqual([96, 24]);
    for (const args of [...all, ...ofTemplate]) {
      const { text, note } = await printed(...args);
      expect(text).not.toMatch(/^\s*Environment=/m);
      expect(text).toMatch(/^EnvironmentFile=-\/etc\/claviger\/claviger\.env$/m);
      const lines = everyLine.filter((each) => args.some((arg) => each.endsWith(`=${arg}`)));
      if (lines.length > 0) expect(await settingsOf(...args)).toBe(`${lines.join("\n")}\n`);
      expect([...text.matchAll(/^# {3}CLAVIGER_.*/gm)].map(String)).toEqual(
        lines.map((each) => `#   ${each}`),
      );
      // The settings file of this host, if there is one, has some of the lines.
      if (existsSync(DEFAULT_ENV_FILE)) continue;
      expect(note).toBe(
        lines.length === 0
          ? ""
          : "claviger: The service needs these lines in /etc/claviger/claviger.env; --settings prints them alone:\n" +
              lines.map((each) => `  ${each}\n`).join(""),
      );
    }
    for (const name of ["claviger-backup.service", "claviger-backup.timer", "claviger-failed@.service"])
      expect(await unit("--unit", name)).not.toContain("Environment=");
  });

  test("prints lines for the settings file that give the settings of the options", async () => {
    const envFile = line.write("claviger.env", `CLAVIGER_PORT=8080\n${await settingsOf(...every)}`);
    const { status, out } = await line.run(["config", "check", "--json", "--env-file", envFile]);
    const { settings, error } = JSON.parse(out) as {
      settings: { name: string; value: string; source: string }[];
      error: string;
    };
    // The files of the settings are not on this host.
    expect([status, error]).toEqual([
      1,
      expect.stringContaining("/etc/claviger/secret: there is no such file"),
    ]);
    const fromFile = settings.filter(({ source }) => source === envFile);
    expect(fromFile.map(({ name, value }) => `${name}=${value}`).sort()).toEqual([...everyLine].sort());
  });

  test.each<[text: string, missing: SettingName[]]>([
    ["CLAVIGER_HOST=::1\nCLAVIGER_PORT=443\n", []],
    ["CLAVIGER_PORT=443\n", ["CLAVIGER_HOST"]],
    ["CLAVIGER_HOST=::1\nCLAVIGER_PORT=8443\n", ["CLAVIGER_PORT"]],
    ["CLAVIGER_HOST=::1\nno line\n", ["CLAVIGER_HOST", "CLAVIGER_PORT"]],
  ])("names only the lines that a settings file lacks: %j", (text, missing) => {
    const envFile = line.write("some.env", text);
    const settings = [
      { name: "CLAVIGER_HOST", value: "::1" },
      { name: "CLAVIGER_PORT", value: "443" },
    ] as const;
    const [first, ...lines] = notesOfSettings({ template: false }, settings, envFile);
    expect(lines.map((each) => each.trim().split("=")[0])).toEqual(missing);
    expect(first?.includes("needs these lines") ?? false).toBe(missing.length > 0);
  });

  test("passes only the certificate and its key as credentials", async () => {
    expect((await unit(...every)).match(/^LoadCredential=.*/gm)).toEqual([
      "LoadCredential=claviger-tls-cert:/etc/claviger/tls.crt",
      "LoadCredential=claviger-tls-key:/etc/claviger/tls.key",
    ]);
  });

  test("prints a template whose services share settings, data folder and credentials, but not their ports", async () => {
    const lines = (await unit("--template", "--secret", "/etc/claviger/secret", ...TLS)).split("\n");
    const plain = (await unit("--secret", "/etc/claviger/secret", ...TLS)).split("\n");
    expect(lines.filter((each) => !plain.includes(each) && !each.startsWith("#"))).toEqual([
      "Description=Claviger, licensing and model registry, service %i",
      "EnvironmentFile=/etc/claviger/claviger@%i.env",
    ]);
    // A later file overrides an earlier one.
    expect(lines.filter((each) => each.startsWith("EnvironmentFile="))).toEqual([
      "EnvironmentFile=-/etc/claviger/claviger.env",
      "EnvironmentFile=/etc/claviger/claviger@%i.env",
    ]);
    expect(lines).toContain("#   systemctl daemon-reload && systemctl enable --now claviger@1 claviger@2");
    for (const own of [["--port", "8443"], ["--admin-listen", "127.0.0.1:8081"], ["--sysusers"]])
      expect(usageErrorOf(await line.run(["systemd", "--template", ...own]))).toContain("--template");
  });

  test("warns with --template of a setting in the shared file that only one service can have", () => {
    const notes = (text: string, template = true) => {
      const shared = notesOfSettings({ template }, [], line.write("shared.env", text));
      return shared.map((note) => /can listen there: move (.*) from /.exec(note)?.[1]);
    };
    const METRICS = "CLAVIGER_METRICS_LISTEN=127.0.0.1:9464";
    const ADMIN = "CLAVIGER_ADMIN_LISTEN=127.0.0.1:8081";
    expect(notes(`CLAVIGER_PORT=443\n${METRICS}\n`)).toEqual(["CLAVIGER_METRICS_LISTEN"]);
    expect(notes(`${METRICS}\n${ADMIN}\n`)).toEqual(["CLAVIGER_METRICS_LISTEN and CLAVIGER_ADMIN_LISTEN"]);
    expect(notes(`${METRICS}\n${ADMIN}\n`, false)).toEqual([]);
    expect(notes("CLAVIGER_PORT=443\n")).toEqual([]);
    expect(notesOfSettings({ template: true }, [], "/nonexistent/shared.env")).toEqual([]);
  });

  test.each([
    [
      undefined,
      "The user claviger is missing on this host: before you start this unit, create it with the line",
      "guide service",
    ],
    [
      61_184,
      "The user claviger exists only while the unit with DynamicUser runs: stop that unit first, then create",
      "guide systemd",
    ],
    [65_519, "The user claviger exists only while", "guide systemd"],
    [999, undefined, undefined],
    [61_183, undefined, undefined],
    [65_520, undefined, undefined],
  ])("warns if its user has the number %j", (uid, warning, page) => {
    const warned = warnOfUser(uid === undefined ? undefined : { uid });
    if (warning === undefined) expect(warned).toBeUndefined();
    else {
      expect(warned).toStartWith(warning);
      expect(warned).toEndWith(`see \`claviger ${page}\``);
    }
  });

  test("lets a group read certificates that a reload must read again", async () => {
    const text = await unit(...TLS, "--tls-group", "ssl-cert");
    expect(text).toContain("\nSupplementaryGroups=ssl-cert\n");
    expect(text).not.toContain("LoadCredential");
  });

  test("grants the one capability that a port below 1024 needs, and none otherwise", async () => {
    expect(await unit("--port", "443")).toMatch(
      /\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n/,
    );
    expect(await unit("--port", "8443")).toMatch(/\nCapabilityBoundingSet=\nAmbientCapabilities=\n/);
  });

  test("refuses values with another meaning in a unit, and half a pair", async () => {
    for (const path of ["relative", "/a b", "/a%n", "/a\nUser=root"])
      usageErrorOf(await line.run(["systemd", "--binary", path]));
    expect(usageErrorOf(await line.run(["systemd", ...TLS.slice(0, 2)]))).toContain("go together");
    expect(usageErrorOf(await line.run(["systemd", "--tls-group", "g"]))).toContain("needs --tls-cert");
  });

  const variants: [exposure: number, ...args: string[]][] = [
    [1.3],
    [1.3, "--template", ...TLS],
    [1.6, "--port", "443", "--host", "0.0.0.0", ...TLS],
    [1.3, ...TLS, "--tls-group", "ssl-cert"],
  ];
  test.skipIf(analyze === null).each(variants)(
    "prints a unit that systemd-analyze accepts, with an exposure of at most %f: %s %s %s %s",
    async (exposure, ...args) => {
      const binary = line.write("claviger", "#!/bin/sh\n");
      chmodSync(binary, 0o755);
      const name = args.includes("--template") ? "claviger@1.service" : "claviger.service";
      const path = line.write(name, await unit("--binary", binary, ...args));
      const verify = Bun.spawnSync([analyze ?? "", "verify", path]);
      expect([verify.exitCode, verify.stdout.toString() + verify.stderr.toString()]).toEqual([0, ""]);
      const security = Bun.spawnSync([analyze ?? "", "security", "--offline=true", "--threshold=20", path]);
      const score = /exposure level for claviger\S*\.service: ([\d.]+)/.exec(security.stdout.toString())?.[1];
      expect(Number(score)).toBeLessThanOrEqual(exposure);
      expect(security.exitCode).toBe(0);
    },
  );

  test("prints the units of the backup, which no option of the service changes", async () => {
    const backup = await unit("--unit", "claviger-backup.service", "--binary", "/usr/bin/claviger");
    expect(backup).toContain(
      "\nExecStart=/usr/bin/claviger backup /var/backups/claviger/ --with-secret --keep 24h,7d,5w\n",
    );
    expect(backup).toContain("\nUser=claviger\n");
    expect(backup).toContain("\nOnFailure=claviger-failed@%N.service\n");
    // A backup that lacks model files ends with 3, which must count as a failure.
    expect(backup).not.toContain("SuccessExitStatus");
    // The backup would not see the service that holds the data folder.
    expect(backup).not.toMatch(/^(ProtectProc|PrivateIPC|PrivatePIDs|StateDirectory)=/m);
    const timer = await unit("--unit", "claviger-backup.timer");
    // With a fixed delay each hour has one backup.
    expect(timer).toContain("\nOnCalendar=hourly\nRandomizedDelaySec=10min\nFixedRandomDelay=true\n");
    expect(timer).toContain("\n[Install]\nWantedBy=timers.target\n");
    expect(await unit("--unit", "claviger-failed@.service")).toContain("'%i failed: see journalctl -u %i'");
    for (const own of [["--port", "443"], ["--settings"]])
      usageErrorOf(await line.run(["systemd", "--unit", "claviger-backup.service", ...own]));
    usageErrorOf(await line.run(["systemd", "--unit", "claviger-backup.service", "--sysusers"]));
  });

  test.skipIf(analyze === null)(
    "prints units of the backup that systemd-analyze accepts, with an exposure of at most 1.5",
    async () => {
      const binary = line.write("claviger", "#!/bin/sh\n");
      chmodSync(binary, 0o755);
      const names = ["claviger-backup.service", "claviger-backup.timer", "claviger-failed@.service"];
      const paths = await Promise.all(
        names.map(async (name) => line.write(name, await unit("--unit", name, "--binary", binary))),
      );
      const verify = Bun.spawnSync([analyze ?? "", "verify", ...paths]);
      expect([verify.exitCode, verify.stdout.toString() + verify.stderr.toString()]).toEqual([0, ""]);
      const security = Bun.spawnSync([analyze ?? "", "security", "--offline=true", paths[0] ?? ""]);
      const score = /exposure level for claviger-backup\.service: ([\d.]+)/.exec(
        security.stdout.toString(),
      )?.[1];
      expect(Number(score)).toBeLessThanOrEqual(1.5);
    },
  );
});
