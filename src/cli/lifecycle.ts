/**
 * What a running service is told by signals, and what it tells the service manager.
 *
 * SIGTERM and SIGINT stop it in order; SIGINT, which comes from a person at a terminal, without the grace
 * that is for balancers. A second one ends it at once. SIGHUP reads the certificate again where there is one or
 * where a service manager asks; otherwise it is a terminal that was closed, and stops the service too.
 */
import type { Config } from "../config/mod.ts";
import type { Log } from "../log.ts";
import type { Service } from "../service.ts";
import { createNotifier, type Notifier } from "./notify.ts";
import { CommandRefused } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

/** Below the 10 s after which containers are killed. */
export const STOP_DEADLINE_MS = 9_500;
/** Whatever hangs, nothing lasts longer. */
const STOP_LIMIT_MS = 9_900;
/** After a second signal, what is left for ending the database by force. */
const HURRY_LIMIT_MS = 1_500;
const STATUS_INTERVAL_MS = 1_000;

export interface Signals {
  /** Resolves with the name of the first signal that stops the service. */
  readonly stopped: Promise<string>;
  /** Called at a hang-up; gives false where it shall stop the service. */
  onHangUp: () => boolean;
  /** Called at each further signal that would stop the service. */
  onImpatience: () => void;
}

/** Listens from now on: a signal that arrives while the service starts must not be lost. */
export function listenForSignals(surroundings: Surroundings): Signals {
  const { untilSignal, onSignal, exitNow } = surroundings;
  if (onSignal === undefined) {
    return { stopped: untilSignal(), onHangUp: () => false, onImpatience: () => {} };
  }
  const first = Promise.withResolvers<string>();
  // Until the service stands there is nothing to stop in order.
  const signals: Signals = {
    stopped: first.promise,
    onHangUp: () => false,
    onImpatience: () => exitNow?.(1),
  };
  let isStopping = false;
  const stop = (name: string) => {
    if (isStopping) return signals.onImpatience();
    isStopping = true;
    first.resolve(name);
  };
  onSignal("SIGTERM", () => stop("SIGTERM"));
  onSignal("SIGINT", () => stop("SIGINT"));
  onSignal("SIGHUP", () => {
    // A closed terminal says so more than once.
    if (!isStopping && !signals.onHangUp()) stop("SIGHUP");
  });
  return signals;
}

export interface RunOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signals: Signals;
}

/** Says that the service is ready, keeps the manager up to date, and stops the service at a signal. */
export async function runUntilStopped(
  surroundings: Surroundings,
  service: Service,
  { config, log, signals }: RunOptions,
): Promise<void> {
  const { env, platform, exitNow } = surroundings;
  const notifier = createNotifier({ env, platform, log, pid: process.pid });
  const status = () => {
    const state = service.directory.isTrusted() ? "answers" : "does not answer";
    return `Serving at ${service.url}; the database ${state}`;
  };
  signals.onHangUp = createReload(service, { notifier, status, log });
  const endSigns = keepInformed(notifier, service, status);

  const signal = await signals.stopped;
  log.info("Stopping", { signal });
  notifier.stopping("Stopping: requests in hand are finished, then the database stops");
  const limit = setTimeout(() => {
    log.error("Stopping takes too long: what is left is cut off");
    exitNow?.(1);
  }, STOP_LIMIT_MS);
  let isHurried = false;
  signals.onImpatience = () => {
    if (isHurried) exitNow?.(1);
    isHurried = true;
    void service.stop(0);
    setTimeout(() => exitNow?.(1), HURRY_LIMIT_MS).unref();
  };
  const graceMs = signal === "SIGTERM" ? config.stopGraceMs : 0;
  await service.stop(STOP_DEADLINE_MS, { graceMs });
  clearTimeout(limit);
  endSigns();
  if (isHurried)
    throw new CommandRefused("Stopped at once by a second signal: requests in hand were cut off");
}

function createReload(
  service: Service,
  {
    notifier,
    status,
    log,
  }: { readonly notifier: Notifier; readonly status: () => string; readonly log: Log },
): () => boolean {
  const { reload } = service;
  return () => {
    if (reload === undefined && !notifier.isHeard) return false;
    notifier.reloading();
    const done = reload === undefined ? Promise.resolve(log.warn(NOTHING_TO_RELOAD)) : reload();
    done
      .catch((error: unknown) => log.error("Cannot read again", { reason: String(error) }))
      .finally(() => notifier.ready(status()));
    return true;
  };
}

const NOTHING_TO_RELOAD =
  "A reload changes nothing: it reads the certificate again, and none is set; other settings need a restart";

/** Ready now, signs of life from now on, and each change of the status. */
function keepInformed(notifier: Notifier, service: Service, status: () => string): () => void {
  let said = status();
  notifier.ready(said);
  if (!notifier.isHeard) return () => {};
  const endWatch = notifier.watch(service.isAlive);
  const timer = setInterval(() => {
    const now = status();
    if (now !== said) notifier.status(now);
    said = now;
  }, STATUS_INTERVAL_MS);
  return () => {
    clearInterval(timer);
    endWatch();
  };
}
