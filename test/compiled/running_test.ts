/**
 * Runs the executable as a service manager does: its unit, its messages to the manager, its stop, its
 * certificates.
 */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCertificate, shownFingerprint, type TestCertificate } from "../support/certificates.ts";
import { type DatagramReceiver, receiveDatagrams } from "../support/datagrams.ts";
import { until } from "../support/until.ts";
import { type Installed, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

const CLIENTS = 16;
const STOP_LIMIT_MS = 10_000;
const analyze = Bun.which("systemd-analyze");

describe.skipIf(!isBuilt)("the executable, run by a service manager", () => {
  let installed: Installed;
  let manager: DatagramReceiver;

  beforeAll(() => {
    installed = install();
    manager = receiveDatagrams(join(installed.place.folder, "notify"));
  });
  afterEach(() => installed.service.stop("SIGINT"));
  afterAll(async () => {
    manager.close();
    await installed.remove();
  });

  const managed = () => ({
    NOTIFY_SOCKET: join(installed.place.folder, "notify"),
    WATCHDOG_USEC: "400000",
  });

  async function printUnit(): Promise<string> {
    await installed.start();
    const { place } = installed;
    const { status, out, err } = await place.run(["systemd", "--binary", join(place.folder, "claviger")]);
    expect({ status, err }).toEqual({ status: 0, err: "" });
    return out;
  }

  test("prints a unit as hardened as a JIT allows", async () => {
    const out = await printUnit();
    const lines = out.split("\n");
    for (const line of ["Type=notify", "User=claviger", "StateDirectory=claviger", "KillMode=mixed"]) {
      expect(lines).toContain(line);
    }
    expect(out).not.toMatch(/^MemoryDenyWriteExecute/m);
  });

  test.skipIf(analyze === null)("prints a unit that systemd-analyze accepts as hardened", async () => {
    const unit = join(installed.place.folder, "claviger.service");
    writeFileSync(unit, await printUnit());
    const verified = Bun.spawnSync([analyze ?? "", "verify", unit]);
    expect([verified.exitCode, verified.stderr.toString()]).toEqual([0, ""]);
    const judged = Bun.spawnSync([analyze ?? "", "security", "--offline=true", "--threshold=20", unit]);
    expect(judged.exitCode).toBe(0);
  });

  test("tells the manager that it is ready, lives and stops", async () => {
    const { address, stop } = await installed.start({ env: managed() });
    expect(await manager.until(/^READY=1/)).toBe(
      `READY=1\nSTATUS=Serving at http://${address}; the database answers`,
    );
    await manager.until(/^WATCHDOG=1$/);
    expect(await stop("SIGTERM")).toBe(0);
    expect(await manager.until(/^STOPPING=1/)).toMatch(/^STOPPING=1\nSTATUS=Stopping: /);
  });

  test("stops in order under load: health turns 503 first, open requests are answered, and no event is lost", async () => {
    const { url, stop } = await installed.start();
    const key = await installed.issue("--monthly-limit", "10000000");
    const outcomes = { acknowledged: 0, unanswered: 0, others: new Set<number>() };
    const client = async () => {
      const body = { api_key: key.api_key, event_type: "inference" };
      for (;;) {
        const answer = await installed.post("/v1/analytics/log", body).catch(() => undefined);
        if (answer === undefined) {
          outcomes.unanswered++;
          return;
        }
        if (answer.status === 202) outcomes.acknowledged++;
        else outcomes.others.add(answer.status);
      }
    };
    const clients = Array.from({ length: CLIENTS }, client);
    await until(() => outcomes.acknowledged > 200);

    const beganMs = performance.now();
    const stopped = stop("SIGTERM");
    const turnedAway = await until(async () => {
      const answer = await fetch(`${url}/api/health`);
      return answer.status === 503 && answer.json();
    });
    expect(turnedAway).toMatchObject({ status: "unhealthy", database: "connected" });
    // Until the end of the grace, requests are still answered, so that a balancer has time to turn clients away.
    const before = outcomes.acknowledged;
    await until(() => outcomes.acknowledged > before + CLIENTS);
    expect(await stopped).toBe(0);
    expect(performance.now() - beganMs).toBeLessThan(STOP_LIMIT_MS);
    await Promise.all(clients);
    expect([...outcomes.others]).toEqual([]);

    await installed.start();
    const { used } = await installed.json(["keys", "usage", key.id]);
    expect(used).toBeGreaterThanOrEqual(outcomes.acknowledged);
    expect(used).toBeLessThanOrEqual(outcomes.acknowledged + outcomes.unanswered);
  });

  test("loads a new certificate on SIGHUP without refusing a connection", async () => {
    const { folder } = installed.place;
    const [one, two] = [makeCertificate(folder, "one"), makeCertificate(folder, "two")];
    const put = (pair: TestCertificate) => {
      copyFileSync(pair.certFile, join(folder, "tls.crt"));
      copyFileSync(pair.keyFile, join(folder, "tls.key"));
    };
    put(one);
    const args = ["--tls-cert", join(folder, "tls.crt"), "--tls-key", join(folder, "tls.key")];
    const { url, address, pid } = await installed.start({ args });
    expect(url).toStartWith("https://");
    const show = () => shownFingerprint(Number(address.split(":")[1]), "/api/health");
    expect(await show()).toEqual({ fingerprint: one.fingerprint, status: 200 });
    const trusting = await installed.place.run(["health", "--url", url, "--ca", one.certFile]);
    expect(trusting.status).toBe(0);

    const shown = new Map<string, number>();
    const failures: string[] = [];
    let isOver = false;
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (!isOver) {
        const seen = await show().catch((error: unknown) => void failures.push(String(error)));
        if (seen !== undefined) shown.set(seen.fingerprint, (shown.get(seen.fingerprint) ?? 0) + 1);
      }
    });
    const enough = ({ fingerprint }: TestCertificate) =>
      until(() => (shown.get(fingerprint) ?? 0) > 100 || failures.length > 0);
    await enough(one);
    put(two);
    process.kill(pid, "SIGHUP");
    await enough(two);
    isOver = true;
    await Promise.all(clients);
    expect(failures).toEqual([]);
    expect((await show()).fingerprint).toBe(two.fingerprint);
  });
});
