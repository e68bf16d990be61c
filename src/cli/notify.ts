/**
 * Tells the service manager how the service is, by systemd's protocol: a datagram of `NAME=value` lines to
 * the socket that `NOTIFY_SOCKET` names. Without that variable nothing is sent, and a failure to send is logged
 * once and changes nothing. Source: sd_notify(3).
 */
import type { Log } from "../log.ts";
import type { Platform } from "../platform/mod.ts";
import { reasonOf } from "../system_error.ts";

export interface Notifier {
  /** Whether anybody listens. */
  readonly isHeard: boolean;
  ready(status: string): void;
  status(status: string): void;
  /** Before settings are read again; `ready` follows, whatever came of it. */
  reloading(): void;
  stopping(status: string): void;
  /**
   * Sends a sign of life twice in the time after which the manager would end the service, for as long as
   * `isAlive` says so. Returns how to end that.
   */
  watch(isAlive: () => boolean): () => void;
}

export interface NotifierOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: Platform;
  readonly log: Log;
  /** Of this process: the watchdog may be meant for another. */
  readonly pid: number;
}

/** The least pause between signs of life, whatever the environment says. */
const MIN_WATCHDOG_MS = 50;
/** The longest that a timer takes. */
const MAX_WATCHDOG_MS = 0x7fff_ffff;

export function createNotifier({ env, platform, log, pid }: NotifierOptions): Notifier {
  const socket = env.NOTIFY_SOCKET || undefined;
  const isHeard = socket !== undefined && platform.sendDatagram !== undefined;
  let hasFailed = false;

  function send(...lines: readonly string[]): void {
    if (socket === undefined) return;
    try {
      platform.sendDatagram?.(socket, lines.join("\n"));
    } catch (error) {
      if (hasFailed) return;
      hasFailed = true;
      log.warn("Cannot tell the service manager how the service is", {
        reason: reasonOf(error),
      });
    }
  }
  // A line each: a newline would begin another assignment.
  const statusLine = (status: string) => `STATUS=${status.replaceAll(/\s+/g, " ")}`;

  return {
    isHeard,
    ready: (status) => send("READY=1", statusLine(status)),
    status: (status) => send(statusLine(status)),
    reloading: () => send("RELOADING=1", `MONOTONIC_USEC=${platform.monotonicUsec?.() ?? 0}`),
    stopping: (status) => send("STOPPING=1", statusLine(status)),
    watch(isAlive) {
      const periodMs = watchdogMs(env, pid);
      if (!isHeard || periodMs === undefined) return () => {};
      const beat = () => {
        if (isAlive()) send("WATCHDOG=1");
      };
      beat();
      const timer = setInterval(beat, Math.min(MAX_WATCHDOG_MS, Math.max(MIN_WATCHDOG_MS, periodMs / 2)));
      return () => clearInterval(timer);
    },
  };
}

/** After how long without a sign of life the manager acts; undefined where it does not on this process. */
function watchdogMs(env: NotifierOptions["env"], pid: number): number | undefined {
  const micros = Number(env.WATCHDOG_USEC ?? "");
  const isOurs = !env.WATCHDOG_PID || Number(env.WATCHDOG_PID) === pid;
  return isOurs && Number.isFinite(micros) && micros > 0 ? micros / 1_000 : undefined;
}
