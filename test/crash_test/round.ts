/**
 * Runs one round: load, a fault, and then a check of every promise, one after the other.
 */
import { MOST_RESIDENT_MB } from "../bench/process_times.ts";
import { auditDatabase, type Used } from "./audit.ts";
import { type Fault, TRUST_MS } from "./faults.ts";
import type { Outcome, Request } from "./http_client.ts";
import type { Figures, Violation } from "./ledger.ts";
import { listPostmasters, type Resources, resourcesOf } from "./processes.ts";
import type { Stage } from "./stage.ts";

export interface RoundResult {
  readonly kind: string;
  readonly stage: string;
  /** From the database's return (or the fault's end) to the first 200 of health, in milliseconds. */
  readonly healthyMs: number;
  /** The same, to the first validate and event that succeeded after it. */
  readonly servingMs: number;
  readonly figures: Figures;
  readonly resources: AuditedResources | undefined;
}

interface AuditedResources extends Resources {
  /** Resident memory above that of the same process at its first audit without load. */
  readonly grownMb: number;
}

/** A promise was broken; `violations` says which, with the evidence. */
export class PromiseBroken extends Error {
  override readonly name = "PromiseBroken";
  readonly violations: readonly Violation[];

  constructor(violations: readonly Violation[]) {
    super(violations.map(({ promise }) => promise).join("; "));
    // Copied now, because ending the stage breaks more promises.
    this.violations = [...violations];
  }
}

/** Promise 6: the service is healthy within this time after its database is back. */
const RECOVERY_MS = 2_000;
/**
 * A statement on a connection that turns out to be lost fails at its deadline, after 2 s at most. In that time the
 * service is already healthy, but one request of each client may still be answered 503.
 */
const SERVING_MS = RECOVERY_MS + 2_000;
/** How long the load runs before a fault, and after the recovery from it. */
const BEFORE_MS = 150;
const AFTER_MS = 150;
/**
 * Other processes' counts are late by a second at most; the service reads back the result of an unknown
 * commit.
 */
const COUNT_LAG_MS = 2_500;
/** A retired pool of connections lives for 1.5 s. */
const RESOURCES_WAIT_MS = 5_000;
/**
 * More than at the process's first audit: its 8 + 1 connections to the database, if it had none at that
 * audit.
 */
const MORE_DESCRIPTORS = 12;
/**
 * More than at the process's first audit: memory that the runtime keeps for its next garbage collections, 14 MB at
 * most in 196 rounds, up to 36 of them with one process.
 */
const MORE_MEMORY_MB = 40;
const FIRST_ACKNOWLEDGEMENT_MS = 10_000;

/** The resources at the first audit of each process of a service, by its pid. */
const firstSeen = new Map<number, Resources>();

/** Runs a fault under load; throws {@linkcode PromiseBroken} for the first broken promise. */
export async function runRound(stage: Stage, fault: Fault): Promise<RoundResult> {
  const { ledger, load } = stage;
  const check = () => {
    if (ledger.violations.length > 0) throw new PromiseBroken(ledger.violations);
  };
  ledger.startRound();
  if (stage.setup() !== fault.setup) {
    await stage.change(fault.setup);
    await recover(stage, { backMs: performance.now(), isOwed: false });
  }
  load.resume();
  await untilLoaded(stage);
  const lag = watchLag();
  let recovered: Recovery;
  try {
    const backMs = await fault.run(stage);
    check();
    // The service is not charged for the time in which the machine held up this process.
    recovered = await recover(stage, { backMs, isOwed: true, lagMs: lag.worstMs });
  } finally {
    lag.end();
  }
  check();
  await Bun.sleep(AFTER_MS);
  await load.pause();
  check();
  const used = await auditDatabase(stage.cluster, stage);
  check();
  await auditAnswers(stage, used);
  check();
  const resources = await auditResources(stage);
  check();
  const { round } = ledger;
  const figures = { ...round, answers: { ...round.answers } };
  return { kind: fault.kind, stage: stage.name, ...recovered, figures, resources };
}

async function untilLoaded({ ledger }: Stage): Promise<void> {
  await Bun.sleep(BEFORE_MS);
  const untilMs = performance.now() + FIRST_ACKNOWLEDGEMENT_MS;
  while (ledger.round.acknowledged === 0 && ledger.violations.length === 0) {
    if (performance.now() > untilMs) ledger.violate("Without a fault events are acknowledged", {});
    await Bun.sleep(5);
  }
}

interface Recovery {
  readonly healthyMs: number;
  readonly servingMs: number;
}

interface RecoverOptions {
  readonly backMs: number;
  /** Whether the recovery has a time limit: it has none after a restart that is not a fault. */
  readonly isOwed: boolean;
  /** The longest time that the machine held up this process since the fault began. */
  readonly lagMs?: () => number;
}

/**
 * Asks until the service is healthy, validates, and takes an event. A service that is healthy at once may still trust
 * a pulse from before the fault. So the function asks again until the service was unhealthy or that trust has ended.
 */
async function recover(stage: Stage, { backMs, isOwed, lagMs = () => 0 }: RecoverOptions): Promise<Recovery> {
  const { load, ledger, keys } = stage;
  const [apiKey = ""] = keys.plain;
  const isGood = (outcome: Outcome) =>
    outcome.kind === "answer" && (outcome.status === 200 || outcome.status === 202);
  const tookMs = async (what: string, limitMs: number, ask: () => Promise<Outcome>) => {
    for (;;) {
      const outcome = await ask();
      const elapsedMs = performance.now() - backMs;
      if (isGood(outcome)) return elapsedMs;
      if (elapsedMs > (isOwed ? limitMs : 60_000) + lagMs()) {
        ledger.violate(`The service ${what} within ${limitMs} ms of its database`, {
          elapsedMs,
          lagMs: lagMs(),
          outcome,
        });
        return elapsedMs;
      }
      await Bun.sleep(10);
    }
  };
  const health: Request = { method: "GET", path: "/api/health" };
  const validate: Request = { method: "POST", path: "/v1/auth/validate", body: { api_key: apiKey } };
  let wasUnhealthy = false;
  const askHealth = async () => {
    const outcome = await load.ask(health, [200, 503]);
    wasUnhealthy ||= !isGood(outcome);
    return outcome;
  };
  const recoverOnce = async (): Promise<Recovery> => {
    const healthyMs = await tookMs("is healthy", RECOVERY_MS, askHealth);
    await tookMs("validates", SERVING_MS, () => load.ask(validate, [200, 503]));
    const servingMs = await tookMs("takes events", SERVING_MS, load.probeEvent);
    return { healthyMs, servingMs };
  };
  let recovery = await recoverOnce();
  while (isOwed && !wasUnhealthy && performance.now() < backMs + TRUST_MS) {
    await Bun.sleep(10);
    if (!isGood(await askHealth())) recovery = await recoverOnce();
  }
  return recovery;
}

/** Checks that the use that clients are told, when no request is open, equals the use in the database. */
async function auditAnswers(stage: Stage, used: Used): Promise<void> {
  const { load, ledger } = stage;
  const untilMs = performance.now() + COUNT_LAG_MS;
  let expected = used;
  for (const apiKey of used.keys()) {
    for (;;) {
      const request: Request = { method: "POST", path: "/v1/auth/refresh", body: { api_key: apiKey } };
      const outcome = await load.ask(request, [200]);
      if (outcome.kind !== "answer" || outcome.status !== 200) return;
      const told = (outcome.body.quota as { readonly used: number }).used;
      if (told === expected.get(apiKey)) break;
      if (performance.now() > untilMs) {
        ledger.violate("What clients are told is what is counted", { told, counted: expected.get(apiKey) });
        return;
      }
      await Bun.sleep(50);
      // An event with an unknown result may have been committed meanwhile.
      expected = await auditDatabase(stage.cluster, stage);
    }
  }
}

async function auditResources(stage: Stage): Promise<AuditedResources | undefined> {
  const { ledger } = stage;
  const service = stage.service();
  const postmasters = listPostmasters(stage.cluster.folder);
  if (postmasters.length !== 1)
    ledger.violate("One database runs, and nothing is left of others", { postmasters });
  if (service.hasEnded()) ledger.violate("The service keeps running", { ended: await service.ended });
  const untilMs = performance.now() + RESOURCES_WAIT_MS;
  for (;;) {
    const seen = resourcesOf(service.pid, stage.load.connections());
    if (seen === undefined) return undefined;
    const first = firstSeen.get(service.pid) ?? seen;
    firstSeen.set(service.pid, first);
    const now = { ...seen, grownMb: seen.residentMb - first.residentMb };
    const areBack =
      now.descriptors <= first.descriptors + MORE_DESCRIPTORS &&
      now.residentMb <= Math.min(first.residentMb + MORE_MEMORY_MB, MOST_RESIDENT_MB);
    if (areBack) return now;
    if (performance.now() > untilMs) {
      ledger.violate("Descriptors and memory are back", { first, now });
      return now;
    }
    await Bun.sleep(100);
  }
}

/** Measures by how much a timer of this process was late at most. */
function watchLag(): { readonly worstMs: () => number; readonly end: () => void } {
  const intervalMs = 20;
  let expectedMs = performance.now() + intervalMs;
  let worstMs = 0;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    worstMs = Math.max(worstMs, nowMs - expectedMs);
    expectedMs = nowMs + intervalMs;
  }, intervalMs);
  return { worstMs: () => worstMs, end: () => clearInterval(timer) };
}
