/**
 * Runs a real process of the service from start to end: its messages to the manager, the effect of a stop on its
 * clients, and a new certificate under load.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { makeCertificate, shownFingerprint, type TestCertificate } from "../support/certificates.ts";
import { type DatagramReceiver, receiveDatagrams } from "../support/datagrams.ts";
import { copySample, testFolder } from "../support/postgres.ts";
import { type ServiceProcess, SOURCE, spawnService, toServeCommand } from "../support/service_process.ts";
import { openStopped } from "../support/stopped_database.ts";
import { until } from "../support/until.ts";

const folder = mkdtempSync(join(testFolder(), "life-"));
// The user who runs PostgreSQL for root must be able to enter.
chmodSync(folder, 0o711);
const dataDir = join(folder, "data");
copySample(dataDir);
const started: ServiceProcess[] = [];
let manager: DatagramReceiver;
let apiKey = "";

/** Starts the service, and waits until the manager is told that it is ready. */
async function start(args: readonly string[] = [], more: Readonly<Record<string, string>> = {}) {
  const from = manager.received().length;
  const service = spawnService(toServeCommand(SOURCE, ["--data-dir", dataDir, ...args]), {
    cwd: folder,
    env: {
      ...more,
      CLAVIGER_LOG_REQUESTS: "off",
      CLAVIGER_LIMIT_ANALYTICS: "0",
      NOTIFY_SOCKET: join(folder, "n"),
      WATCHDOG_USEC: "400000",
    },
    dataDir,
  });
  started.push(service);
  await service.untilServing();
  const told = () => manager.received().slice(from);
  await until(() => told().some((message) => message.startsWith("READY=1")));
  return service;
}

async function run(...args: string[]): Promise<string> {
  const place = ["--data-dir", dataDir, "--env-file", "/dev/null"];
  const child = Bun.spawn([...SOURCE, ...args, ...place], { cwd: folder, env: {} });
  return await child.stdout.text();
}

beforeAll(async () => {
  manager = receiveDatagrams(join(folder, "n"));
  const service = await start();
  const issued = await run("keys", "issue", "--email", "a@example.org", "--tier", "enterprise", "--json");
  apiKey = JSON.parse(issued).api_key;
  expect(await service.stop("SIGINT")).toBe(0);
  // The first start may take long on a busy disk.
}, 90_000);

afterAll(async () => {
  for (const service of started) await service.end();
  manager.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Outcomes {
  /** Identifiers of the events that were answered 202. */
  readonly acknowledged: string[];
  /** Numbers of the other answers, by status. */
  readonly others: Map<number, number>;
  /** Requests that were sent completely and got no complete answer, on a busy or an idle connection. */
  lost: number;
  refused: number;
}

/** Runs one client: it keeps its connection as long as the service does, and then opens another one. */
async function client(port: number, isRunning: () => boolean, outcomes: Outcomes): Promise<void> {
  const body = JSON.stringify({ api_key: apiKey, event_type: "inference" });
  const head = `POST /v1/analytics/log HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}`;
  const request = `${head}\r\n\r\n${body}`;
  while (isRunning()) {
    const end = await new Promise<"closed" | "refused">((resolve) => {
      let text = "";
      let isWaiting = false;
      const socket = connect({ port, host: "127.0.0.1" }, ask);
      const patience = setTimeout(() => socket.destroy(), 900);
      function ask() {
        clearTimeout(patience);
        isWaiting = true;
        socket.write(request);
      }
      socket.on("data", (chunk) => {
        text += chunk;
        const [, status = "", head = "", answer = ""] =
          /^HTTP\/1\.1 (\d+)([\s\S]*?)\r\n\r\n(\{[\s\S]*\})$/.exec(text) ?? [];
        if (answer === "") return;
        text = "";
        isWaiting = false;
        if (status === "202") outcomes.acknowledged.push(JSON.parse(answer).event_id);
        else outcomes.others.set(Number(status), (outcomes.others.get(Number(status)) ?? 0) + 1);
        if (/connection: close/i.test(head)) socket.end();
        else if (isRunning()) ask();
        else socket.end();
      });
      socket.on("error", () => {});
      socket.on("close", () => {
        clearTimeout(patience);
        if (isWaiting) outcomes.lost++;
        resolve(socket.bytesWritten > 0 ? "closed" : "refused");
      });
    });
    if (end === "refused") {
      outcomes.refused++;
      return;
    }
  }
}

/** Returns the first answer that is not a success. A stopping service gives such answers while it listens. */
async function firstRefusal(url: string): Promise<Response> {
  for (;;) {
    const answer = await fetch(url);
    if (!answer.ok) return answer;
    await answer.text();
  }
}

async function storedEvents(): Promise<Set<string>> {
  await using database = await openStopped(dataDir);
  const rows = await database.query<{ id: string }>((sql) => sql`select id from events`);
  return new Set(rows.map(({ id }) => `evt_${id.replaceAll("-", "")}`));
}

describe("SIGTERM under load", () => {
  test("loses no request that was sent, and no event that was acknowledged", async () => {
    const service = await start();
    const outcomes: Outcomes = { acknowledged: [], others: new Map(), lost: 0, refused: 0 };
    let running = true;
    const clients = Array.from({ length: 64 }, () => client(service.port, () => running, outcomes));
    // The signs of life are received meanwhile: the kernel keeps only some, and would drop the message of the stop.
    await until(() => manager.received() && outcomes.acknowledged.length > 1_000);
    const beganMs = performance.now();
    service.kill("SIGTERM");
    const later = await firstRefusal(`http://127.0.0.1:${service.port}/api/health`);
    const exit = await service.ended;
    const tookMs = performance.now() - beganMs;
    running = false;
    await Promise.all(clients);

    const { acknowledged, others, lost } = outcomes;
    expect(exit).toBe(0);
    expect(tookMs).toBeWithin(1_000, 10_000);
    expect([later.status, ((await later.json()) as { error: string }).error]).toEqual([
      503,
      "The service is stopping",
    ]);
    expect(later.headers.get("connection")).toBe("close");
    expect(lost).toBe(0);
    expect([...others.keys()]).toEqual([]);
    const stored = await storedEvents();
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    await until(() => manager.received().join("\n").includes("STOPPING=1\nSTATUS=Stopping"));
  });

  test("ends the service at once when it is sent twice", async () => {
    const service = await start();
    const told = manager.received().length;
    service.kill("SIGTERM");
    // The system merges equal signals that come before the first is handled.
    await until(() => manager.received().slice(told).join("\n").includes("STOPPING=1"));
    service.kill("SIGTERM");
    expect(await service.ended).toBe(1);
    expect(service.err()).toContain("Stopped at once by a second signal");
  });
});

describe("a service manager", () => {
  test("is told when it is ready, that it lives, and what its database does", async () => {
    const service = await start();
    const status = `Serving at http://127.0.0.1:${service.port}; the database `;
    expect(await manager.until(new RegExp(`^READY=1\nSTATUS=${status}answers$`))).toBeDefined();
    const before = manager.received().length;
    const beganMs = performance.now();
    const signsOfLife = () =>
      manager
        .received()
        .slice(before)
        .filter((text) => text === "WATCHDOG=1").length;
    await until(() => signsOfLife() >= 3);
    // Two in each period of 400 ms, and one that may be due at the beginning.
    expect(signsOfLife()).toBeLessThanOrEqual((performance.now() - beganMs) / 200 + 2);
    service.kill("SIGHUP");
    const reloading = await manager.until(/^RELOADING=1\nMONOTONIC_USEC=\d{6,}$/);
    await until(() => {
      const texts = manager.received();
      return texts.slice(texts.indexOf(reloading)).some((text) => /^READY=1\nSTATUS=/.test(text));
    });
    // The log comes by another pipe, and may come later than the manager's datagram.
    await until(() => / warn +A reload changes nothing: .*other settings need a restart/.test(service.err()));
    expect((await fetch(`http://127.0.0.1:${service.port}/api/health`)).status).toBe(200);
    expect(await service.stop("SIGINT")).toBe(0);
  });
});

describe("TLS", () => {
  const copy = (pair: TestCertificate) => {
    copyFileSync(pair.certFile, join(folder, "tls.crt"));
    copyFileSync(pair.keyFile, join(folder, "tls.key"));
  };
  const files = ["--tls-cert", join(folder, "tls.crt"), "--tls-key", join(folder, "tls.key")];

  test("loads a new certificate on SIGHUP without losing a connection, and ignores a bad one", async () => {
    const [one, two] = [makeCertificate(folder, "one"), makeCertificate(folder, "two")];
    copy(one);
    const https = { CLAVIGER_ADMIN_URL: "https://localhost" };
    const service = await start([...files, "--admin-listen", "127.0.0.1:0"], https);
    const { admin } = JSON.parse(readFileSync(join(dataDir, "serving"), "utf8"));
    const show = () => shownFingerprint(service.port, "/api/health");
    const showToOperators = () => shownFingerprint(admin.port, "/");
    expect(await showToOperators()).toEqual({ fingerprint: one.fingerprint, status: 303 });
    expect(await show()).toEqual({ fingerprint: one.fingerprint, status: 200 });
    expect(manager.received().join("\n")).toContain(`Serving at https://127.0.0.1:${service.port}; the`);

    const failures: string[] = [];
    let running = true;
    let asked = 0;
    const clients = Array.from({ length: 16 }, async () => {
      while (running) {
        asked++;
        const shown = asked % 4 === 0 ? showToOperators() : show();
        await shown.catch((error: unknown) => failures.push(String(error)));
      }
    });
    copy(two);
    service.kill("SIGHUP");
    await until(() => service.err().includes("New connections get the new certificate"));
    // The key of one pair with the certificate of the other, as in the middle of a renewal.
    copyFileSync(one.certFile, join(folder, "tls.crt"));
    service.kill("SIGHUP");
    await until(() => service.err().includes("The certificate was not changed: the one before is kept"));
    await until(() => asked > 300);
    running = false;
    await Promise.all(clients);
    expect(failures).toEqual([]);
    expect((await show()).fingerprint).toBe(two.fingerprint);
    expect((await showToOperators()).fingerprint).toBe(two.fingerprint);
    expect(await service.stop("SIGINT")).toBe(0);
  });

  test("warns on a reload that credentials are copies, so a new certificate needs a restart", async () => {
    const pair = makeCertificate(folder, "five");
    const credentials = join(folder, "credentials");
    mkdirSync(credentials);
    copyFileSync(pair.certFile, join(credentials, "claviger-tls-cert"));
    copyFileSync(pair.keyFile, join(credentials, "claviger-tls-key"));
    // Without settings the service takes the copies that systemd passes on.
    const service = await start([], { CREDENTIALS_DIRECTORY: credentials });
    expect((await shownFingerprint(service.port, "/api/health")).fingerprint).toBe(pair.fingerprint);
    service.kill("SIGHUP");
    await until(() => service.err().includes("A reload cannot change the certificate"));
    expect(service.err()).toMatch(/ warn .*after a renewal run `systemctl restart claviger`/);
    expect(await service.stop("SIGINT")).toBe(0);
  });

  test("refuses to start with a certificate and a key that do not match, and says why", async () => {
    copy(makeCertificate(folder, "three"));
    copyFileSync(makeCertificate(folder, "four").keyFile, join(folder, "tls.key"));
    await expect(start(files)).rejects.toThrow(
      `Cannot use TLS: the key ${join(folder, "tls.key")} does not belong to the first certificate in`,
    );
    await expect(start(files.slice(0, 2))).rejects.toThrow("CLAVIGER_TLS_CERT is given without");
  });
});
