/**
 * Repository tokens of a GitHub App: read-only, for one repository, minted on demand, kept in memory, and replaced
 * before they expire.
 *
 * While the token has at least ten minutes left, it is handed out from memory. In the five minutes before that
 * limit, a request starts the replacement in the background and does not wait. Without such a token, requests wait
 * for the host, all of them for the same call. If the call fails, the old token is handed out until its last
 * minute, and the next call comes after a backoff that doubles.
 */
import type { KeyObject } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { readAppKey } from "./_app_key.ts";
import {
  type Failed,
  type FailureKind,
  type GitHubApp,
  type Granted,
  requestToken,
} from "./_app_token_request.ts";
import type { TokenSource } from "./token_source.ts";

/** A GitHub App as the settings describe it. */
export interface GitHubAppSettings extends Omit<GitHubApp, "key"> {
  /** Absolute; undefined if no file is named: commands do not need the key, a service does. */
  readonly privateKeyFile: string | undefined;
}

export type GitHubAppSource = ReturnType<typeof createGitHubAppSource>;

/** The least remaining life of a token that is handed out. */
const LIFE_MS = 10 * 60_000;
/** How long before that limit the token is replaced in the background. */
const AHEAD_MS = 5 * 60_000;
/** The least life of a new token. It is above `LIFE_MS`: otherwise each request would call the host again. */
const FRESH_LIFE_MS = LIFE_MS + 60_000;
/** The least remaining life of a token that is handed out while the host gives no new token. */
const LAST_RESORT_LIFE_MS = 60_000;
/** Dates in answers are cut to the second. */
const DATE_STEP_MS = 1_000;

/** Including the check of the key, a client's request stays below 5 s. */
const DEADLINE_MS = 3_000;
/** Backoff after failures: 1 s, 2 s, 4 s … 30 s; at most seven calls in any minute. */
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;
/**
 * With a larger difference of the clocks, the call is repeated in the host's time; `iat` and `exp` leave a minute on
 * either side.
 */
const CLOCK_TOLERANCE_MS = 30_000;

/** The messages to clients, by the result of the last call. */
const SENTENCES: Readonly<Record<FailureKind, string>> = {
  away: "The repository token cannot be fetched now, because its host does not answer; try again later",
  limited: "The repository token cannot be fetched now, because its host limits requests; try again later",
  faulty: "The repository token cannot be fetched now, because its host fails; try again later",
  refused:
    "The repository token is not available: this server's access to the repository is not set up; ask its operator",
};

/** Reads the private key and returns an App that can mint tokens; the refusal says what to correct. */
export function openGitHubApp(settings: GitHubAppSettings): GitHubApp | Refusal {
  const { privateKeyFile, ...app } = settings;
  if (privateKeyFile === undefined) {
    return refuse(
      "INVALID_REQUEST",
      "Cannot use the GitHub App: CLAVIGER_GITHUB_PRIVATE_KEY_FILE is missing, and there is no systemd " +
        "credential claviger-github-key",
    );
  }
  const key: KeyObject | Refusal = readAppKey(privateKeyFile);
  return isRefusal(key) ? key : { ...app, key };
}

interface Kept {
  readonly token: string;
  readonly expiresAt: Date;
  /** The end on both of our clocks: the wall clock may step, the monotonic clock may stop while the machine sleeps. */
  readonly endsAtMs: { readonly wall: number; readonly monotonic: number };
}

/**
 * Creates a source of tokens of a GitHub App's installation. Stays one long function: its closures share the kept
 * token and the time of the next call.
 */
export function createGitHubAppSource(options: {
  readonly app: GitHubApp;
  readonly clock: Clock;
  readonly log: Log;
}) {
  const { app, clock, log } = options;
  const stopping = new AbortController();
  let kept: Kept | undefined;
  let minting: Promise<void> | undefined;
  let lastFailure: Failed | undefined;
  let failuresInARow = 0;
  /** The earliest time of the next call after a failure, on the monotonic clock. */
  let retryAtMs = 0;
  /** The earliest time of the next call in the background after a success, on the monotonic clock. */
  let aheadAtMs = 0;
  /** Measured when the host refused our time. */
  let hostAheadMs = 0;
  let minted = 0;
  let failed = 0;

  function lifeMs(): number {
    if (kept === undefined) return 0;
    const { wall, monotonic } = kept.endsAtMs;
    return Math.min(wall - clock.now().getTime(), monotonic - clock.monotonicMs());
  }

  /** Starts a call, unless a call is in progress or the backoff has not ended. */
  function mint(): void {
    if (minting !== undefined || stopping.signal.aborted || clock.monotonicMs() < retryAtMs) return;
    minting = askHost(app, { clock, hostAheadMs, signal: stopping.signal }).then((answer) => {
      minting = undefined;
      if (answer.hostAheadMs !== hostAheadMs) noteClock(answer.hostAheadMs);
      if ("token" in answer.result) keep(answer.result);
      else pause(answer.result);
    });
  }

  function noteClock(aheadMs: number): void {
    hostAheadMs = aheadMs;
    const differ =
      "This machine's clock and the GitHub host's differ: set this machine's clock with a time server";
    log.warn(differ, { host_ahead_seconds: Math.round(aheadMs / 1_000) });
  }

  function keep({ token, expiresAt, lifeMs }: Granted): void {
    const nowMs = clock.monotonicMs();
    const leftMs = lifeMs - DATE_STEP_MS;
    const endsAtMs = { wall: clock.now().getTime() + leftMs, monotonic: nowMs + leftMs };
    kept = { token, expiresAt, endsAtMs };
    minted++;
    if (lastFailure !== undefined) log.info("The GitHub host gives tokens again");
    lastFailure = undefined;
    failuresInARow = 0;
    aheadAtMs = nowMs + MAX_PAUSE_MS;
  }

  function pause(failure: Failed): void {
    if (stopping.signal.aborted) return;
    const pauseMs = Math.max(
      Math.min(FIRST_PAUSE_MS * 2 ** failuresInARow, MAX_PAUSE_MS),
      failure.retryAfterMs ?? 0,
    );
    retryAtMs = clock.monotonicMs() + pauseMs;
    failuresInARow++;
    failed++;
    lastFailure = failure;
    log.warn("No repository token from the GitHub App", {
      reason: failure.reason,
      status: failure.status,
      next_attempt_after_seconds: Math.ceil(pauseMs / 1_000),
    });
  }

  return {
    async current(): ReturnType<TokenSource["current"]> {
      if (kept !== undefined && lifeMs() >= LIFE_MS) {
        if (lifeMs() < LIFE_MS + AHEAD_MS && clock.monotonicMs() >= aheadAtMs) mint();
        return { token: kept.token, expiresAt: kept.expiresAt };
      }
      mint();
      await minting;
      if (kept !== undefined && lifeMs() >= LAST_RESORT_LIFE_MS) {
        return { token: kept.token, expiresAt: kept.expiresAt };
      }
      const kind = lastFailure?.kind ?? "away";
      const retryAfterSeconds = Math.max(1, Math.ceil((retryAtMs - clock.monotonicMs()) / 1_000));
      return refuse("NOT_CONFIGURED", SENTENCES[kind], kind === "refused" ? {} : { retryAfterSeconds });
    },
    /** Counts since the start the usable tokens that the host gave, and the calls without a usable token. */
    stats: () => ({ minted, failed }),
    /** Aborts a call in progress; no call follows. */
    async stop() {
      stopping.abort();
    },
  };
}

/**
 * Requests a token; if the host refuses our time, requests once more in the host's time. Returns with the result how far
 * the host's clock is ahead.
 */
async function askHost(
  app: GitHubApp,
  {
    clock,
    hostAheadMs,
    signal: stopped,
  }: { readonly clock: Clock; readonly hostAheadMs: number; readonly signal: AbortSignal },
): Promise<{ readonly result: Granted | Failed; readonly hostAheadMs: number }> {
  const signal = AbortSignal.any([AbortSignal.timeout(DEADLINE_MS), stopped]);
  const request = async (aheadMs: number) => {
    const result = await requestToken(app, { now: clock.now, hostAheadMs: aheadMs, signal });
    return { result: checkLife(result), hostAheadMs: aheadMs };
  };
  const first = await request(hostAheadMs);
  const measured = "reason" in first.result ? first.result.hostAheadMs : undefined;
  // A second call helps only if the first one used a time that differs from the host's.
  if (measured === undefined || Math.abs(measured - hostAheadMs) <= CLOCK_TOLERANCE_MS) return first;
  return await request(measured);
}

/** Mints a token as a trial and discards it. Returns the reason if the host gave no token; otherwise undefined. */
export async function tryGitHubApp(
  app: GitHubApp,
  { clock }: { readonly clock: Clock },
): Promise<Pick<Failed, "kind" | "reason"> | undefined> {
  const never = new AbortController().signal;
  const { result } = await askHost(app, { clock, hostAheadMs: 0, signal: never });
  return "reason" in result ? { kind: result.kind, reason: result.reason } : undefined;
}

/** Turns a token that would soon need to be replaced into a failure. */
function checkLife(result: Granted | Failed): Granted | Failed {
  if ("reason" in result || result.lifeMs - DATE_STEP_MS >= FRESH_LIFE_MS) return result;
  const reason =
    `The GitHub host gave a token that has ${Math.round(result.lifeMs / 1_000)} seconds left, but at ` +
    `least ${FRESH_LIFE_MS / 1_000} are needed: check the clocks of the host and of this machine`;
  return { reason, kind: "faulty" };
}
