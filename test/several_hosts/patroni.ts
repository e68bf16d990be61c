/**
 * Runs two PostgreSQL 15 under Patroni, with one etcd, all of Debian, on 127.0.0.1: as operators run a highly available
 * PostgreSQL, with a synchronous standby.
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../support/find_free_port.ts";
import { asOrdinaryUser, POSTGRES_15_BIN } from "../support/postgres_15.ts";
import { until } from "../support/until.ts";

export interface PatroniCluster {
  /** The address with both servers. */
  readonly url: string;
  /** The ports of both servers. */
  readonly ports: readonly number[];
  /** Returns the name of the primary; undefined while there is none. */
  primary(): Promise<string | undefined>;
  /** Makes the standby the primary, in order. */
  switchover(): Promise<void>;
  /** Kills the PostgreSQL of the primary or of the standby, and waits until Patroni has started it again. */
  killPostgres(role: "primary" | "standby"): Promise<void>;
  /** Kills the Patroni of the primary or of the standby, or etcd, and starts it again, as systemd does. */
  killKeeper(of: "primary" | "standby" | "etcd"): Promise<void>;
  /** Waits until a primary and a synchronous standby run. */
  untilWhole(): Promise<void>;
  close(): Promise<void>;
}

const NEEDED = ["/usr/bin/patroni", "/usr/bin/patronictl", "/usr/bin/etcd", join(POSTGRES_15_BIN, "initdb")];
const NAMES = ["one", "two"] as const;
const SCOPE = "claviger";
const WHOLE_MS = 60_000;

/** Returns the first missing program; undefined if a cluster can run on this machine. */
export function missingForPatroni(): string | undefined {
  return NEEDED.find((path) => !existsSync(path));
}

export async function startPatroni(): Promise<PatroniCluster> {
  const folder = mkdtempSync(join(tmpdir(), "claviger-patroni-"));
  chmodSync(folder, 0o777);
  const env = { PATH: `${POSTGRES_15_BIN}:/usr/bin:/bin`, LC_ALL: "C.UTF-8", TZ: "UTC", HOME: folder };
  // The programs end, the newest first, also if a later one does not start.
  await using started = new AsyncDisposableStack();
  started.defer(async () => {
    for (const child of [...children.values()].toReversed()) {
      child.kill("SIGTERM");
      await child.exited;
    }
    await rm(folder, { recursive: true });
  });
  const children = new Map<string, Bun.Subprocess>();
  const commands = new Map<string, readonly string[]>();

  function start(name: string) {
    const log = openSync(join(folder, `${name}.log`), "a");
    const command = [...asOrdinaryUser(), ...(commands.get(name) ?? [])];
    children.set(name, Bun.spawn(command, { cwd: folder, env, stdin: "ignore", stdout: log, stderr: log }));
    closeSync(log);
  }

  const [client, peer] = [await findFreePort(), await findFreePort()];
  const [clientUrl, peerUrl] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
  commands.set("etcd", [
    ...["etcd", "--name", "etcd", "--data-dir", join(folder, "etcd")],
    ...["--listen-client-urls", clientUrl, "--advertise-client-urls", clientUrl],
    ...["--listen-peer-urls", peerUrl, "--initial-advertise-peer-urls", peerUrl],
    ...["--initial-cluster", `etcd=${peerUrl}`],
  ]);
  start("etcd");
  await until(async () => (await fetch(`${clientUrl}/health`).catch(() => undefined))?.ok);

  const nodes: Node[] = [];
  for (const name of NAMES) {
    const [port, api] = [await findFreePort(), await findFreePort()];
    const file = join(folder, `${name}.json`);
    const settings = { name, folder, port, api, etcd: `127.0.0.1:${client}` };
    // Every JSON is YAML, which Patroni reads.
    writeFileSync(file, JSON.stringify(configOf(settings)));
    nodes.push({ name, port, api, file });
    commands.set(name, ["patroni", file]);
  }
  const [one] = nodes;

  const ask = async ({ api }: Node, path: string) =>
    (await fetch(`http://127.0.0.1:${api}${path}`).catch(() => undefined))?.status;

  async function primary() {
    for (const node of nodes) if ((await ask(node, "/primary")) === 200) return node;
    return undefined;
  }

  async function untilWhole(): Promise<void> {
    await until(
      async () => {
        const states = await Promise.all(nodes.map((node) => ask(node, "/sync")));
        return (await primary()) !== undefined && states.includes(200);
      },
      { what: `a primary and a synchronous standby (${folder})`, limitMs: WHOLE_MS },
    );
  }

  for (const { name } of nodes) {
    start(name);
    // The first node makes the cluster, and the second copies it.
    await until(async () => (await primary()) !== undefined, { what: "a primary", limitMs: WHOLE_MS });
  }
  await untilWhole();

  async function nameOf(role: "primary" | "standby"): Promise<string> {
    const first = await primary();
    return nodes.find((node) => (node === first) === (role === "primary"))?.name ?? "";
  }

  const all = started.move();
  return {
    ports: nodes.map(({ port }) => port),
    url: `postgres://claviger:secret@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}/postgres`,
    primary: async () => (await primary())?.name,
    async switchover() {
      const before = (await primary())?.name ?? "";
      const args = ["-c", one?.file ?? "", "switchover", SCOPE, "--leader", before, "--force"];
      // Not a blocking call: the clients and the service of a test may be in this process.
      const child = Bun.spawn(["patronictl", ...args], {
        env,
        stdin: "ignore",
        stdout: "pipe",
        stderr: "inherit",
      });
      const output = await new Response(child.stdout).text();
      if ((await child.exited) !== 0) throw new Error(`patronictl failed: ${output}`);
      const isOver = async () => ![undefined, before].includes((await primary())?.name);
      await until(isOver, { what: `another primary: ${output}`, limitMs: WHOLE_MS });
    },
    async killPostgres(role) {
      const file = join(folder, await nameOf(role), "postmaster.pid");
      const pid = () => (existsSync(file) ? Number.parseInt(readFileSync(file, "utf8"), 10) : 0);
      const killed = pid();
      process.kill(killed, "SIGKILL");
      await until(() => pid() !== 0 && pid() !== killed, {
        what: "PostgreSQL starts again",
        limitMs: WHOLE_MS,
      });
    },
    async killKeeper(of) {
      const name = of === "etcd" ? of : await nameOf(of);
      children.get(name)?.kill("SIGKILL");
      await children.get(name)?.exited;
      start(name);
    },
    untilWhole,
    close: () => all.disposeAsync(),
  };
}

interface Node {
  readonly name: string;
  readonly port: number;
  readonly api: number;
  /** The file of its settings. */
  readonly file: string;
}

interface NodeSettings {
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  readonly api: number;
  readonly etcd: string;
}

function configOf({ name, folder, port, api, etcd }: NodeSettings) {
  const connect = `127.0.0.1:${port}`;
  const user = (username: string) => ({ username, password: "secret" });
  return {
    scope: SCOPE,
    name,
    restapi: { listen: `127.0.0.1:${api}`, connect_address: `127.0.0.1:${api}` },
    etcd3: { host: etcd },
    bootstrap: {
      dcs: {
        ...{ ttl: 20, loop_wait: 1, retry_timeout: 3 },
        // A primary whose PostgreSQL was killed gives way at once, and is not started again as the primary.
        primary_start_timeout: 0,
        synchronous_mode: true,
        postgresql: { use_pg_rewind: true, parameters: { max_connections: 100, wal_log_hints: "on" } },
      },
      initdb: [{ encoding: "UTF8" }, { locale: "C.UTF-8" }, "data-checksums"],
      pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
    },
    postgresql: {
      ...{
        listen: connect,
        connect_address: connect,
        data_dir: join(folder, name),
        bin_dir: POSTGRES_15_BIN,
      },
      pgpass: join(folder, `${name}.pgpass`),
      authentication: { superuser: user("claviger"), replication: user("standby"), rewind: user("rewind") },
      parameters: { unix_socket_directories: folder, timezone: "UTC" },
    },
  };
}
