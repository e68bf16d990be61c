/**
 * One request to the GitHub host: for a token that can read one repository and do nothing else.
 *
 * The whole answer is checked before it is used: status, size, shape, and the permissions of the token. Messages
 * about a failure use our own words, never the host's words: these could repeat the signed request.
 *
 * https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
 */
import { type KeyObject, sign } from "node:crypto";
import * as v from "valibot";
import { codeOf } from "../../base/system_error.ts";

/** A GitHub App with its key, its installation and the one repository. */
export interface GitHubApp {
  /** Its number, or its client id. */
  readonly appId: string;
  readonly installationId: string;
  /** The repository's name without its owner. */
  readonly repository: string;
  /** The base address of the host's API, without a slash at the end. */
  readonly apiUrl: string;
  readonly key: KeyObject;
}

export interface Granted {
  readonly token: string;
  /** By the host's clock. */
  readonly expiresAt: Date;
  /** The remaining life at arrival, by the host's clock if the host sent its time, else by ours. */
  readonly lifeMs: number;
}

/**
 * `away`: no answer. `limited`: too many requests. `faulty`: an answer that is not valid, perhaps only for now.
 * `refused`: the operator must change something.
 */
export type FailureKind = "away" | "limited" | "faulty" | "refused";

export interface Failed {
  /** The cause and the remedy, for the log. */
  readonly reason: string;
  readonly status?: number;
  readonly kind: FailureKind;
  /** How long the host asks us to wait before the next request. */
  readonly retryAfterMs?: number;
  /** How far the host's clock is ahead of ours, if the host refused the signature and sent its time. */
  readonly hostAheadMs?: number | undefined;
}

interface Moment {
  /** Our wall clock. */
  readonly now: () => Date;
  /** The milliseconds to add to our wall clock to get the host's time. */
  readonly hostAheadMs: number;
  readonly signal: AbortSignal;
}

/** The version of the API that github.com and all current GitHub Enterprise Servers support. */
const API_VERSION = "2022-11-28";
/** An answer includes the description of the repository, about 6 KB. */
const ANSWER_LIMIT_BYTES = 256 * 1024;
const MAX_RETRY_AFTER_MS = 600_000;

/** GitHub recommends an `iat` 60 s in the past, because clocks differ, and refuses an `exp` more than 10 min ahead. */
const ISSUED_BACK_SECONDS = 60;
const EXPIRES_AHEAD_SECONDS = 540;

const Answer = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({
    // Opaque: GitHub has changed the length and form of tokens before.
    token: v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,4096}$/)),
    expires_at: v.pipe(v.string(), v.isoTimestamp(), v.maxLength(40)),
    permissions: v.optional(v.record(v.string(), v.string())),
    repository_selection: v.optional(v.string()),
    repositories: v.optional(v.array(v.object({ name: v.string() }))),
  }),
);

/** Requests a token once. Never throws: failures are values. Ends when `signal` is aborted. */
export async function requestToken(app: GitHubApp, moment: Moment): Promise<Granted | Failed> {
  const { signal } = moment;
  // On some runtimes, a fetch that is looking up a host name does not react to the signal.
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
    // The target of a redirect would get the signed request.
    redirect: "manual",
    // A request comes once an hour: the host would have closed a kept connection by then.
    keepalive: false,
    signal: moment.signal,
  });
  const hostNowMs = toMs(response.headers.get("date"));
  if (response.status !== 201) {
    response.body?.cancel().catch(() => {});
    return toFailure(app, response, { nowMs: moment.now().getTime(), hostNowMs });
  }
  const text = await readBounded(response);
  return judge(app, text, hostNowMs ?? moment.now().getTime());
}

/** Creates the signed JWT that authenticates the App (RFC 7519, RS256). */
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

/** Reads the body as text; undefined if it is longer than {@linkcode ANSWER_LIMIT_BYTES}. */
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
  const parsed = v.safeParse(Answer, text);
  if (!parsed.success) {
    const reason = "The GitHub host gave an answer that is not a token: check CLAVIGER_GITHUB_URL";
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

/** Tells whether the token is only for this repository and can only read, as far as the answer describes it. */
function isNarrow(app: GitHubApp, answer: v.InferOutput<typeof Answer>): boolean {
  const { permissions, repository_selection: selection, repositories } = answer;
  if (permissions !== undefined) {
    if (permissions.contents !== "read") return false;
    if (Object.values(permissions).some((permission) => permission !== "read")) return false;
  }
  if (selection !== undefined && selection !== "selected") return false;
  if (repositories === undefined) return true;
  // GitHub ignores case in names of repositories.
  const wanted = app.repository.toLowerCase();
  return repositories.length === 1 && repositories[0]?.name.toLowerCase() === wanted;
}

function toFailure(
  app: GitHubApp,
  { status, headers }: Response,
  { nowMs, hostNowMs }: { readonly nowMs: number; readonly hostNowMs: number | undefined },
): Failed {
  // The end of the limit is a time by the host's clock, in seconds.
  const isUsedUp = headers.get("x-ratelimit-remaining") === "0";
  const resetMs = isUsedUp ? toSeconds(headers.get("x-ratelimit-reset")) * 1_000 - (hostNowMs ?? nowMs) : 0;
  const retryAfterMs = Math.min(
    Math.max(toSeconds(headers.get("retry-after")) * 1_000, resetMs, 0),
    MAX_RETRY_AFTER_MS,
  );
  const failed = { status, retryAfterMs, kind: "refused" } as const;
  if (status === 401) {
    return { ...failed, reason: WRONG_KEY, hostAheadMs: hostNowMs && hostNowMs - nowMs };
  }
  // By GitHub's documentation, both statuses may mean too many requests. A 403 means it only with a time to wait, or
  // with no request left.
  if (status === 429 || (status === 403 && (retryAfterMs > 0 || isUsedUp))) {
    return { ...failed, kind: "limited", reason: `The GitHub host limits requests (status ${status})` };
  }
  if (status === 403) return { ...failed, reason: FORBIDDEN };
  if (status === 404) return { ...failed, reason: NO_INSTALLATION };
  if (status === 422) {
    const reason =
      `The installation of the GitHub App does not cover the repository ${app.repository}, or the App may ` +
      "not read contents: correct CLAVIGER_GITHUB_REPOSITORY, or the repositories and permissions of the installation";
    return { ...failed, reason };
  }
  // Some runtimes report a redirect as status 0.
  if (status === 0 || (status >= 300 && status < 400)) return { ...failed, reason: REDIRECTED };
  return { ...failed, kind: "faulty", reason: `The GitHub host answered with status ${status}` };
}

const WRONG_KEY =
  "The GitHub host does not know the App by this key: CLAVIGER_GITHUB_APP_ID and the private key must be " +
  "of the same App, and the key must not have been deleted there";
const FORBIDDEN =
  "The GitHub host forbids a token: the installation of the App is suspended, or the host limits its requests";
const NO_INSTALLATION =
  "The GitHub App has no such installation: it was removed, or CLAVIGER_GITHUB_INSTALLATION_ID or " +
  "CLAVIGER_GITHUB_URL is wrong";
const REDIRECTED =
  "The GitHub host redirects, and Claviger follows no redirect: CLAVIGER_GITHUB_URL must be the address of the API itself";

function away(what: string): Failed {
  return { reason: `The GitHub host ${what}`, kind: "away" };
}

/** Returns the code or class of an error. Its text is left out, because it may contain the request. */
function shortNameOf(error: unknown): string {
  for (const candidate of [error, error instanceof Error ? error.cause : undefined]) {
    const code = codeOf(candidate) ?? "";
    if (/^[A-Za-z_]{2,60}$/.test(code)) return code;
  }
  return error instanceof Error ? error.name : "unknown";
}

/** Returns the whole number in a header; 0 if the header is missing or says something else. */
function toSeconds(text: string | null): number {
  return /^\d{1,12}$/.test(text ?? "") ? Number(text) : 0;
}

function toMs(date: string | null): number | undefined {
  const ms = date === null ? Number.NaN : Date.parse(date);
  return Number.isNaN(ms) ? undefined : ms;
}
