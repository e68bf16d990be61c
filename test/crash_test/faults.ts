/**
 * All faults. Each fault acts on a stage under load, and returns the moment from which the service must recover:
 * when the database accepted sessions again, or when the fault ended.
 */
import { ACTIONS, type Action, type MessageName } from "../support/message_proxy.ts";
import { until } from "../support/until.ts";
import {
  control,
  LIST_BACKENDS,
  openControl,
  postmasterOf,
  TERMINATE,
  untilAccepting,
} from "./postgres_process.ts";
import { freeze, listClusterProcesses, signal, thaw } from "./processes.ts";
import type { Setup, Stage, StageName } from "./stage.ts";

export interface Fault {
  readonly kind: string;
  /** Tells the faults of one kind apart. */
  readonly detail?: string;
  readonly stage: StageName;
  readonly setup: Setup;
  /** How many database restarts, and how many kills by SIGKILL, the fault counts as. */
  readonly restarts: number;
  readonly kills: number;
  run(stage: Stage): Promise<number>;
}

/** A fault did not happen: the test program is wrong, or the machine cannot do it. */
export class FaultMissed extends Error {
  override readonly name = "FaultMissed";
}

/** Longer than every deadline of the service, and longer than the 5 s in which it must answer. */
const FREEZE_MS = 5_500;
/** How long the service trusts a cached key after the pulse stops. */
export const TRUST_MS = 1_000;
/** Longer than {@linkcode TRUST_MS}, so that 503 is seen. */
const STALL_MS = 2_200;
/** Longer than a stop under systemd may take. */
const STOP_LIMIT_MS = 10_000;
const HOUR_MS = 3_600_000;

type StopMode = "smart" | "fast" | "immediate";
const STOP_SIGNALS = { smart: "SIGTERM", fast: "SIGINT", immediate: "SIGQUIT" } as const;

/** Waits for the event that makes the fault real; throws {@linkcode FaultMissed} if it does not come. */
async function untilFault(what: string, isSo: () => boolean, limitMs = 30_000): Promise<void> {
  try {
    await until(isSo, { what, limitMs });
  } catch (error) {
    throw new FaultMissed(error instanceof Error ? error.message : String(error));
  }
}

const isAlive = (stage: Stage, pid: number) => listClusterProcesses(stage.cluster.folder).includes(pid);

function postmasterOfStage(stage: Stage): number {
  const pid = postmasterOf(stage.cluster);
  if (pid === undefined) throw new FaultMissed("There is no postmaster");
  return pid;
}

/**
 * Starts the database again after its end, if the test program runs it. A service starts its own database
 * by itself.
 */
async function startAgain(stage: Stage): Promise<number> {
  await stage.own?.start();
  return await untilAccepting(stage.cluster, stage.own && { restart: stage.own.start });
}

/** Stops the database and starts it again: after a while, or at once if `downMs` is 0. */
function stopFault(mode: StopMode, stageName: "external" | "embedded", downMs: number): Fault {
  return {
    kind: downMs === 0 ? `restart ${mode}` : `stop ${mode}`,
    ...{ stage: stageName, setup: "direct", restarts: 1, kills: 0 },
    async run(stage) {
      const postmaster = postmasterOfStage(stage);
      const control = mode === "smart" ? await openControl(stage.cluster) : undefined;
      signal(postmaster, STOP_SIGNALS[mode]);
      if (control !== undefined) {
        // A smart stop waits for all sessions. The service keeps its sessions open, so terminate them.
        await Bun.sleep(300);
        await control.run(TERMINATE);
        await control.end();
        await untilFault("a smart stop ends", () => !isAlive(stage, postmaster));
      }
      await untilFault(`a ${mode} stop ends`, () => !isAlive(stage, postmaster));
      if (downMs > 0) await Bun.sleep(stage.random.between(downMs / 2, downMs));
      return await startAgain(stage);
    },
  };
}

const terminate: Fault = {
  kind: "terminated backends",
  ...{ stage: "external", setup: "direct", restarts: 0, kills: 0 },
  async run(stage) {
    const ended = await control(stage.cluster, TERMINATE);
    if (ended.length === 0) throw new FaultMissed("No backend was terminated");
    return performance.now();
  },
};

const frozen: Fault = {
  kind: "frozen database (SIGSTOP)",
  ...{ stage: "external", setup: "direct", restarts: 0, kills: 0 },
  async run(stage) {
    freeze(stage.cluster.folder);
    try {
      await Bun.sleep(FREEZE_MS);
    } finally {
      thaw(stage.cluster.folder);
    }
    return await untilAccepting(stage.cluster);
  },
};

function killPostmaster(stageName: "external" | "embedded"): Fault {
  return {
    kind: "kill -9 postmaster",
    ...{ stage: stageName, setup: "direct", restarts: 1, kills: 1 },
    async run(stage) {
      const postmaster = postmasterOfStage(stage);
      signal(postmaster, "SIGKILL");
      await untilFault("a killed postmaster ends", () => !isAlive(stage, postmaster));
      if (stage.own !== undefined) {
        // The postmaster's children notice its end; a new postmaster cannot start while one of them lives.
        await untilFault("its children end", () => listClusterProcesses(stage.cluster.folder).length === 0);
      } else {
        await untilFault(
          "another postmaster",
          () => (postmasterOf(stage.cluster) ?? postmaster) !== postmaster,
        );
      }
      return await startAgain(stage);
    },
  };
}

function killBackend(stageName: "external" | "embedded"): Fault {
  return {
    kind: "kill -9 backend",
    // The postmaster ends every session and recovers.
    ...{ stage: stageName, setup: "direct", restarts: 1, kills: 1 },
    async run(stage) {
      const backends = (await control(stage.cluster, LIST_BACKENDS)).map(({ pid }) => Number(pid));
      if (backends.length === 0) throw new FaultMissed("There is no backend to kill");
      signal(stage.random.pick(backends), "SIGKILL");
      await untilFault("every session ends", () => backends.every((pid) => !isAlive(stage, pid)));
      return await untilAccepting(stage.cluster);
    },
  };
}

/** Ends the service and starts it again; returns the moment when its database accepted sessions. */
async function replaceService(stage: Stage, end: () => Promise<void>): Promise<number> {
  const before = postmasterOf(stage.cluster);
  stage.expectDown();
  await end();
  // So that the next service finds the remaining processes in different states.
  await Bun.sleep(stage.random.between(0, 150));
  const starting = stage.startService();
  // If the service fails to start, report that failure.
  const failed = starting.then(() => new Promise<never>(() => {}));
  if (stage.own !== undefined) {
    await starting;
    return performance.now();
  }
  const isNew = () => (postmasterOf(stage.cluster) ?? before) !== before;
  await Promise.race([failed, untilFault("a postmaster of the new service", isNew)]);
  const backMs = await Promise.race([failed, untilAccepting(stage.cluster)]);
  await starting;
  return backMs;
}

function killService(stageName: "external" | "embedded"): Fault {
  return {
    kind: "kill -9 service",
    // A service with its own database restarts the database too.
    ...{ stage: stageName, setup: "direct", restarts: stageName === "embedded" ? 1 : 0, kills: 1 },
    run: (stage) =>
      replaceService(stage, async () => {
        await stage.service().stop("SIGKILL");
      }),
  };
}

function terminateService(stageName: "external" | "embedded"): Fault {
  return {
    kind: "SIGTERM under load",
    ...{ stage: stageName, setup: "direct", restarts: stageName === "embedded" ? 1 : 0, kills: 0 },
    run: (stage) =>
      replaceService(stage, async () => {
        const stopped = stage.service();
        const beganMs = performance.now();
        stopped.kill("SIGTERM");
        const how = await Promise.race([
          stopped.ended,
          Bun.sleep(STOP_LIMIT_MS + 1_000).then(() => "nothing"),
        ]);
        const tookMs = performance.now() - beganMs;
        if (how !== 0 || tookMs > STOP_LIMIT_MS) {
          stage.ledger.violate("SIGTERM ends the service in order", { how, tookMs });
          stopped.kill("SIGKILL");
          await stopped.ended;
        }
        const left = stage.own === undefined ? listClusterProcesses(stage.cluster.folder) : [];
        if (left.length > 0) stage.ledger.violate("SIGTERM ends the database inside", { left });
      }),
  };
}

/** Makes the proxy fail at one message of the protocol. */
export function messageFault(message: MessageName, action: Action): Fault {
  return {
    kind: `proxy ${action}`,
    detail: message,
    ...{ stage: "external", setup: "proxied", restarts: 0, kills: 0 },
    async run({ proxy, random }) {
      if (proxy === undefined) throw new FaultMissed("There is no proxy");
      proxy.arm({ message, action });
      try {
        await Bun.sleep(250);
        // Some messages appear only at the beginning of a connection.
        if (proxy.fired() === 0) proxy.cutAll();
        await untilFault(`${action} at ${message}`, () => proxy.fired() > 0, 5_000);
        // Wait longer than the delay, so that the messages arrive late instead of never.
        await Bun.sleep(action === "delay" ? 2_600 : random.between(600, 1_400));
      } finally {
        proxy.release();
      }
      return performance.now();
    },
  };
}

/**
 * Messages that the load does not cause soon: they end a connection, report an error, or appear only at a start
 * or in rare statements that return no rows.
 */
const NOT_AIMED_AT: readonly MessageName[] = ["client X", "client Q", "server E", "server N", "server n"];

/** Returns a fault for every action at every message that the proxy has seen. */
export function allMessageFaults(stage: Stage): Fault[] {
  const messages = [...(stage.proxy?.seen().keys() ?? [])].filter((name) => !NOT_AIMED_AT.includes(name));
  return messages.sort().flatMap((message) => ACTIONS.map((action) => messageFault(message, action)));
}

const stalledPulse: Fault = {
  kind: "stalled pulse",
  ...{ stage: "external", setup: "proxied", restarts: 0, kills: 0 },
  async run({ proxy, load, ledger }) {
    if (proxy === undefined) throw new FaultMissed("There is no proxy");
    proxy.holdPulse();
    try {
      // The last answered pulse began before this moment, so its trust ends at most a second from now.
      load.setUntrustedFrom(performance.now() + TRUST_MS);
      const before = ledger.round.answers[503] ?? 0;
      await Bun.sleep(STALL_MS);
      if ((ledger.round.answers[503] ?? 0) === before) {
        ledger.violate("Cached keys are not trusted without a pulse", { answers: ledger.round.answers });
      }
    } finally {
      load.setUntrustedFrom(undefined);
      proxy.release();
    }
    return performance.now();
  },
};

const fullDisk: Fault = {
  kind: "full disk",
  ...{ stage: "small_disk", setup: "direct", restarts: 0, kills: 0 },
  async run({ disk, load, ledger, cluster }) {
    if (disk === undefined) throw new FaultMissed("There is no small disk");
    const before = ledger.round.answers[503] ?? 0;
    disk.fill();
    load.setMetadataBytes(12_000);
    try {
      await untilFault("a full disk is noticed", () => (ledger.round.answers[503] ?? 0) > before + 20);
      // The load meets the full disk for a second.
      await Bun.sleep(1_000);
    } finally {
      load.setMetadataBytes(0);
      disk.free();
    }
    return await untilAccepting(cluster);
  },
};

function steppedClock(wallMs: number): Fault {
  return {
    kind: `clock ${wallMs > 0 ? "ahead" : "back"} an hour`,
    ...{ stage: "external", setup: "clocked", restarts: 0, kills: 0 },
    async run(stage) {
      const health = { method: "GET", path: "/api/health" } as const;
      await stage.service().moveClock({ wallMs, monotonicMs: 0 });
      const answer = await stage.load.ask(health, [200]);
      const shown = answer.kind === "answer" ? Date.parse(String(answer.body.timestamp)) : Number.NaN;
      if (!(Math.abs(shown - Date.now() - wallMs) < 10_000)) throw new FaultMissed("The clock did not step");
      // The load goes on for a second with the wrong clock.
      await Bun.sleep(1_000);
      await stage.service().moveClock({ wallMs: 0, monotonicMs: 0 });
      return performance.now();
    },
  };
}

/** Every fault except those at messages, which depend on the messages seen. */
export const FAULTS = {
  stopSmart: stopFault("smart", "external", 600),
  stopFast: stopFault("fast", "external", 1_200),
  stopImmediate: stopFault("immediate", "external", 1_200),
  restartFast: stopFault("fast", "external", 0),
  restartImmediate: stopFault("immediate", "external", 0),
  terminate,
  frozen,
  killOwnPostmaster: killPostmaster("external"),
  killOwnBackend: killBackend("external"),
  killServiceBeside: killService("external"),
  terminateServiceBeside: terminateService("external"),
  stalledPulse,
  clockAhead: steppedClock(HOUR_MS),
  clockBack: steppedClock(-HOUR_MS),
  restartInside: stopFault("fast", "embedded", 0),
  restartInsideImmediate: stopFault("immediate", "embedded", 0),
  killService: killService("embedded"),
  killPostmaster: killPostmaster("embedded"),
  killBackend: killBackend("embedded"),
  terminateService: terminateService("embedded"),
  fullDisk,
} satisfies Record<string, Fault>;
