/** The script that the package runs after an upgrade. Scripts in a folder of the test stand in for the tools of systemd. */
import { expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CHECKOUT } from "../../src/build/parts.ts";
import { shownPauseSeconds } from "../support/haproxy.ts";
import { useFolder } from "../support/use_folder.ts";

const folder = useFolder();

/** Runs it for an upgrade while these services run; returns what it restarted and how long it waited, in order. */
function upgrade(services: readonly string[]): string[] {
  const calls = join(folder, "calls");
  writeFileSync(calls, "");
  const tools = {
    "systemd-sysusers": "",
    sleep: `[ "$1" = 0 ] || echo "sleep $1" >> ${calls}`,
    systemctl: `[ "$1" != list-units ] || printf '%s loaded active running A service\\n' ${services.join(" ")}`,
    // A unit that cannot be restarted must not keep the others from it.
    "deb-systemd-invoke": `echo "$*" >> ${calls}; exit 1`,
  };
  for (const [name, script] of Object.entries(tools)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  mkdirSync(join(folder, "run/systemd/system"), { recursive: true });
  const script = readFileSync(join(CHECKOUT, "src/build/debian/postinst"), "utf8")
    .replaceAll(/\/(?=run\/systemd)/g, `${folder}/`)
    .replaceAll(/\/var\/(?:lib|backups)\/claviger/g, folder);
  const run = Bun.spawnSync(["sh", "-c", script, "postinst", "configure", "0.4.0"], {
    env: { PATH: `${folder}:/usr/bin:/bin` },
  });
  expect([run.exitCode, run.stderr.toString()]).toEqual([0, ""]);
  return readFileSync(calls, "utf8").trim().split("\n");
}

test("postinst restarts several services one after the other, with the pause of the guide", () => {
  const pause = `sleep ${shownPauseSeconds()}`;
  expect(upgrade(["claviger@1.service", "claviger@2.service", "claviger.service"])).toEqual([
    "try-restart claviger@1.service",
    pause,
    "try-restart claviger@2.service",
    pause,
    "try-restart claviger.service",
    "try-restart claviger-backup.timer",
  ]);
});

test("postinst restarts a single service without a pause", () => {
  expect(upgrade(["claviger.service"])).toEqual([
    "try-restart claviger.service",
    "try-restart claviger-backup.timer",
  ]);
});
