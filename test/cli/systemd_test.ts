import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createCommandLine, usageErrorOf } from "./command_line.ts";

const line = createCommandLine();
afterAll(() => line.remove());

const TLS = ["--tls-cert", "/etc/claviger/tls.crt", "--tls-key", "/etc/claviger/tls.key"];
const analyze = Bun.which("systemd-analyze");
const sysusers = Bun.which("systemd-sysusers");

async function unit(...args: string[]): Promise<string> {
  const { status, out, err } = await line.run(["systemd", ...args]);
  expect([status, err]).toEqual([0, ""]);
  return out;
}

describe("claviger systemd", () => {
  test("prints a unit that a JIT and a PostgreSQL can live in", async () => {
    const lines = (await unit()).split("\n");
    // Wrong usage and wrong settings: the same again would be refused every second, for ever.
    expect(lines).toContain("RestartPreventExitStatus=2 78");
    for (const setting of ["Type=notify", "User=claviger", "StateDirectory=claviger", "KillMode=mixed"])
      expect(lines).toContain(setting);
    // Its user would be gone with the service, and nobody could look into the data folder of one that is stopped.
    expect(lines.join("\n")).not.toContain("DynamicUser");
    expect(lines).toContain("ExecStart=/usr/local/bin/claviger serve");
    expect(lines).toContain("EnvironmentFile=-/etc/claviger/claviger.env");
    expect(lines.filter((each) => /^(MemoryDenyWriteExecute|LimitAS|NoExecPaths)=/.test(each))).toEqual([]);
    expect(lines.filter((each) => each.startsWith("LoadCredential="))).toEqual([]);
  });

  test("keeps what DynamicUser would imply, which a static user does not", async () => {
    const lines = (await unit()).split("\n");
    for (const setting of ["NoNewPrivileges", "RestrictSUIDSGID", "PrivateTmp", "ProtectHome"])
      expect(lines).toContain(`${setting}=yes`);
    expect(lines).toContain("ProtectSystem=strict");
  });

  test("leaves the shared memory of a command's PostgreSQL alone when the service ends", async () => {
    expect(await unit()).not.toContain("RemoveIPC");
  });

  test("prints what makes its user, as systemd-sysusers takes it", async () => {
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

  test("hands over what the operator has, and names it, so that none is done without", async () => {
    const text = await unit("--secret", "/etc/claviger/secret", ...TLS);
    expect(text.match(/^(LoadCredential|Environment)=.*/gm)).toEqual([
      "LoadCredential=claviger-secret:/etc/claviger/secret",
      "Environment=CLAVIGER_SECRET_FILE=/run/credentials/%n/claviger-secret",
      "LoadCredential=claviger-tls-cert:/etc/claviger/tls.crt",
      "Environment=CLAVIGER_TLS_CERT=/run/credentials/%n/claviger-tls-cert",
      "LoadCredential=claviger-tls-key:/etc/claviger/tls.key",
      "Environment=CLAVIGER_TLS_KEY=/run/credentials/%n/claviger-tls-key",
    ]);
  });

  test("leaves certificates to a group where they shall be read again on reload", async () => {
    const text = await unit(...TLS, "--tls-group", "ssl-cert");
    expect(text).toContain("\nSupplementaryGroups=ssl-cert\n");
    expect(text).toContain("\nEnvironment=CLAVIGER_TLS_CERT=/etc/claviger/tls.crt\n");
    expect(text).not.toContain("LoadCredential");
  });

  test("gives the one capability that a port below 1024 needs, and none otherwise", async () => {
    expect(await unit("--port", "443")).toMatch(
      /\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n/,
    );
    expect(await unit("--port", "8443")).toMatch(/\nCapabilityBoundingSet=\nAmbientCapabilities=\n/);
  });

  test("refuses what would mean something else in a unit, and half a pair", async () => {
    for (const path of ["relative", "/a b", "/a%n", "/a\nUser=root"])
      usageErrorOf(await line.run(["systemd", "--binary", path]));
    expect(usageErrorOf(await line.run(["systemd", ...TLS.slice(0, 2)]))).toContain("go together");
    expect(usageErrorOf(await line.run(["systemd", "--tls-group", "g"]))).toContain("needs --tls-cert");
  });

  const variants: [exposure: number, ...args: string[]][] = [
    [1.3],
    [1.6, "--port", "443", "--host", "0.0.0.0", ...TLS],
    [1.3, ...TLS, "--tls-group", "ssl-cert"],
  ];
  test.skipIf(analyze === null).each(variants)(
    "prints what systemd-analyze takes, with an exposure of at most %f: %s %s %s %s",
    async (exposure, ...args) => {
      const binary = line.write("claviger", "#!/bin/sh\n");
      chmodSync(binary, 0o755);
      const path = line.write("claviger.service", await unit("--binary", binary, ...args));
      const verify = Bun.spawnSync([analyze ?? "", "verify", path]);
      expect([verify.exitCode, verify.stdout.toString() + verify.stderr.toString()]).toEqual([0, ""]);
      const security = Bun.spawnSync([analyze ?? "", "security", "--offline=true", "--threshold=20", path]);
      const score = /exposure level for claviger\.service: ([\d.]+)/.exec(security.stdout.toString())?.[1];
      expect(Number(score)).toBeLessThanOrEqual(exposure);
      expect(security.exitCode).toBe(0);
    },
  );
});
