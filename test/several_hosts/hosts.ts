/**
 * The set-up of the guide's page `replicas` for three hosts, on this machine: three services that share their windows,
 * two PostgreSQL under Patroni, and HAProxy with TLS to clients and to the services, as the page configures it.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCertificate } from "../support/certificates.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { haproxy, shownConfig } from "../support/haproxy.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import {
  limitSettings,
  type ServiceProcess,
  SOURCE,
  spawnService,
  toServeCommand,
} from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { missingForPatroni, type PatroniCluster, startPatroni } from "./patroni.ts";

export interface Hosts {
  readonly cluster: PatroniCluster;
  /** Sends a request to the clients' address of HAProxy. Throws if the connection is refused or cut. */
  post(path: string, body: object, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Ends one of the three services, and starts it again. */
  restartService(index: number, signal: "SIGKILL" | "SIGTERM"): Promise<void>;
  /** Kills HAProxy, and starts it again. */
  killBalancer(): Promise<void>;
  /** Waits until every service serves behind HAProxy, and both PostgreSQL run. */
  untilWhole(): Promise<void>;
  close(): Promise<void>;
}

const NAMES = [1, 2, 3];
/** In this time HAProxy checks a service that was started again often enough to use it. */
const CHECKED_MS = 1_000;

/** Returns the first missing program; undefined if the set-up can run on this machine. */
export function missingForHosts(): string | undefined {
  return missingForPatroni() ?? (haproxy === null ? "haproxy" : undefined);
}

/** Starts everything. `settings` are of all services, besides those of the page. The folder takes files and logs. */
export async function startHosts(
  folder: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Hosts> {
  // What was started ends, the newest first, also if a later part does not start.
  await using started = new AsyncDisposableStack();
  const cluster = await startPatroni();
  started.defer(() => cluster.close());
  const services = await Promise.all(NAMES.map(() => findFreePort()));
  const listeners = await Promise.all(NAMES.map(() => findFreePort()));
  const [clients, operators] = [await findFreePort(), await findFreePort()];
  const ports: Record<string, number | undefined> = {
    "10.0.0.10:443": clients,
    "10.0.0.10:8443": operators,
    ...Object.fromEntries(NAMES.map((name, index) => [`10.0.0.${name}:8443`, services[index]])),
    ...Object.fromEntries(NAMES.map((name, index) => [`10.0.0.${name}:8444`, listeners[index]])),
  };
  const names = "IP:127.0.0.1,DNS:claviger.internal";
  const { certFile, keyFile, certificate, privateKey } = makeCertificate(folder, "tls", 30, names);
  for (const name of ["licenses.pem", "admin.pem"])
    writeFileSync(join(folder, name), certificate + privateKey);
  writeFileSync(join(folder, "services-ca.crt"), certificate);
  const configFile = join(folder, "haproxy.cfg");
  writeFileSync(configFile, moveConfig(takingTurns(shownConfig("haproxy-hosts")), { folder, ports }));

  const startBalancer = () =>
    Bun.spawn([haproxy ?? "", "-db", "-f", configFile], { stdout: "ignore", stderr: "ignore" });
  const startService = async (index: number) => {
    const service = spawnService(toServeCommand(SOURCE, ["--port", `${services[index]}`]), {
      cwd: folder,
      env: {
        // Each service would count them by itself.
        ...limitSettings(0),
        CLAVIGER_DATA_DIR: folder,
        DATABASE_URL: cluster.url,
        CLAVIGER_SECRET: TEST_SECRET,
        CLAVIGER_TLS_CERT: certFile,
        CLAVIGER_TLS_KEY: keyFile,
        CLAVIGER_STOP_GRACE: "2",
        CLAVIGER_ADMIN_LISTEN: `127.0.0.1:${listeners[index]}`,
        CLAVIGER_ADMIN_URL: `https://127.0.0.1:${operators}`,
        CLAVIGER_TRUSTED_PROXIES: "127.0.0.1",
        ...settings,
      },
    });
    await service.untilServing();
    return service;
  };

  const running: ServiceProcess[] = [];
  started.defer(() => Promise.all(running.map((service) => service.stop())).then(() => {}));
  for (const index of NAMES.keys()) running.push(await startService(index));
  let balancer = startBalancer();
  const endBalancer = async () => {
    balancer.kill("SIGKILL");
    await balancer.exited;
  };
  started.defer(endBalancer);

  const ask = async (url: string, init?: RequestInit) =>
    await fetch(url, { ...init, tls: { ca: certificate }, signal: AbortSignal.timeout(10_000) });
  const isHealthy = async (url: string) => (await ask(url).catch(() => undefined))?.status === 200;

  async function untilWhole() {
    await cluster.untilWhole();
    for (const { url } of running) await until(() => isHealthy(`${url}/api/health`));
    await Bun.sleep(CHECKED_MS);
    await until(() => isHealthy(`https://127.0.0.1:${clients}/api/health`));
    await until(() => isHealthy(`https://127.0.0.1:${operators}/admin/health`));
  }

  await untilWhole();
  const all = started.move();
  return {
    cluster,
    post: (path, body, headers = {}) =>
      ask(`https://127.0.0.1:${clients}${path}`, { method: "POST", body: JSON.stringify(body), headers }),
    async restartService(index, signal) {
      await running[index]?.stop(signal);
      // As systemd does: a service that finds no primary ends, and is started again.
      const startAgain = () => startService(index).catch(() => undefined);
      running[index] = await until(startAgain, { what: "a service starts again", limitMs: 60_000 });
    },
    async killBalancer() {
      await endBalancer();
      balancer = startBalancer();
    },
    untilWhole,
    close: () => all.disposeAsync(),
  };
}

/** Exchanges the lines that the page names, for a balancer that takes services in turn. */
function takingTurns(shown: string): string {
  const hashed = "  balance hash var(txn.key)\n  hash-type consistent\n";
  if (!shown.includes(hashed)) throw new Error("The page does not hash by key");
  return shown.replace(hashed, "  balance roundrobin\n");
}

interface Moved {
  readonly folder: string;
  readonly ports: Readonly<Record<string, number | undefined>>;
}

/** Moves the addresses of the page to ports of this machine, and its files to the folder. */
function moveConfig(shown: string, { folder, ports }: Moved): string {
  return shown
    .replaceAll(/10\.0\.0\.\d+:\d+/g, (address) => `127.0.0.1:${ports[address]}`)
    .replaceAll("10.0.0.10", "127.0.0.1")
    .replaceAll("10.0.0.0/8", "127.0.0.0/8")
    .replaceAll("/etc/haproxy", folder);
}
