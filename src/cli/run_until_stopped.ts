/**
 * Handles the signals to a running service, and reports its state to the service manager.
 *
 * SIGTERM and SIGINT stop the service in order. SIGINT comes from a person at a terminal, so it skips the grace period
 * for balancers. A second signal ends the service at once. SIGHUP reads the certificate again if there is one, or if a
 * service manager sends it; otherwise SIGHUP means that a terminal was closed, and stops the service too.
 */

import type { Log } from "../base/log.ts";
import { isRefusal } from "../base/refusal.ts";
import type { Config } from "../installation/config/mod.ts";
import type { Service } from "../service/mod.ts";
import type { Invocation } from "./invocation.ts";
import { createNotifier, type Notifier } from "./notify.ts";
import { CommandRefused, orRefuseStart } from "./run.ts";

/** Below the 10 s after which containers are killed. */
export const STOP_DEADLINE_MS = 9_500;
/** The process ends after this time, even if something hangs. */
const STOP_LIMIT_MS = 9_900;
/** The time to end the database by force after a second signal. */
const FORCE_LIMIT_MS = 1_500;
const STATUS_INTERVAL_MS = 1_000;

export interface Signals {
  /** Resolves with the name of the first signal that stops the service. */
  readonly stopped: Promise<string>;
  /** Called at a SIGHUP; returns false if the signal is to stop the service. */
  onHangUp: () => boolean;
  /** Called at each further signal to stop the service. */
  onFurtherSignal: () => void;
}

/** Listens for signals from now on, so that a signal that arrives while the service starts is not lost. */
export function listenForSignals({ untilSignal, onSignal, exitNow }: Invocation): Signals {
  if (onSignal === undefined) {
    return { stopped: untilSignal(), onHangUp: () => false, onFurtherSignal: () => {} };
  }
  const first = Promise.withResolvers<string>();
  // Before the service has started, there is nothing to stop in order.
  const signals: Signals = {
    stopped: first.promise,
    onHangUp: () => false,
    onFurtherSignal: () => exitNow?.(1),
  };
  let isStopping = false;
  const stop = (name: string) => {
    if (isStopping) return signals.onFurtherSignal();
    isStopping = true;
    first.resolve(name);
  };
  onSignal("SIGTERM", () => stop("SIGTERM"));
  onSignal("SIGINT", () => stop("SIGINT"));
  onSignal("SIGHUP", () => {
    // A closed terminal sends SIGHUP more than once.
    if (!isStopping && !signals.onHangUp()) stop("SIGHUP");
  });
  return signals;
}

interface RunOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signals: Signals;
}

/** Tells the service manager that the service is ready, reports changes to it, and stops the service at a signal. */
export async function runUntilStopped(
  invocation: Invocation,
  service: Service,
  { config, log, signals }: RunOptions,
): Promise<void> {
  const { env, platform, exitNow } = invocation;
  const notifier = createNotifier({ env, platform, log, pid: process.pid });
  const status = () => {
    const state = service.directory.isTrusted() ? "answers" : "does not answer";
    return `Serving at ${service.url}; the database ${state}`;
  };
  signals.onHangUp = () => {
    const { reload } = service;
    if (reload === undefined && !notifier.hasManager) return false;
    notifier.reloading();
    const done = reload === undefined ? Promise.resolve(log.warn(NOTHING_TO_RELOAD)) : reload();
    done
      .catch((error: unknown) => log.error("Cannot read the certificate again", { reason: String(error) }))
      .finally(() => notifier.ready(status()));
    return true;
  };
  const endReports = reportState(notifier, service, status);

  const ended = await Promise.race([signals.stopped, service.ending]);
  const signal = isRefusal(ended) ? undefined : ended;
  log.info("Stopping", { signal: signal ?? "none: the data cannot be used any more" });
  notifier.stopping("Stopping: requests in progress are finished, then the database stops");
  const limit = setTimeout(() => {
    log.error("Stopping takes too long: the process ends now, and open requests are cut off");
    exitNow?.(1);
  }, STOP_LIMIT_MS);
  let isForced = false;
  signals.onFurtherSignal = () => {
    if (isForced) exitNow?.(1);
    isForced = true;
    void service.stop(0);
    setTimeout(() => exitNow?.(1), FORCE_LIMIT_MS).unref();
  };
  const graceMs = signal === "SIGTERM" ? config.stopGraceMs : 0;
  await service.stop(STOP_DEADLINE_MS, { graceMs });
  clearTimeout(limit);
  endReports();
  orRefuseStart(ended);
  if (isForced)
    throw new CommandRefused("Stopped at once by a second signal: requests in progress were cut off");
}

const NOTHING_TO_RELOAD =
  "A reload changes nothing: it only reads the certificate again, and none is set; other settings need a restart";

/** Reports that the service is ready, then sends watchdog messages and each change of the status. */
function reportState(notifier: Notifier, service: Service, status: () => string): () => void {
  let said = status();
  notifier.ready(said);
  if (!notifier.hasManager) return () => {};
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
