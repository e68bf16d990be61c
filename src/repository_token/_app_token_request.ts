/**
 * One question to the host: a token for one repository, which it may read and nothing else.
 *
 * Everything that comes back is judged before it is believed: status, size, shape, and what the host says
 * that the token may do. What is told of a failure is our own words, never the host's: those could repeat
 * what was sent to it.
 *
 * https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
 */
import { type KeyObject, sign } from "node:crypto";
import * as v from "valibot";
import { codeOf } from "../system_error.ts";

/** A GitHub App as it is used: its installation, its key, and the one repository. */
export interface GitHubApp {
  readonly appId: string;
  readonly installationId: string;
  readonly repository: string;
  /** Without a slash at the end. */
  readonly apiUrl: string;
  readonly key: KeyObject;
}

export interface Granted {
  readonly token: string;
  /** In the host's time. */
  readonly expiresAt: Date;
  /** What it had left when it came, by the host's clock where the host told it, else by ours. */
  readonly lifeMs: number;
}

/**
 * `away`: no answer. `limited`: asked too often. `faulty`: an answer that is none, which may pass. `refused`: an
 * operator has something to mend.
 */
export type FailureKind = "away" | "limited" | "faulty" | "refused";

export interface Failed {
  /** What is wrong and what mends it, for the log. */
  readonly reason: string;
  readonly status?: number;
  readonly kind: FailureKind;
  /** How long the host asks to be left alone. */
  readonly retryAfterMs?: number;
  /** How far the host's clock is ahead of ours, where the host refused what it was sent and told its time. */
  readonly hostAheadMs?: number | undefined;
}

interface Moment {
  /** Our wall clock. */
  readonly now: () => Date;
  /** What to add to it to get the host's time. */
  readonly hostAheadMs: number;
  readonly signal: AbortSignal;
}

/** Of all versions of the interface the one that every GitHub and enterprise server of today knows. */
const API_VERSION = "2022-11-28";
/** The description of the one repository is in the answer, some 6 KB. */
const ANSWER_LIMIT_BYTES = 256 * 1024;
const MAX_RETRY_AFTER_SECONDS = 600;

/** GitHub asks for `iat` 60 s back, against clocks that differ, and refuses an `exp` over 10 min ahead. */
const ISSUED_BACK_SECONDS = 60;
const EXPIRES_AHEAD_SECONDS = 540;

const Answer = v.object({
  // Opaque: its length and form have changed before.
  token: v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,4096}$/)),
  expires_at: v.pipe(v.string(), v.isoTimestamp(), v.maxLength(40)),
  permissions: v.optional(v.record(v.string(), v.string())),
  repository_selection: v.optional(v.string()),
  repositories: v.optional(v.array(v.object({ name: v.string() }))),
});

/** Asks once. Never throws, and ends when `signal` says so. */
export async function requestToken(app: GitHubApp, moment: Moment): Promise<Granted | Failed> {
  const { signal } = moment;
  // Left to itself, a fetch that looks up a name does not hear the signal on every runtime.
  const aborted = new Promise<Failed>((resolve) => {
    const end = () => resolve(away("did not answer in time"));
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
  const asked = ask(app, moment).catch((error) => away(`cannot be reached: ${shortNameOf(error)}`));
  return await Promise.race([aborted, asked]);
}

async function ask(app: GitHubApp, moment: Moment): Promise<Granted | Failed> {
  const response = await fetch(`${app.apiUrl}/app/installations/${app.installationId}/access_tokens`, {
    method: "POST",
    headers: {
      Accept: "application/vnd.github+json",
      "Accept-Encoding": "identity",
      Authorization: `Bearer ${signJwt(app, moment)}`,
      "Content-Type": "application/json",
      "User-Agent": "claviger",
      "X-GitHub-Api-Version": API_VERSION,
    },
    body: JSON.stringify({ repositories: [app.repository], permissions: { contents: "read" } }),
    // Whoever the host sends us to would get the signed request.
    redirect: "manual",
    // Once in an hour: a connection that was kept is one that the host has closed.
    keepalive: false,
    signal: moment.signal,
  });
  const hostNowMs = toMs(response.headers.get("date"));
  if (response.status !== 201) {
    response.body?.cancel().catch(() => {});
    return toFailure(app, response, hostNowMs && hostNowMs - moment.now().getTime());
  }
  const text = await readBounded(response);
  return judge(app, text, hostNowMs ?? moment.now().getTime());
}

/** What the App signs to show who it is (RFC 7519, RS256). */
function signJwt({ appId, key }: GitHubApp, { now, hostAheadMs }: Moment): string {
  const nowSeconds = Math.floor((now().getTime() + hostAheadMs) / 1_000);
  const claims = {
    iat: nowSeconds - ISSUED_BACK_SECONDS,
    exp: nowSeconds + EXPIRES_AHEAD_SECONDS,
    iss: appId,
  };
  const signed = `${toBase64Url({ alg: "RS256", typ: "JWT" })}.${toBase64Url(claims)}`;
  return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
}

function toBase64Url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** The body as text; undefined when it is longer than any answer. */
async function readBounded(response: Response): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > ANSWER_LIMIT_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function judge(app: GitHubApp, text: string | undefined, hostNowMs: number): Granted | Failed {
  const parsed = v.safeParse(Answer, text === undefined ? undefined : parseJson(text));
  if (!parsed.success) {
    const reason = "The GitHub host gave an answer that is not a token's: check CLAVIGER_GITHUB_URL";
    return { reason, status: 201, kind: "faulty" };
  }
  const answer = parsed.output;
  if (!isNarrow(app, answer)) {
    const reason =
      `The GitHub host gave a token that may do more than read ${app.repository}, or may not read it: ` +
      "it is not handed out; the App needs read permission on contents and nothing else";
    return { reason, status: 201, kind: "refused" };
  }
  const expiresAt = new Date(answer.expires_at);
  return { token: answer.token, expiresAt, lifeMs: expiresAt.getTime() - hostNowMs };
}

/** Whether the token is for this one repository and can only read, as far as the host tells. */
function isNarrow(app: GitHubApp, answer: v.InferOutput<typeof Answer>): boolean {
  const { permissions, repository_selection: selection, repositories } = answer;
  if (permissions !== undefined) {
    if (permissions.contents !== "read") return false;
    if (Object.values(permissions).some((permission) => permission !== "read")) return false;
  }
  if (selection !== undefined && selection !== "selected") return false;
  if (repositories === undefined) return true;
  // Names of repositories are the same in capitals.
  const wanted = app.repository.toLowerCase();
  return repositories.length === 1 && repositories[0]?.name.toLowerCase() === wanted;
}

function toFailure(app: GitHubApp, { status, headers }: Response, hostAheadMs: number | undefined): Failed {
  const retryAfter = headers.get("retry-after") ?? "";
  const retryAfterMs = /^\d{1,9}$/.test(retryAfter)
    ? Math.min(Number(retryAfter), MAX_RETRY_AFTER_SECONDS) * 1_000
    : 0;
  const failed = { status, retryAfterMs, kind: "refused" } as const;
  if (status === 401) return { ...failed, reason: WRONG_KEY, hostAheadMs };
  // By its documentation, either status may mean too many requests; without a time to wait, 403 means something else.
  if (
    status === 429 ||
    (status === 403 && (retryAfterMs > 0 || headers.get("x-ratelimit-remaining") === "0"))
  ) {
    return { ...failed, kind: "limited", reason: `The GitHub host limits requests (status ${status})` };
  }
  if (status === 403) return { ...failed, reason: FORBIDDEN };
  if (status === 404) return { ...failed, reason: NO_INSTALLATION };
  if (status === 422) {
    const reason =
      `The installation of the GitHub App does not cover the repository ${app.repository}, or the App may ` +
      "not read contents: mend CLAVIGER_GITHUB_REPOSITORY, or what the installation covers and permits";
    return { ...failed, reason };
  }
  // Zero is what some runtimes make of a redirect.
  if (status === 0 || (status >= 300 && status < 400)) return { ...failed, reason: REDIRECTED };
  return { ...failed, kind: "faulty", reason: `The GitHub host answered with status ${status}` };
}

const WRONG_KEY =
  "The GitHub host does not know the App by this key: CLAVIGER_GITHUB_APP_ID and the private key must be " +
  "of the same App, and the key must not have been deleted there";
const FORBIDDEN =
  "The GitHub host forbids it: the installation of the App is suspended, or the host limits its requests";
const NO_INSTALLATION =
  "The GitHub App has no such installation: it was removed, or CLAVIGER_GITHUB_INSTALLATION_ID or " +
  "CLAVIGER_GITHUB_URL is wrong";
const REDIRECTED =
  "The GitHub host redirects, which is not followed: CLAVIGER_GITHUB_URL must be its own address";

function away(what: string): Failed {
  return { reason: `The GitHub host ${what}`, kind: "away" };
}

/** The short name of an error: its text may hold what was sent. */
function shortNameOf(error: unknown): string {
  for (const candidate of [error, error instanceof Error ? error.cause : undefined]) {
    const code = codeOf(candidate) ?? "";
    if (/^[A-Za-z_]{2,60}$/.test(code)) return code;
  }
  return error instanceof Error ? error.name : "unknown";
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function toMs(date: string | null): number | undefined {
  const ms = date === null ? Number.NaN : Date.parse(date);
  return Number.isNaN(ms) ? undefined : ms;
}
