/**
 * Reports the state of the service to the service manager, by systemd's protocol: a datagram of `NAME=value` lines to
 * the socket that `NOTIFY_SOCKET` names. Without that variable it sends nothing. A failure to send is logged once, and
 * the service goes on. Source: sd_notify(3).
 */
import type { Log } from "../base/log.ts";
import { reasonOf } from "../base/system_error.ts";
import type { Invocation } from "./invocation.ts";

export type Notifier = ReturnType<typeof createNotifier>;

interface NotifierOptions extends Pick<Invocation, "env" | "platform"> {
  readonly log: Log;
  /** The process id of this process: the watchdog may be for another process. */
  readonly pid: number;
}

/** The shortest pause between watchdog messages, whatever the environment says. */
const MIN_WATCHDOG_MS = 50;
/** The longest time that a timer accepts. */
const MAX_WATCHDOG_MS = 0x7fff_ffff;

export function createNotifier({ env, platform, log, pid }: NotifierOptions) {
  const socket = env.NOTIFY_SOCKET || undefined;
  const hasManager = socket !== undefined && platform.sendDatagram !== undefined;
  let hasFailed = false;

  function send(...lines: readonly string[]): void {
    if (socket === undefined) return;
    try {
      platform.sendDatagram?.(socket, lines.join("\n"));
    } catch (error) {
      if (hasFailed) return;
      hasFailed = true;
      log.warn("Cannot report the service's state to the service manager", {
        reason: reasonOf(error),
      });
    }
  }
  // A newline in the status would begin another assignment.
  const statusLine = (status: string) => `STATUS=${status.replaceAll(/\s+/g, " ")}`;

  return {
    /** Whether there is a service manager to report to. */
    hasManager,
    ready: (status: string) => send("READY=1", statusLine(status)),
    status: (status: string) => send(statusLine(status)),
    /** Reports that the settings are read again; the caller must call `ready` afterwards, also after a failure. */
    reloading: () => send("RELOADING=1", `MONOTONIC_USEC=${platform.monotonicUsec?.() ?? 0}`),
    stopping: (status: string) => send("STOPPING=1", statusLine(status)),
    /**
     * Sends two watchdog messages in each period of the manager's watchdog, while `isAlive` returns true. Returns a
     * function that ends this.
     */
    watch(isAlive: () => boolean): () => void {
      const periodMs = watchdogMs(env, pid);
      if (!hasManager || periodMs === undefined) return () => {};
      const beat = () => {
        if (isAlive()) send("WATCHDOG=1");
      };
      beat();
      const timer = setInterval(beat, Math.min(MAX_WATCHDOG_MS, Math.max(MIN_WATCHDOG_MS, periodMs / 2)));
      return () => clearInterval(timer);
    },
  };
}

/** Returns the period of the manager's watchdog; undefined if it does not watch this process. */
function watchdogMs(env: NotifierOptions["env"], pid: number): number | undefined {
  const micros = Number(env.WATCHDOG_USEC ?? "");
  const isOurs = !env.WATCHDOG_PID || Number(env.WATCHDOG_PID) === pid;
  return isOurs && Number.isFinite(micros) && micros > 0 ? micros / 1_000 : undefined;
}
