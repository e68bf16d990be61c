import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { createNotifier } from "../../src/cli/notify.ts";
import { type DatagramReceiver, receiveDatagrams } from "../support/datagrams.ts";

import { until } from "../support/until.ts";
import { useUndo } from "../support/use_undo.ts";

const undo = useUndo();

function receive(path?: string): { path: string; manager: DatagramReceiver } {
  const folder = mkdtempSync(join(tmpdir(), "claviger-notify-"));
  undo.push(() => rmSync(folder, { recursive: true, force: true }));
  const at = path ?? join(folder, "notify");
  const manager = receiveDatagrams(at);
  undo.push(manager.close);
  return { path: at, manager };
}

function notifierFor(env: Record<string, string>) {
  const warnings: string[] = [];
  const log: Log = { info() {}, error() {}, warn: (message) => void warnings.push(message) };
  return { warnings, notifier: createNotifier({ env, platform: bunPlatform, log, pid: 4711 }) };
}

describe("createNotifier()", () => {
  test.each(["a path", "an abstract name"])("tells the manager at %s", (kind) => {
    const { path, manager } = receive(kind === "a path" ? undefined : `@claviger-test-${process.pid}`);
    const { notifier } = notifierFor({ NOTIFY_SOCKET: path });
    notifier.ready("Serving at http://127.0.0.1:8080");
    notifier.status("one line\nSTOPPING=1");
    notifier.stopping("Stopping");
    expect(manager.received()).toEqual([
      "READY=1\nSTATUS=Serving at http://127.0.0.1:8080",
      "STATUS=one line STOPPING=1",
      "STOPPING=1\nSTATUS=Stopping",
    ]);
  });

  test("reports a reload with the time of the clock that the manager uses", () => {
    const { path, manager } = receive();
    notifierFor({ NOTIFY_SOCKET: path }).notifier.reloading();
    const [, usec] = /^RELOADING=1\nMONOTONIC_USEC=(\d+)$/.exec(manager.received()[0] ?? "") ?? [];
    const uptime = Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]);
    expect(Math.abs(Number(usec) / 1e6 - uptime)).toBeLessThan(5);
  });

  test("sends two signs of life per watchdog period while the service works", async () => {
    const { path, manager } = receive();
    const { notifier } = notifierFor({ NOTIFY_SOCKET: path, WATCHDOG_USEC: "200000", WATCHDOG_PID: "4711" });
    let isAlive = true;
    const end = notifier.watch(() => isAlive);
    undo.push(end);
    const beganMs = performance.now();
    await until(() => manager.received().length >= 4);
    const alive = manager.received().length;
    expect(alive).toBeLessThanOrEqual((performance.now() - beganMs) / 100 + 2);
    expect(new Set(manager.received())).toEqual(new Set(["WATCHDOG=1"]));
    isAlive = false;
    // Time for a sign of life, which must not come.
    await Bun.sleep(250);
    expect(manager.received().length).toBe(alive);
  });

  test("sends no message if the watchdog is for another process or no manager listens", async () => {
    const { path, manager } = receive();
    const forOther = { NOTIFY_SOCKET: path, WATCHDOG_USEC: "100000", WATCHDOG_PID: "1" };
    undo.push(notifierFor(forOther).notifier.watch(() => true));
    const { notifier, warnings } = notifierFor({ WATCHDOG_USEC: "100000" });
    notifier.ready("ready");
    undo.push(notifier.watch(() => true));
    // Time for a sign of life, which must not come.
    await Bun.sleep(150);
    expect(manager.received()).toEqual([]);
    expect(warnings).toEqual([]);
  });

  test.each(["/nowhere/notify", "relative", `/${"x".repeat(200)}`, "@nobody-is-there"])(
    "warns once if the manager cannot be reached, and goes on: %s",
    (path) => {
      const { notifier, warnings } = notifierFor({ NOTIFY_SOCKET: path });
      notifier.ready("ready");
      notifier.status("status");
      expect(warnings).toEqual(["Cannot report the service's state to the service manager"]);
    },
  );
});
