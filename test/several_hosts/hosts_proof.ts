/**
 * Three services behind HAProxy on two PostgreSQL under Patroni, as the guide's page `replicas` describes it: under
 * load anything is killed, one at a time. The limits stay exact, no acknowledged event is lost or stored twice, no
 * revoked key is accepted later than promised, and clients see only cut connections and 503.
 * `HOSTS_SECONDS=600 make prove ARGS=test/several_hosts/hosts_proof.ts` goes on for ten minutes.
 */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { type Database, openDatabase, toDatabaseAddress } from "../../src/database/mod.ts";
import { type Admitted, type Emptied, tooMany } from "../clients/shared_windows/history.ts";
import { issue } from "../support/issue.ts";
import { createRandom } from "../support/random.ts";
import { useFolder } from "../support/use_folder.ts";
import { expectStoredOnce } from "./expect_stored_once.ts";
import { type Hosts, missingForHosts, startHosts } from "./hosts.ts";

// Takes over a minute.

/** Each kind of fault happens once at least, also when this is over sooner. */
const SECONDS = Number(process.env.HOSTS_SECONDS ?? 0);
/** The clients ask for ten times as much, so that windows that were emptied fill before the next failover. */
const LIMIT = 80;
const KEYS = 4;
const VALIDATING = 12;
const SENDING = 6;
const MOST_PAUSE_MS = 400;
/** A revoked key is refused everywhere after this time. */
const REVOKED_MS = 1_000;
/** After a cut connection, or a 503, a client waits. */
const BACKOFF_MS = 50;
const missing = missingForHosts();
if (missing !== undefined) console.warn(`No ${missing} on this machine: three hosts are not tried`);

const folder = useFolder();
const random = createRandom(Date.now());

/** Starts clients, and keeps what they see, until `stop`. */
async function startClients(hosts: Hosts, database: Database) {
  const answers = new Map<string, number>();
  const acknowledged = new Set<string>();
  const revoked: { readonly apiKey: string; readonly answeredMs: number }[] = [];
  const late: string[] = [];
  let slowestMs = 0;
  let isStopped = false;

  const issued: string[] = [];
  for (let i = 0; i < KEYS; i++) issued.push((await issue(database, { monthlyLimit: 10_000_000 })).apiKey);
  const history = issued.map((): Admitted[] => []);

  /** Returns the status; undefined if the connection was refused or cut, by a service or by HAProxy. */
  async function post(path: string, body: object, headers?: Record<string, string>) {
    const sentMs = Date.now();
    const answer = await hosts.post(path, body, headers).catch(() => undefined);
    // HAProxy says 502 when a service cuts the connection, and a 503 of its own is no JSON.
    const isCut = answer === undefined || answer.status === 502;
    const isOwn = answer?.headers.get("content-type")?.startsWith("application/json");
    const seen = isCut ? "cut" : `${answer.status}${isOwn ? "" : " of HAProxy"}`;
    answers.set(seen, (answers.get(seen) ?? 0) + 1);
    slowestMs = Math.max(slowestMs, Date.now() - sentMs);
    const status = isCut ? undefined : answer.status;
    if (status === undefined || status === 503) await Bun.sleep(BACKOFF_MS);
    return { status, sentMs, answeredMs: Date.now() };
  }
  async function validating() {
    while (!isStopped) {
      const index = random.between(0, KEYS - 1);
      const { status, ...times } = await post("/v1/auth/validate", { api_key: issued[index] });
      if (status === 200) history[index]?.push(times);
      await Bun.sleep(random.between(0, MOST_PAUSE_MS));
    }
  }
  async function sending(name: number) {
    for (let number = 0; !isStopped; number++) {
      const claim = `${name}-${number}`;
      const event = { api_key: issued[number % KEYS], event_type: "inference", metadata: { claim } };
      // As the guide says: the client repeats the event until it is acknowledged.
      for (let status: number | undefined; status !== 202 && !isStopped; ) {
        ({ status } = await post("/v1/analytics/log", event, { "Idempotency-Key": claim }));
        if (status === 202) acknowledged.add(claim);
      }
      await Bun.sleep(5);
    }
  }
  async function revoking() {
    while (!isStopped) {
      await Bun.sleep(500);
      const key = await issue(database).catch(() => undefined);
      if (key === undefined) continue;
      const { apiKey } = key;
      await post("/v1/auth/validate", { api_key: apiKey });
      // 404: an earlier attempt, whose answer was cut, has revoked it.
      for (let status: number | undefined; status !== 200 && status !== 404 && !isStopped; ) {
        ({ status } = await post("/v1/auth/revoke", { api_key: apiKey }));
        if (status === 200 || status === 404) revoked.push({ apiKey, answeredMs: Date.now() });
      }
    }
  }
  async function askingRevoked() {
    while (!isStopped) {
      await Bun.sleep(100);
      // The newest that must be refused everywhere, and any other.
      const due = revoked.filter(({ answeredMs }) => answeredMs + REVOKED_MS < Date.now());
      for (const key of [due.at(-1), due[random.between(0, due.length - 1)]]) {
        if (key === undefined) continue;
        const { status } = await post("/v1/auth/validate", { api_key: key.apiKey });
        if (status === 200) late.push(key.apiKey.slice(-4));
      }
    }
  }
  const running = [
    ...Array.from({ length: VALIDATING }, validating),
    ...Array.from({ length: SENDING }, (_, name) => sending(name)),
    revoking(),
    askingRevoked(),
  ];
  return {
    async stop() {
      isStopped = true;
      await Promise.all(running);
      return { answers: Object.fromEntries(answers), acknowledged, history, revoked, late, slowestMs };
    },
  };
}

function faultsOf(hosts: Hosts): Readonly<Record<string, () => Promise<void>>> {
  const { cluster } = hosts;
  return {
    "kill a service": () => hosts.restartService(random.between(0, 2), "SIGKILL"),
    "restart a service": () => hosts.restartService(random.between(0, 2), "SIGTERM"),
    "kill HAProxy": () => hosts.killBalancer(),
    "switch over": () => cluster.switchover(),
    "kill the primary": () => cluster.killPostgres("primary"),
    "kill the standby": () => cluster.killPostgres("standby"),
    "kill Patroni of the primary": () => cluster.killKeeper("primary"),
    "kill Patroni of the standby": () => cluster.killKeeper("standby"),
    "kill etcd": () => cluster.killKeeper("etcd"),
  };
}

/** Watches which PostgreSQL is the primary. `stop` returns the time at which another one was; undefined if none was. */
async function watchPrimary({ cluster }: Hosts) {
  const before = await cluster.primary();
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      if (![undefined, before].includes(await cluster.primary())) return Date.now();
      await Bun.sleep(20);
    }
    return undefined;
  })();
  return {
    async stop() {
      isOver = true;
      return await watching;
    },
  };
}

test.skipIf(missing !== undefined)(
  "Three hosts keep every promise while anything is killed, one at a time",
  async () => {
    await using ends = new AsyncDisposableStack();
    const hosts = await startHosts(folder, {
      CLAVIGER_RATE_LIMITS: "shared",
      CLAVIGER_LIMIT_VALIDATE: String(LIMIT),
    });
    ends.defer(() => hosts.close());
    const address = toDatabaseAddress(hosts.cluster.url);
    const database = openDatabase(address, { clock: systemClock, log: silentLog, maxConnections: 2 });
    ends.use(database);
    const clients = await startClients(hosts, database);
    ends.defer(async () => void (await clients.stop()));
    const emptied: Emptied[] = [];
    const happened: Record<string, number> = {};
    const untilMs = Date.now() + SECONDS * 1_000;
    do {
      for (const [name, happen] of random.shuffle(Object.entries(faultsOf(hosts)))) {
        await Bun.sleep(random.between(1_000, 4_000));
        const fromMs = Date.now();
        const change = await watchPrimary(hosts);
        await happen();
        happened[name] = (happened[name] ?? 0) + 1;
        await hosts.untilWhole();
        const toMs = (await change.stop()) ?? (name === "kill the primary" ? Date.now() : undefined);
        if (toMs !== undefined) emptied.push({ fromMs, toMs });
      }
    } while (Date.now() < untilMs);
    const { answers, acknowledged, history, revoked, late, slowestMs } = await clients.stop();

    console.log(
      `Three hosts: ${JSON.stringify({ happened, failovers: emptied.length, answers, slowestMs })}, ` +
        `${acknowledged.size} events, ${revoked.length} keys revoked`,
    );
    const allowed = ["200", "202", "401", "404", "429", "503", "503 of HAProxy", "cut"];
    expect(Object.keys(answers).filter((seen) => !allowed.includes(seen))).toEqual([]);
    expect(late).toEqual([]);
    expect(revoked.length).toBeGreaterThan(10);
    for (const admitted of history) {
      expect(admitted.length).toBeGreaterThanOrEqual(LIMIT);
      expect(tooMany(admitted, { limit: LIMIT, emptied })).toEqual([]);
    }
    await expectStoredOnce(database, acknowledged);
  },
);
