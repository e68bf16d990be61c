/**
 * The repository token as a GitHub App gets it: minted on demand for one repository and reading alone, kept
 * in memory, and minted anew before it gets old.
 *
 * Whoever asks is answered from memory while the token has ten minutes left. In the five minutes before that
 * it is replaced behind the answer, so that nobody waits; only the first to come, and those who come when
 * that did not succeed, wait for the host, all of them for the same question. When it fails, the token that
 * is there goes out to its last minute, and the host is left alone for a while that doubles.
 */
import type { KeyObject } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { readAppKey } from "./_app_key.ts";
import {
  type Failed,
  type FailureKind,
  type GitHubApp,
  type Granted,
  requestToken,
} from "./_app_token_request.ts";
import type { TokenSource } from "./token_source.ts";

/** A GitHub App as an operator names it. */
export interface GitHubAppSettings {
  /** Its number, or its client id. */
  readonly appId: string;
  readonly installationId: string;
  /** The repository's name without its owner. */
  readonly repository: string;
  /** The base of the host's interface, without a slash at the end. */
  readonly apiUrl: string;
  /** Undefined where none was named: commands do without it, a service does not. */
  readonly privateKeyFile: string | undefined;
}

export interface GitHubAppSource extends TokenSource {
  /** Plain counters since the start. */
  stats(): GitHubAppStats;
  /** Cuts off a question that is under way; none is asked after it. */
  stop(): Promise<void>;
}

export interface GitHubAppStats {
  /** Tokens got. */
  readonly minted: number;
  /** Questions that gave no token that could be used. */
  readonly failed: number;
}

/** What a token has left, at least, when it is handed out. */
const LIFE_MS = 10 * 60_000;
/** How long before that it is replaced in the background. */
const AHEAD_MS = 5 * 60_000;
/** A fresh one must have more than `LIFE_MS`, or the host would be asked again for each that comes. */
const FRESH_LIFE_MS = LIFE_MS + 60_000;
/** What a token must have left to be worth handing out while the host does not give another. */
const LAST_RESORT_LIFE_MS = 60_000;
/** Dates in answers are cut to the second. */
const DATE_STEP_MS = 1_000;

/** With what comes before it, a request stays below 5 s. */
const DEADLINE_MS = 3_000;
/** After failures: 1 s, 2 s, 4 s … 30 s; at most seven questions in any minute. */
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;
/** A clock that is off by more makes the host refuse; `iat` and `exp` leave a minute on either side. */
const CLOCK_TOLERANCE_MS = 30_000;

/** What clients are told, by what came of the last question. */
const SENTENCES: Readonly<Record<FailureKind, string>> = {
  away: "The repository token cannot be fetched now, because its host does not answer; try again later",
  limited: "The repository token cannot be fetched now, because its host limits requests; try again later",
  faulty: "The repository token cannot be fetched now, because its host fails; try again later",
  refused:
    "The repository token is not available: this server's access to the repository is not set up; ask its operator",
};

/** Reads the key and so makes an App that can be used; refuses with what to mend. */
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
  /** On either of our clocks: the wall's may step, the other may stand still while the machine sleeps. */
  readonly endsAtMs: { readonly wall: number; readonly monotonic: number };
}

/**
 * The tokens of a GitHub App's installation. Stays one long function: its closures share the token that is kept, and
 * when the host may be asked again.
 */
export function createGitHubAppSource(options: {
  readonly app: GitHubApp;
  readonly clock: Clock;
  readonly log: Log;
}): GitHubAppSource {
  const { app, clock, log } = options;
  const stopping = new AbortController();
  let kept: Kept | undefined;
  let minting: Promise<void> | undefined;
  let lastFailure: Failed | undefined;
  let failuresInARow = 0;
  /** On the monotonic clock: after a failure nothing is asked before this. */
  let retryAtMs = 0;
  /** … and after a success nothing in the background. */
  let aheadAtMs = 0;
  /** Learnt when the host refused our time. */
  let hostAheadMs = 0;
  let minted = 0;
  let failed = 0;

  function lifeMs(): number {
    if (kept === undefined) return 0;
    const { wall, monotonic } = kept.endsAtMs;
    return Math.min(wall - clock.now().getTime(), monotonic - clock.monotonicMs());
  }

  /** Starts a question unless one is under way or it is too early for another. */
  function mint(): void {
    if (minting !== undefined || stopping.signal.aborted || clock.monotonicMs() < retryAtMs) return;
    minting = ask().then((result) => {
      minting = undefined;
      if ("token" in result) keep(result);
      else pause(result);
    });
  }

  function ask(): Promise<Granted | Failed> {
    const onClock = (aheadMs: number) => {
      hostAheadMs = aheadMs;
      log.warn("This machine's clock and the GitHub host's differ: set the clock by a time server", {
        host_ahead_seconds: Math.round(aheadMs / 1_000),
      });
    };
    return askHost(app, { clock, hostAheadMs, onClock, signal: stopping.signal });
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
    async current() {
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
    stats: () => ({ minted, failed }),
    async stop() {
      stopping.abort();
    },
  };
}

interface Question {
  readonly clock: Clock;
  readonly hostAheadMs: number;
  /** Told how far the host's clock is ahead, where the host refused our time. */
  readonly onClock: (hostAheadMs: number) => void;
  readonly signal: AbortSignal;
}

/** Asks for a token, and once more where the host's clock is another. */
async function askHost(
  app: GitHubApp,
  { clock, hostAheadMs, onClock, signal: stopped }: Question,
): Promise<Granted | Failed> {
  const signal = AbortSignal.any([AbortSignal.timeout(DEADLINE_MS), stopped]);
  const request = (aheadMs: number) => requestToken(app, { now: clock.now, hostAheadMs: aheadMs, signal });
  const first = await request(hostAheadMs);
  const measured = "reason" in first ? first.hostAheadMs : undefined;
  // Whether the host refused a time that we now know better.
  if (measured === undefined || Math.abs(measured - hostAheadMs) <= CLOCK_TOLERANCE_MS)
    return checkLife(first);
  onClock(measured);
  return checkLife(await request(measured));
}

/** Has the host mint a token, which is thrown away: why there was none, undefined where there was one. */
export async function tryGitHubApp(
  app: GitHubApp,
  { clock }: { readonly clock: Clock },
): Promise<Pick<Failed, "kind" | "reason"> | undefined> {
  const never = new AbortController().signal;
  const result = await askHost(app, { clock, hostAheadMs: 0, onClock: () => {}, signal: never });
  return "reason" in result ? { kind: result.kind, reason: result.reason } : undefined;
}

/** A token that would soon have to be replaced is not taken. */
function checkLife(result: Granted | Failed): Granted | Failed {
  if ("reason" in result || result.lifeMs - DATE_STEP_MS >= FRESH_LIFE_MS) return result;
  const reason =
    `The GitHub host gave a token that has ${Math.round(result.lifeMs / 1_000)} seconds left, where at ` +
    `least ${FRESH_LIFE_MS / 1_000} are needed: check the clocks of the host and of this machine`;
  return { reason, kind: "faulty" };
}
