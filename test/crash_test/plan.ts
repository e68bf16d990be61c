/** Plans which faults happen, how often, and in which order. */

import type { Random } from "../support/random.ts";
import { allMessageFaults, FAULTS, type Fault, messageFault } from "./faults.ts";
import type { Stage, StageName } from "./stage.ts";

/** The faults of a stage, in order. Faults at messages are known only after the proxy has seen messages. */
export interface Part {
  readonly stage: StageName;
  readonly faults: (stage: Stage) => readonly Fault[];
}

export interface Wanted {
  /** The least number of database restarts, and of kills, in the whole run. */
  readonly restarts: number;
  readonly kills: number;
}

/** Shares of all kills: kills of the service with its own database, which restart both. */
const EMBEDDED_SHARES = [
  [FAULTS.killService, 0.36],
  [FAULTS.killPostmaster, 0.08],
  [FAULTS.killBackend, 0.1],
] as const;
const EXTERNAL_KILL_SHARES = [
  [FAULTS.killServiceBeside, 0.14],
  [FAULTS.killOwnPostmaster, 0.16],
  [FAULTS.killOwnBackend, 0.16],
] as const;
const RESTART_SHARES = [
  [FAULTS.stopSmart, 0.1],
  [FAULTS.stopFast, 0.2],
  [FAULTS.stopImmediate, 0.2],
  [FAULTS.restartFast, 0.22],
  [FAULTS.restartImmediate, 0.22],
] as const;
const INSIDE_SHARES = [
  [FAULTS.restartInside, 0.03],
  [FAULTS.restartInsideImmediate, 0.03],
] as const;

/**
 * Plans the long run. `restarts` counts only databases that the test stops. Restarts after a kill of the database or
 * of its service come on top.
 */
export function planLong({ restarts, kills }: Wanted, random: Random): Part[] {
  const times = (shares: readonly (readonly [Fault, number])[], all: number) =>
    shares.flatMap(([fault, share]) => Array.from({ length: Math.ceil(share * all) }, () => fault));
  const repeat = (fault: Fault, count: number) => Array.from({ length: count }, () => fault);
  return [
    {
      stage: "external",
      faults: () =>
        random.shuffle([
          ...times(RESTART_SHARES, restarts),
          ...times(EXTERNAL_KILL_SHARES, kills),
          ...repeat(FAULTS.terminate, 10),
          ...repeat(FAULTS.frozen, 4),
          ...repeat(FAULTS.terminateServiceBeside, 5),
        ]),
    },
    // First the rounds that make every message pass, so that each message can be chosen.
    { stage: "external", faults: () => repeat(FAULTS.stalledPulse, 3) },
    { stage: "external", faults: (stage) => random.shuffle(allMessageFaults(stage)) },
    { stage: "external", faults: () => [...repeat(FAULTS.clockAhead, 2), ...repeat(FAULTS.clockBack, 2)] },
    {
      stage: "embedded",
      faults: () =>
        random.shuffle([
          ...times(EMBEDDED_SHARES, kills),
          ...times(INSIDE_SHARES, restarts),
          ...repeat(FAULTS.terminateService, 6),
        ]),
    },
    { stage: "small_disk", faults: () => repeat(FAULTS.fullDisk, 3) },
  ];
}

/** The short form: one fault of each kind. */
export const SHORT_PLAN: readonly Part[] = [
  {
    stage: "external",
    faults: () => [
      FAULTS.stopSmart,
      FAULTS.stopFast,
      FAULTS.stopImmediate,
      FAULTS.restartFast,
      FAULTS.terminate,
      FAULTS.frozen,
      FAULTS.killOwnPostmaster,
      FAULTS.killOwnBackend,
      FAULTS.stalledPulse,
      // The commit succeeds, but its answer is lost.
      messageFault("server C", "cut"),
      messageFault("client B", "delay"),
      messageFault("server D", "half_close"),
      messageFault("client startup", "accept_close"),
      FAULTS.clockAhead,
      FAULTS.clockBack,
    ],
  },
  {
    stage: "embedded",
    faults: () => [
      FAULTS.killService,
      FAULTS.killPostmaster,
      FAULTS.killBackend,
      FAULTS.terminateService,
      FAULTS.restartInside,
    ],
  },
  { stage: "small_disk", faults: () => [FAULTS.fullDisk] },
];
