/**
 * Sets up a service, its PostgreSQL and its load for the crash test. There are three stages: in `external`, the test
 * program runs PostgreSQL; in `embedded`, the service runs it; `small_disk` is `embedded` on a disk that fills up.
 */
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { isRefusal } from "../../src/base/refusal.ts";
import { type Database, migrate, migrations } from "../../src/database/mod.ts";
import type { IssueRequest } from "../../src/licensing/keys/mod.ts";
import { issue } from "../support/issue.ts";
import { type MessageProxy, startMessageProxy } from "../support/message_proxy.ts";
import type { Random } from "../support/random.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import {
  limitSettings,
  type ServiceProcess,
  spawnService,
  toServeCommand,
} from "../support/service_process.ts";
import { withDatabase } from "./audit.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import { type Load, type LoadKeys, startLoad } from "./load.ts";
import {
  addressOf,
  type Cluster,
  createOwnPostgres,
  embeddedCluster,
  type OwnPostgres,
} from "./postgres_process.ts";
import type { Program } from "./program.ts";
import { mountSmallDisk, type SmallDisk } from "./small_disk.ts";

export type StageName = "external" | "embedded" | "small_disk";

/** The way to the external database, and the kind of clock, that a fault needs. */
export type Setup = "direct" | "proxied" | "clocked";

export interface Stage {
  readonly name: StageName;
  readonly folder: string;
  readonly cluster: Cluster;
  /** The PostgreSQL that the test program runs; undefined if the service runs its own. */
  readonly own: OwnPostgres | undefined;
  readonly proxy: MessageProxy | undefined;
  readonly disk: SmallDisk | undefined;
  readonly keys: LoadKeys;
  readonly ledger: Ledger;
  readonly load: Load;
  readonly random: Random;
  readonly program: Program;
  service(): ServiceProcess;
  setup(): Setup;
  /** Declares that requests may be lost from now on, until the service starts again. */
  expectDown(): void;
  /** Starts the service, which must have ended. */
  startService(): Promise<void>;
  /**
   * Stops the service with SIGTERM and starts it with another setup; does nothing if it has that setup
   * already.
   */
  change(setup: Setup): Promise<void>;
  /** Ends everything that the stage started. */
  end(): Promise<void>;
}

export interface StageOptions {
  readonly name: StageName;
  /** An empty folder that every user may enter. */
  readonly folder: string;
  readonly program: Program;
  readonly random: Random;
}

const PLAIN_KEYS = 8;
const CLAIMED_KEYS = 8;
/** The load reaches this limit within a minute. */
const SMALL_LIMIT = 300;

export async function createStage({ name, folder, program, random }: StageOptions): Promise<Stage> {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o755);
  const undo: (() => Promise<unknown> | unknown)[] = [];
  /** The service that was started last, and the one that served last. */
  let started: ServiceProcess | undefined;
  let running: ServiceProcess | undefined;
  let setup: Setup = "direct";
  /** Odd while the service may be down. */
  let downs = 0;

  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= (async () => {
      for (const step of undo.splice(0).reverse()) await step();
    })();
    return ending;
  };

  try {
    const dataDir = join(folder, "data");
    const disk = name === "small_disk" ? mountSmallDisk(dataDir) : undefined;
    if (disk !== undefined) undo.push(disk.unmount);
    const own =
      name === "external" ? await createOwnPostgres(dataDir, join(folder, "postgres.log")) : undefined;
    if (own !== undefined) undo.push(own.remove);
    const cluster = own ?? embeddedCluster(dataDir);
    const proxy = own && (await startMessageProxy({ path: own.socketPath }));
    if (proxy !== undefined) undo.push(proxy.close);
    if (own !== undefined) {
      const migrated = await migrate(addressOf(own), migrations);
      if (isRefusal(migrated)) throw new Error(migrated.sentence);
    }
    undo.push(() => started?.end());

    const startService = async () => {
      if (ending !== undefined) throw new Error("The stage is being ended");
      const url = own && new URL(own.url);
      if (url !== undefined && setup === "proxied") url.port = String(proxy?.port);
      started = spawnService(toServeCommand(program.command, ["--data-dir", dataDir]), {
        cwd: folder,
        // No limits: this test is about faults.
        env: {
          PATH: "/usr/bin:/bin",
          ...limitSettings(0),
          ...(url !== undefined && { DATABASE_URL: url.href, CLAVIGER_SECRET: TEST_SECRET }),
        },
        // The files stay as evidence.
        files: { out: join(folder, "service.out"), err: join(folder, "service.err") },
        ...(own === undefined && { dataDir }),
        ...(setup === "clocked" && { clock: { wallMs: 0, monotonicMs: 0 } }),
        // After Ctrl-C the test program ends the stage in its order.
        isDetached: true,
      });
      await started.untilServing();
      running = started;
      if (downs % 2 === 1) downs++;
    };
    const service = () => {
      if (running === undefined) throw new Error("The service was not started");
      return running;
    };
    const expectDown = () => {
      if (downs % 2 === 0) downs++;
    };

    await startService();
    const keys = await withDatabase(cluster, issueKeys);
    const ledger = createLedger();
    const load = startLoad({
      ...{ keys, ledger, random },
      port: () => (running?.hasEnded() ? undefined : running?.port),
      downs: () => downs,
    });
    undo.push(load.end);

    return {
      ...{ name, folder, cluster, own, proxy, disk, keys, ledger, load, random, program },
      ...{ service, startService, expectDown, end },
      setup: () => setup,
      async change(next) {
        if (next === setup) return;
        expectDown();
        await service().stop();
        setup = next;
        await startService();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}

async function issueKeys(database: Database): Promise<LoadKeys> {
  const issueMany = async (count: number, request: Partial<IssueRequest>) => {
    const keys: string[] = [];
    for (let one = 0; one < count; one++) {
      const email = `${crypto.randomUUID()}@example.org`;
      keys.push((await issue(database, { email, tier: "enterprise", ...request })).apiKey);
    }
    return keys;
  };
  const [limited = ""] = await issueMany(1, { tier: "free", monthlyLimit: SMALL_LIMIT });
  return {
    plain: await issueMany(PLAIN_KEYS, {}),
    claimed: await issueMany(CLAIMED_KEYS, {}),
    limited,
  };
}
