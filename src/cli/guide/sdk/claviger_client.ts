/**
 * The client of a license service: places on machines, licenses (also without a network), models, events, and for machines
 * that never have a network reports of their use and bundles. One file, for Node 22.18 and newer and for Bun, without a
 * package. `claviger guide sdk` has the rules.
 *
 * As a module: wait for `client.activate()`, call `client.run()` and `client.runEvents()` without waiting for them, and
 * ask `client.mayWork()` at every use. The loops do not keep the program alive. One process for each state file; without a
 * network all programs of a machine share one.
 * As a command: claviger_client.ts --help lists the commands.
 *
 * The rules are in pure functions, for which there are test vectors (`claviger guide sdk --vectors`): `decide` (places),
 * `keepValidation` (kept answers), `check` and `clockAfter` (signed licenses), `settleEvents` (events), `decideDownload`
 * (models), `makeReport` (reports) and `readBundle` (bundles).
 */
import {
  createHash,
  createHmac,
  createPublicKey,
  randomBytes,
  randomUUID,
  verify as verifySignature,
} from "node:crypto";
import {
  appendFileSync,
  closeSync,
  createReadStream,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  read,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const CLIENT = "typescript 0.5.0"; // what reports say of this module: its version is that of Claviger
const OFFLINE_SECONDS = 7 * 86_400; // the longest time for which an answer may be used without another one
const CHECK_SECONDS = 3_600; // the longest time between two heartbeats; an answer of validate is fresh for as long
const FULL_SECONDS = 30; // the wait for a place if the answer names none
const CLOCK_TOLERANCE_SECONDS = 300;
const TIMEOUT_MS = 10_000; // the service answers within 5 s
const IDLE_TIMEOUT_MS = 30_000; // a download that gets no byte for so long has lost its connection
const SEEN_SECONDS = 60; // how often the latest time is kept while only a license is used
const NAP_SECONDS = 15; // a sleeping computer stops timers, so the loops look at the clock this often
const MAX_TRIES = 4;
const MAX_ANSWER_BYTES = 65_536;
const MAX_BATCH_ANSWER_BYTES = 1_048_576;
const MAX_LIST_BYTES = 4_194_304;
const MAX_FILE_NAME_LENGTH = 200;
const EVENT_SECONDS = 7 * 86_400; // the service takes no older events
const MAX_EVENT_BYTES = 65_536;
const MAX_QUEUE_EVENTS = 100_000;
const MAX_QUEUE_BYTES = 67_108_864;
const FIRST_DAY = "2020-01-01"; // a use before it comes from a clock that was never set
/** The end of a journal that is being reported. No use has a line like it. */
const SEAL = '\n{"sealed":true}\n';
const LOCK_MS = 3_600_000; // no report takes an hour
const FAR_LOCK_MS = 600_000; // nobody can tell from here whether a process of another container is at work
const LEFT_MS = 3_600_000; // a part of a file that was not changed for so long was left by a crash
const BARE_LOCK_MS = 5_000; // an older lock without a name was left by a crash
const MAX_JOURNAL_LINES = 1_000_000;
const MAX_JOURNAL_BYTES = 268_435_456;
const MAX_TAKEN_BYTES = 2 * MAX_JOURNAL_BYTES; // with what a crash of an earlier report has left
const MAX_REPORT_EVENTS = 100_000;
const MAX_REPORT_ROWS = 20_000;
const MAX_REPORT_BYTES = 33_554_432;
const MAX_PAYLOAD_BYTES = 25_000_000; // base64url makes four bytes of three
const MAX_BUNDLED_FILES = 1_000;
const MAX_TAR_NUMBER = 8 ** 11 - 1; // sizes and times in a tar file have eleven octal digits
const MAX_MANIFEST_BYTES = 1_048_577;
const MAX_LICENSE_BYTES = 16_385;
const TAR_BLOCK_BYTES = 512;
const MAX_BATCH_EVENTS = 1_000;
const MAX_BATCH_BYTES = 1_000_000;
const BATCH_SECONDS = 10; // the service takes 10 batches a minute
const IDLE_SECONDS = 3; // how often the loop of the events looks whether one waits
const BROKEN_SECONDS = 60; // the wait of that loop after four failures in a row

/** A request for a place. */
export type Request = "activate" | "heartbeat" | "release";
export type Next = Request | "done" | "stop";
/** Every request whose answer has a form that shows who answered. */
export type Question = Request | "validate" | "license" | "models" | "events";

type Fields = Readonly<Record<string, unknown>>;

/** What outlives a restart. Times are Unix seconds of the local clock. */
export interface State {
  readonly owner: string; // a hash of address, key and fingerprint: the state is worth nothing to others
  readonly fingerprint: string;
  readonly machine_id: string | null;
  readonly until: number; // until when the program may work without another answer; 0 without a place
  readonly seen: number; // the latest time that was seen
  readonly failures: number; // how many requests in a row got no useful answer
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>; // the names are in lower case
  readonly body: Fields;
}

/** A refusal of the service, or of a signed license. The message says why; `code` is the one of the service, or "". */
export class Refused extends Error {
  readonly code: string;

  constructor(message: string, code = "") {
    super(message);
    this.name = "Refused";
    this.code = code;
  }
}

/** The service gave no answer to four requests, or cannot answer now. */
class NoAnswer extends Refused {
  readonly why: string;

  constructor(message: string, why: string, code = "") {
    super(message, code);
    this.why = why;
  }
}

// Places on machines

/** A clock that was set back does not make a place last longer. */
export function mayWork({ until, seen }: Pick<State, "until" | "seen">, now: number): boolean {
  return now < until && now >= seen - CLOCK_TOLERANCE_SECONDS;
}

export const firstRequest = ({ until }: State): Request => (until > 0 ? "heartbeat" : "activate");

/** Returns the new state, the next request (or "done" or "stop"), and the seconds to wait before it. */
export function decide(
  state: State,
  request: Request,
  answer: Answer | null,
  { sentAt, now }: { readonly sentAt: number; readonly now: number },
): [state: State, next: Next, waitSeconds: number] {
  const seen = Math.max(state.seen, now);
  const lost = { ...state, machine_id: null, until: 0, seen, failures: 0 };
  const status = statusOf(request, answer);
  if (request === "release" && (status === 200 || status === 404)) return [lost, "done", 0];
  if (answer !== null && status === 200) {
    const { machine_id } = answer.body as { machine_id: string | null };
    const until = sentAt + secondsLeft(answer, sentAt);
    // A third of the time, so that two heartbeats may fail. The service takes 10 a minute.
    const waitSeconds = Math.max(6, Math.min(Math.floor((until - now) / 3), CHECK_SECONDS));
    return [{ ...lost, machine_id, until, seen: now }, "heartbeat", waitSeconds];
  }
  if (status === 404 && request === "heartbeat") return [lost, "activate", 0];
  if (status === 409 && request !== "release") return [lost, "activate", retryAfter(answer) || FULL_SECONDS];
  if (isPassing(status)) {
    const failures = Math.min(state.failures + 1, 99);
    return [{ ...state, seen, failures }, request, waitAfter(status, answer, state.failures)];
  }
  return [lost, "stop", 0];
}

/** Whether the service has answered, and not a proxy, a balancer or the log-in page of a network. */
export function isGenuine(question: Question, answer: Answer): boolean {
  const { status, body } = answer;
  if (status !== 200) return status >= 400 && codeOf(body) !== "";
  const hasEnd = body.expires_at === null || parseTime(body.expires_at) > 0;
  switch (question) {
    case "release":
      return body.released === true;
    case "validate":
      return body.valid === true && isTexts(body.features) && hasEnd;
    case "license":
      return typeof body.license === "string";
    case "models":
      return Array.isArray(body.models);
    case "events":
      return (
        Array.isArray(body.results) && body.results.every((result) => typeof result?.logged === "boolean")
      );
    default:
      return body.machine_id !== undefined && hasEnd;
  }
}

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((each) => typeof each === "string");

/** The status of an answer of the service; 0 if there is none. */
const statusOf = (question: Question, answer: Answer | null): number =>
  answer !== null && isGenuine(question, answer) ? answer.status : 0;

/** Whether the same request may have another answer later. */
const isPassing = (status: number): boolean => [0, 408, 425, 429].includes(status) || status >= 500;

/** The seconds to wait before the same request: as the answer says, or 1, 2, 4 … 60. */
function waitAfter(status: number, answer: Pick<Answer, "headers"> | null, failures: number): number {
  return retryAfter(answer) || (status === 429 ? 60 : Math.min(2 ** failures, 60));
}

/**
 * The time for which the program may work: until the end in the answer, by the clock of the service, and at most
 * OFFLINE_SECONDS, because a place of many days can be released, and a key be revoked, before its end.
 */
function secondsLeft({ headers, body: { expires_at } }: Answer, sentAt: number): number {
  if (expires_at === null) return OFFLINE_SECONDS;
  const left = parseTime(expires_at) - (parseTime(headers.date) || sentAt);
  return Math.max(0, Math.min(left, OFFLINE_SECONDS));
}

/** What people can do after a refusal, by its code. */
const REMEDIES: Readonly<Record<string, string>> = {
  MACHINE_LIMIT_REACHED: "close the program on another machine, or ask your administrator",
  INVALID_KEY: "ask the vendor for a new key",
  KEY_EXPIRED: "ask the vendor for a new key",
};

// What is wrong, and what helps

export type Trouble = "no_place" | "license_missing" | "expired" | "clock_behind";

/** What is wrong; what helps where there is a network; what helps a machine in a closed network. */
const SENTENCES: Readonly<Record<Trouble, readonly [wrong: string, online: string, offline: string]>> = {
  no_place: ["this machine has no place", "activate it", "activate it"],
  license_missing: [
    "there is no license",
    "borrow one while there is a network",
    "tell the vendor the fingerprint that status shows, and open the bundle or license for it with open-bundle",
  ],
  expired: [
    "the license has expired",
    "go online, or ask the vendor for the next license",
    "give the vendor a report, and open the next bundle or license with open-bundle",
  ],
  clock_behind: [
    "the clock is behind",
    "correct it, go online, or open a newer license",
    "correct it, or open a newer bundle or license",
  ],
};

/** Says what is wrong, and what helps, for people. */
export function explain(reason: Trouble, isClosed: boolean): string {
  const [wrong, online, offline] = SENTENCES[reason];
  return `${wrong}: ${isClosed ? offline : online}`;
}

/** Says what a client lacks that must ask the service; undefined if nothing is missing. */
function explainMissing(hasUrl: boolean, hasKey: boolean): string | undefined {
  if (hasUrl && hasKey) return undefined;
  const missing = [hasUrl ? [] : "address of a service", hasKey ? [] : "API key"].flat();
  const names = [hasUrl ? [] : "LICENSE_URL", hasKey ? [] : "LICENSE_KEY"].flat().join(" and ");
  const [verb, them] = missing.length === 2 ? ["are", "them"] : ["is", "it"];
  return `no ${missing.join(" and no ")} ${verb} set: give ${them} to the client (for commands ${names})`;
}

// Kept answers of validate

/** An answer of validate that is kept. Times are Unix seconds of the local clock. */
export interface Validation {
  readonly fetched_at: number; // when it was asked for
  readonly until: number; // until when it may be used without a network
  readonly body: Fields;
}

/** Returns what is kept after an answer of validate, and the latest time that was seen. */
export function keepValidation(
  saved: Validation | null,
  answer: Answer | null,
  { seen, sentAt, now }: { readonly seen: number; readonly sentAt: number; readonly now: number },
): [saved: Validation | null, seen: number] {
  const status = statusOf("validate", answer);
  if (answer !== null && status === 200) {
    const until = sentAt + secondsLeft(answer, sentAt);
    return [{ fetched_at: sentAt, until, body: answer.body }, now];
  }
  // 429 QUOTA_EXCEEDED is one of these: the license is good, only the month is used up.
  return [isPassing(status) ? saved : null, Math.max(seen, now)];
}

/** Whether a kept answer may be used without a network. */
export const mayUse = (saved: Validation | null, seen: number, now: number): saved is Validation =>
  saved !== null && mayWork({ until: saved.until, seen }, now);

/** Whether a kept answer may be used without asking again. */
export const isFresh = (saved: Validation | null, seen: number, now: number): boolean =>
  mayUse(saved, seen, now) && now < saved.fetched_at + CHECK_SECONDS;

// Signed licenses

export type EntitlementValues = Readonly<Record<string, number | string | boolean>>;

export interface Claims {
  readonly sub?: string; // the license
  readonly jti?: string;
  readonly aud: string;
  readonly key_id: string;
  readonly fingerprint?: string;
  readonly license_type: string;
  readonly features: readonly string[];
  readonly feature_ends?: Readonly<Record<string, string>>;
  readonly entitlements?: EntitlementValues;
  readonly iat: number;
  readonly nbf: number;
  readonly exp: number;
  readonly refresh_after?: number;
  readonly machine_id?: string; // only if the license counts machines
  /** How reports name this machine, and the key that signs them. Only files that an operator made have it. */
  readonly report?: { readonly machine: string; readonly key: string };
}

/** What a license must be for. `seen` is the latest time that was seen before `now`. */
export interface Terms {
  readonly audience: string;
  readonly keyId: string;
  readonly fingerprint: string | undefined;
  readonly now: number;
  readonly seen: number;
  /** Whether licenses come as files from the vendor, and not over a network: other sentences help then. */
  readonly isClosed?: boolean;
}

export interface PublicKey {
  readonly kid: string;
  readonly kty: string;
  readonly crv: string;
  readonly x: string;
}

/** The pinned keys. */
export type Pinned = readonly PublicKey[];

const LICENSE_BEGIN = "-----BEGIN LICENSE-----";

/** Returns the signed text of a file. The lines before the empty line are not signed. */
export function readLicense(path: string): string {
  let text = readStart(path, MAX_ANSWER_BYTES, "latin1").replaceAll("\r", "").trim();
  if (text.startsWith(LICENSE_BEGIN)) text = text.slice(text.indexOf("\n\n")).split("-----END")[0] ?? "";
  return text.replace(/\s/g, "");
}

export function readKeys(path: string): Pinned {
  try {
    return toPinned(toFields(readStart(path, MAX_ANSWER_BYTES)), path);
  } catch (error) {
    if (codeOfFailure(error) !== "ENOENT") throw error;
    const why = "no such file; `claviger licenses public-keys` prints them";
    throw new Error(`cannot read the pinned keys ${path}: ${why}`);
  }
}

function toPinned({ keys }: Fields, name: string): Pinned {
  if (!Array.isArray(keys) || !keys.every((key) => typeof key === "object" && key !== null))
    throw new Refused(`${name} is not a JWK set`);
  return keys;
}

/** Returns the claims of a license that one of the pinned keys has signed. */
export function verify(license: string, pinned: Pinned): Claims {
  const claims: Partial<Claims> = verifySigned("license", license, pinned);
  // Without its times a license would have no end.
  const times = [claims.iat, claims.nbf, claims.exp];
  if (!times.every(Number.isFinite) || !isTexts(claims.features)) throw notGenuine("license");
  return claims as Claims;
}

/** What the keys sign. The type in the header keeps one from being used as the other. */
type Kind = "license" | "bundle";

const notGenuine = (kind: Kind, why = "") =>
  new Refused(`the ${kind} is not genuine${why === "" ? "" : `: ${why}`}`);

function verifySigned(kind: Kind, text: string, pinned: Pinned): Fields {
  const [head = "", payload = "", signature = "", ...more] = text.split(".", 4);
  if (signature === "" || more.length > 0) throw new Refused(`the file holds no ${kind}`);
  try {
    const header = JSON.parse(decode(head).toString());
    if (!["EdDSA", "Ed25519"].includes(header.alg) || header.typ !== `${kind}+jwt`)
      throw new Error("another type");
    const key = pinned.find(({ kid }) => typeof kid === "string" && kid === header.kid);
    if (key === undefined)
      throw new Refused(`none of the pinned keys has signed the ${kind}: update this program`);
    const { kty, crv, x } = key;
    if (crv !== "Ed25519") throw new Error("another kind of key");
    const publicKey = createPublicKey({ key: { kty, crv, x }, format: "jwk" });
    if (!verifySignature(null, Buffer.from(`${head}.${payload}`), publicKey, decode(signature)))
      throw new Error("another signature");
    return toFields(decode(payload).toString());
  } catch (error) {
    throw error instanceof Refused ? error : notGenuine(kind);
  }
}

/** Other texts decode to the same bytes, so only the canonical one is accepted. */
function decode(text: string): Buffer {
  const data = Buffer.from(text, "base64url");
  if (data.toString("base64url") !== text) throw new Error("not canonical base64url");
  return data;
}

/**
 * Returns the latest time with which a license is checked. A license that was issued later than every one before corrects a
 * clock that was ahead. One that was seen already never does: otherwise the clock could be set back with it again and again.
 */
export const clockAfter = (seen: number, highestIat: number, iat: number): number =>
  iat > highestIat ? iat : seen;

/** Returns the claims of a license; throws {@linkcode Refused} if it must not be used. Call it at every use. */
export function check(license: string, pinned: Pinned, terms: Terms): Claims {
  return checkTerms(verify(license, pinned), terms);
}

function checkTerms(claims: Claims, terms: Terms): Claims {
  const { now, seen, isClosed = false } = terms;
  checkNames(claims, terms);
  if (Math.max(claims.iat, claims.nbf, seen) > now + CLOCK_TOLERANCE_SECONDS)
    throw new Refused(explain("clock_behind", isClosed));
  if (claims.exp <= now) throw new Refused(explain("expired", isClosed));
  return claims;
}

function checkNames(
  claims: Claims,
  { audience, keyId, fingerprint }: Pick<Terms, "audience" | "keyId" | "fingerprint">,
): Claims {
  if (claims.aud !== audience) throw new Refused("the license is for another product");
  if (claims.key_id !== keyId) throw new Refused("the license is for another key");
  if (claims.fingerprint !== fingerprint) throw new Refused("the license is for another machine");
  return claims;
}

/** Returns the names of the features that a checked license has now. Call it at every use. */
export function featuresAt(claims: Claims, now: number): string[] {
  const ends = Object.entries(claims.feature_ends ?? {});
  return [
    ...claims.features,
    ...ends.filter(([, end]) => now * 1_000 < Date.parse(end)).map(([name]) => name),
  ];
}

/** Returns the values of a license by their names. */
export function entitlementsOf({ entitlements }: Pick<Claims, "entitlements">): EntitlementValues {
  return entitlements ?? {};
}

/** Returns the latest time that was seen before, and keeps the present one if it is later. */
export function latestTime(path: string, now: number): number {
  const text = existsSync(path) ? readStart(path, 20).trim() : "0";
  if (!/^\d{1,15}$/.test(text))
    throw new Refused(`${path} holds no time: correct the clock, and delete the file`);
  const seen = Number(text);
  if (now > seen) replaceFile(path, String(now));
  return seen;
}

// Events

/** An event as it waits in the queue, with the fields of `POST /v1/analytics/log`. */
export type Event = Fields & { readonly idempotency_key: string };

export interface Settled {
  readonly kept: readonly Event[]; // to be sent again
  readonly accepted: number;
  readonly refused: readonly { readonly index: number; readonly code: string; readonly error: string }[];
  /** "send" after the wait; "halve": at once, half as many; "stop": the key is refused; "done": the next batch. */
  readonly next: "send" | "halve" | "stop" | "done";
  readonly waitSeconds: number;
  /** How many events the next batch has at most; null changes nothing. */
  readonly most: number | null;
}

/** Returns what becomes of a batch of events after its answer, and after so many failures in a row. */
export function settleEvents(events: readonly Event[], answer: Answer | null, failures: number): Settled {
  const all = { kept: events, accepted: 0, refused: [], waitSeconds: 0, most: null };
  // Fewer events get through a slow connection.
  const half = Math.max(1, Math.floor(events.length / 2));
  const results = (answer?.body.results ?? []) as readonly Fields[];
  let status = statusOf("events", answer);
  if (status === 200 && results.length !== events.length) status = 0;
  if (answer === null || isPassing(status))
    return {
      ...all,
      next: "send",
      waitSeconds: waitAfter(status, answer, failures),
      most: status === 429 ? roomIn(answer) : half,
    };
  if (status === 413 && events.length > 1) return { ...all, next: "halve", most: half };
  if (status === 413) return { ...all, kept: [], refused: [toRefusal(answer.body, 0)], next: "done" };
  if (status !== 200) return { ...all, next: "stop" };
  // The clock of this machine was ahead if the service finds an event in the future. It gets the time of the service.
  const date = parseTime(answer.headers.date);
  const isAhead = ({ occurred_at }: Event, result: Fields) =>
    codeOf(result) === "INVALID_REQUEST" &&
    date > 0 &&
    parseTime(occurred_at) > date + CLOCK_TOLERANCE_SECONDS;
  const rest = events.map((event, index) => ({ event, index, result: results[index] ?? {} }));
  const failed = rest.filter(({ result }) => result.logged !== true);
  const kept = failed
    .filter(({ event, result }) => isAhead(event, result))
    .map(({ event }) => ({ ...event, occurred_at: new Date(date * 1_000).toISOString() }));
  return {
    kept,
    accepted: events.length - failed.length,
    refused: failed
      .filter(({ event, result }) => !isAhead(event, result))
      .map(({ result, index }) => toRefusal(result, index)),
    next: kept.length > 0 ? "send" : "done",
    waitSeconds: 0,
    most: null,
  };
}

/**
 * How many events have room in the limit now. Null if none has, or if the batches are too many: many machines may share
 * the few batches of a key, so each batch has to hold as many events as it can.
 */
function roomIn(answer: Pick<Answer, "headers"> | null): number | null {
  const text = answer?.headers["x-ratelimit-remaining"] ?? "";
  const room = /^\d{1,15}$/.test(text) ? Math.min(Number(text), MAX_BATCH_EVENTS) : 0;
  return room > 0 ? room : null;
}

const toRefusal = (fields: Fields, index: number) => ({
  index,
  code: codeOf(fields),
  error: toLine(fields.error ?? ""),
});

// Downloads

/** What is there of a file: its first bytes, their tag, and the size of the whole file, or 0. */
export interface Part {
  readonly haveBytes: number;
  readonly etag: string | null;
  readonly sizeBytes: number;
}

export type DownloadStep = "append" | "anew" | "done" | "retry" | "list_again" | "fail";

/**
 * Returns what to do with the answer to a request for a file, and the seconds to wait before the next request. `anew`:
 * take the file from its beginning, from this answer if its status is 200, else by a request without a range. `done`:
 * all bytes are there, so compare the checksum. `list_again`: the link has ended.
 */
export function decideDownload(
  { haveBytes, etag, sizeBytes }: Part,
  answer: Pick<Answer, "status" | "headers"> | null,
  failures: number,
): [step: DownloadStep, waitSeconds: number] {
  const { status = 0, headers = {} } = answer ?? {};
  const hasPart = haveBytes > 0 && etag !== null;
  const [, first, total] = /^bytes (\d+-\d+|\*)\/(\d+|\*)$/.exec(headers["content-range"] ?? "") ?? [];
  if (isPassing(status)) return ["retry", waitAfter(status, answer, failures)];
  if ([401, 403, 404, 410].includes(status)) return ["list_again", 0];
  if (status === 416 && hasPart) return [Number(total) === haveBytes ? "done" : "anew", 0];
  // A size that cannot be read is no number, and no number is not too large: the loop that writes has the same bound.
  const isTooLarge = Number(status === 200 ? headers["content-length"] : total) > largestBytes(sizeBytes);
  if (status === 200) return [isTooLarge ? "fail" : "anew", 0];
  if (status !== 206 || !hasPart || isTooLarge) return ["fail", 0];
  const isRest = first?.startsWith(`${haveBytes}-`) === true && (headers.etag ?? etag) === etag;
  return [isRest ? "append" : "anew", 0];
}

/** The list has a size in megabytes that an operator may have rounded. */
const largestBytes = (sizeBytes: number): number =>
  sizeBytes > 0 ? Math.floor((sizeBytes * 11) / 10) + 1_000_000 : Number.POSITIVE_INFINITY;

// Reports of use

/** A line of the journal, and where it ends in the file. */
export interface JournalLine {
  readonly text: string;
  readonly end: number;
}

/** What the last report of a journal was; number 0 and no digest before the first one. */
export interface JournalHead {
  readonly journal: string;
  readonly number: number;
  readonly digest: string | null;
}

export interface ReportRequest {
  readonly licenseId: string;
  readonly machine: string;
  /** 32 bytes as base64url. */
  readonly key: string;
  readonly head: JournalHead;
  /** Unix seconds. */
  readonly madeAt: number;
  readonly client: string;
  readonly withEvents: boolean;
}

export interface Report {
  /** One line without its end; null if nothing is to be reported. */
  readonly text: string | null;
  readonly digest: string | null;
  /** How many lines it holds. */
  readonly uses: number;
  /** How many lines are no use that the service would take. */
  readonly dropped: number;
  /** Where the last line ends that is dealt with. What follows had no room. */
  readonly end: number;
}

interface Row {
  readonly day: string;
  readonly event_type: string;
  readonly model_name: string | null;
  count: number;
  failed: number;
}

/** Makes the report that follows the one of the head. The same lines and the same request give the same bytes. */
export function makeReport(lines: Iterable<JournalLine>, request: ReportRequest): Report {
  const { licenseId, machine, key, head, madeAt, client, withEvents } = request;
  const most = withEvents ? MAX_REPORT_EVENTS : Number.POSITIVE_INFINITY;
  const made_at = toTime(madeAt);
  const rows = new Map<string, Row>();
  const keys = new Set<string>();
  const events: string[] = [];
  let [uses, dropped, end, bytes] = [0, 0, 0, 0];
  for (const line of lines) {
    let text = line.text.trim();
    const fields = toFields(text);
    if (whyNoUse(fields) !== undefined || keys.has(String(fields.idempotency_key))) {
      if (text !== "") dropped++;
      end = line.end;
      continue;
    }
    let at = String(fields.occurred_at);
    // The clock was ahead when the line was written. The service takes no use of a later day.
    if (parseTime(at) > madeAt) {
      at = made_at.replace("Z", ".000Z");
      text = JSON.stringify({ ...fields, occurred_at: at });
    }
    const { event_type, model_name } = fields as Pick<Row, "event_type" | "model_name">;
    const counted = { day: at.slice(0, 10), event_type, model_name: model_name ?? null };
    const name = JSON.stringify(counted);
    const row = rows.get(name) ?? { ...counted, count: 0, failed: 0 };
    // A row gets its two numbers beside its name.
    const more = (withEvents ? Buffer.byteLength(text) + 1 : 0) + (row.count > 0 ? 0 : name.length * 3 + 50);
    const isFull = rows.size >= MAX_REPORT_ROWS && row.count === 0;
    if (isFull || bytes + more > MAX_PAYLOAD_BYTES || uses >= most) break;
    bytes += more;
    rows.set(name, row);
    row.count++;
    if (!(fields.success ?? event_type !== "error")) row.failed++;
    keys.add(String(fields.idempotency_key));
    if (withEvents) events.push(text);
    uses++;
    end = line.end;
  }
  if (uses === 0) return { text: null, digest: null, uses, dropped, end };
  const payload = JSON.stringify({
    version: 1,
    license_id: licenseId,
    machine,
    journal: head.journal,
    number: head.number + 1,
    previous: head.digest,
    made_at,
    clients: [client],
    days: [...rows.values()].sort(compareRows),
  });
  // The lines themselves: a number keeps its spelling.
  const whole = withEvents ? `${payload.slice(0, -1)},"events":[${events.join()}]}` : payload;
  const encode = (part: string) => Buffer.from(part).toString("base64url");
  const signed = `${encode('{"alg":"HS256","typ":"usage-report+jwt"}')}.${encode(whole)}`;
  const signature = createHmac("sha256", Buffer.from(key, "base64url")).update(signed).digest("base64url");
  const text = `${signed}.${signature}`;
  return { text, digest: sha256(text), uses, dropped, end };
}

/** By day, kind and model, without a model first; by bytes, since the order of UTF-16 is another one. */
function compareRows(one: Row, other: Row): number {
  const bytesOf = ({ day, event_type, model_name }: Row) =>
    Buffer.from(`${day} ${event_type} ${model_name === null ? "" : ` ${model_name}`}`);
  return Buffer.compare(bytesOf(one), bytesOf(other));
}

const USE_FIELDS: Readonly<Record<string, readonly [isGood: (value: unknown) => boolean, rule: string]>> = {
  idempotency_key: [
    (value) => typeof value === "string" && /^[ -~]{1,255}$/.test(value),
    "1 to 255 printable ASCII characters",
  ],
  occurred_at: [
    (value) => typeof value === "string" && isTimeOfUse(value),
    `a time from ${FIRST_DAY} on: correct the clock`,
  ],
  event_type: [isOneOf("inference", "model_load", "error"), "inference, model_load or error"],
  model_name: [isOptional((value) => isStorable(value, 200)), "a text of at most 200 characters"],
  inference_type: [isOptional(isOneOf("batch", "streaming")), "batch or streaming"],
  duration_ms: [
    isOptional((value) => typeof value === "number" && Number.isFinite(value) && value >= 0),
    "a number of at least 0",
  ],
  success: [isOptional((value) => typeof value === "boolean"), "true or false"],
  error_message: [isOptional((value) => isStorable(value, 2_000)), "a text of at most 2000 characters"],
  metadata: [isOptional(isMetadata), "an object of at most 16 KiB and 32 levels"],
};

/** Says why the service would refuse a use; undefined if it would not. One wrong use would spoil a whole report. */
function whyNoUse(fields: Fields): string | undefined {
  for (const [name, [isGood, rule]] of Object.entries(USE_FIELDS))
    if (!isGood(fields[name])) return `${name} must be ${rule}`;
  const unknown = Object.keys(fields).some((name) => !Object.hasOwn(USE_FIELDS, name));
  return unknown ? "it has a field that is not known" : undefined;
}

function isOneOf(...words: readonly string[]) {
  return (value: unknown): boolean => words.some((word) => word === value);
}

function isOptional(isGood: (value: unknown) => boolean) {
  return (value: unknown): boolean => value === undefined || value === null || isGood(value);
}

/** Only times as `Date.toISOString` writes them. */
function isTimeOfUse(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text) || text < FIRST_DAY) return false;
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && new Date(ms).toISOString() === text;
}

function isStorable(value: unknown, maxCharacters = Number.POSITIVE_INFINITY): boolean {
  if (typeof value !== "string" || /[\0\uFFFD]/.test(value) || !value.isWellFormed()) return false;
  return value.length <= maxCharacters || [...value].length <= maxCharacters;
}

function isMetadata(value: unknown): boolean {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject && isStorableJson(value, 32) && Buffer.byteLength(JSON.stringify(value)) <= 16_384;
}

function isStorableJson(value: unknown, levels: number): boolean {
  if (typeof value === "string") return isStorable(value);
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  return Object.entries(value).every(([name, each]) => isStorable(name) && isStorableJson(each, levels - 1));
}

// Bundles

/** A file of a bundle, as its manifest names it. */
export interface OpenedFile {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
  readonly kind: "license" | "model" | "file";
  readonly name?: string;
  readonly version?: string;
}

interface Manifest {
  readonly iss: string;
  readonly aud: string;
  readonly iat: number;
  readonly jti: string;
  readonly license_id: string;
  readonly key_id: string;
  readonly fingerprint?: string;
  readonly files: readonly OpenedFile[];
}

/** What a bundle must be for. */
export interface BundleTerms extends Omit<Terms, "keyId"> {
  readonly keyId: string | undefined; // undefined: any
  /** The latest time of issue of all licenses that were accepted; 0 without one. */
  readonly highestIat: number;
  /** The license that is there. */
  readonly kept: Pick<Claims, "iat" | "jti"> | null;
}

/** Takes the bytes of a file, which are not yet known to be right. A chunk is valid until this function returns. */
export type Save = (chunk: Uint8Array) => void;

/** Says how the bytes of a file are taken; undefined if they are only checked. */
export type TakeFile = (file: OpenedFile) => Promise<Save | undefined> | Save | undefined;

export interface Bundle {
  /** The signed text. */
  readonly license: string;
  readonly claims: Claims;
  readonly files: readonly OpenedFile[];
}

/**
 * Reads a bundle: a tar file that is, byte for byte, the one that its manifest describes, with a license that is good now.
 * Throws {@linkcode Refused} for anything else. What `save` was given counts only when this function has returned.
 */
export async function readBundle(
  chunks: AsyncIterable<Uint8Array>,
  pinned: Pinned,
  {
    terms,
    save = () => undefined,
  }: {
    readonly terms: BundleTerms;
    readonly save?: TakeFile;
  },
): Promise<Bundle> {
  const bytes = new BundleBytes(chunks);
  try {
    return await readFrom(bytes, pinned, { terms, save });
  } finally {
    await bytes.close();
  }
}

async function readFrom(
  bytes: BundleBytes,
  pinned: Pinned,
  { terms, save }: { readonly terms: BundleTerms; readonly save: TakeFile },
): Promise<Bundle> {
  const header = await bytes.take(TAR_BLOCK_BYTES);
  const sizeText = header.toString("latin1", 124, 135);
  const manifestBytes = /^[0-7]{11}$/.test(sizeText) ? Number.parseInt(sizeText, 8) : 0;
  if (manifestBytes < 1 || manifestBytes > MAX_MANIFEST_BYTES)
    throw notGenuine("bundle", "it does not begin with a manifest");
  const text = lineOf(await bytes.take(manifestBytes));
  await bytes.skipPadding(manifestBytes);
  const manifest = toManifest(verifySigned("bundle", text, pinned));
  const { iat, files } = manifest;
  if (manifest.aud !== terms.audience) throw new Refused("the license is for another product");
  if (!header.equals(renderTarHeader("manifest.jws", manifestBytes, iat)))
    throw notGenuine("bundle", "the header of manifest.jws has another form");
  let license: Pick<Bundle, "license" | "claims"> | undefined;
  for (const file of files) {
    const { path, size } = file;
    if (!(await bytes.take(TAR_BLOCK_BYTES)).equals(renderTarHeader(path, size, iat)))
      throw notGenuine("bundle", `the header of ${path} is not the one that its manifest describes`);
    const parts: Uint8Array[] = [];
    const write =
      file.kind === "license" ? (chunk: Uint8Array) => void parts.push(Buffer.from(chunk)) : await save(file);
    const hash = createHash("sha256");
    for (let left = size; left > 0; ) {
      const chunk = await bytes.some(left);
      left -= chunk.length;
      hash.update(chunk);
      write?.(chunk);
    }
    if (hash.digest("hex") !== file.sha256)
      throw notGenuine("bundle", `${path} is not what its manifest says`);
    await bytes.skipPadding(size);
    // The models come after the license: those of a license that is not good are not read.
    if (file.kind === "license")
      license = checkBundled(lineOf(Buffer.concat(parts)), manifest, pinned, terms);
  }
  if (license === undefined) throw notGenuine("bundle", "it has no license");
  if (!(await bytes.take(2 * TAR_BLOCK_BYTES)).equals(Buffer.alloc(2 * TAR_BLOCK_BYTES)))
    throw notGenuine("bundle", "something follows its last file");
  if (!(await bytes.isEnd())) throw notGenuine("bundle", "something follows its end");
  return { ...license, files };
}

function checkBundled(
  license: string,
  manifest: Manifest,
  pinned: Pinned,
  { keyId, highestIat, kept, ...terms }: BundleTerms,
): Pick<Bundle, "license" | "claims"> {
  const claims = verify(license, pinned);
  const { license_id: sub, files: _, ...shared } = manifest;
  const wanted: Fields = { ...shared, sub, fingerprint: manifest.fingerprint };
  const found: Fields = { ...claims };
  if (Object.entries(wanted).some(([name, value]) => found[name] !== value))
    throw notGenuine("bundle", "it has another license than its manifest says");
  const seen = clockAfter(terms.seen, highestIat, claims.iat);
  const all = { ...terms, keyId: keyId ?? claims.key_id, seen, isClosed: true };
  checkNames(claims, all);
  // No clock makes an older one right.
  refuseOlder(claims, kept);
  checkTerms(claims, all);
  return { license, claims };
}

function refuseOlder(claims: Claims, kept: Pick<Claims, "iat" | "jti"> | null): void {
  if (kept !== null && claims.iat < kept.iat && claims.jti !== kept.jti)
    throw new Refused("this bundle is older than the license that is there");
}

/** The claims that are not named here do not matter. */
function toManifest(fields: Fields): Manifest {
  const { iat, files, fingerprint } = fields;
  const texts = ["iss", "aud", "jti", "license_id", "key_id"].map((name) => fields[name]);
  const isGood =
    isTexts(texts) &&
    (fingerprint === undefined || typeof fingerprint === "string") &&
    isWithin(iat, MAX_TAR_NUMBER) &&
    Array.isArray(files) &&
    files.length <= MAX_BUNDLED_FILES &&
    files.every(isBundledFile) &&
    // Sorted, and so none of them twice.
    files.every(({ path }, index) => index === 0 || (files[index - 1]?.path ?? "") < path);
  if (!isGood) throw notGenuine("bundle", "its manifest has another form");
  const [iss = "", aud = "", jti = "", license_id = "", key_id = ""] = texts;
  const bound = fingerprint === undefined ? {} : { fingerprint };
  return { ...{ iss, aud, iat: Number(iat), jti, license_id, key_id }, ...bound, files };
}

const isWithin = (value: unknown, most: number): boolean =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && value <= most;

/** A name has no separator and begins with no point, so it leads out of no folder. */
function isBundledFile(value: unknown): value is OpenedFile {
  const { path, size, sha256: digest, kind, name, version } = (value ?? {}) as Fields;
  if (typeof path !== "string" || path.length > 100 || !isWithin(size, MAX_TAR_NUMBER)) return false;
  if (typeof digest !== "string" || !/^[0-9a-f]{64}$/.test(digest)) return false;
  const [, folder, own = ""] = /^(models|files)\/(\w[\w.+-]*)$/.exec(path) ?? [];
  if (kind === "license") return path === "license.jws" && Number(size) <= MAX_LICENSE_BYTES;
  return kind === "model"
    ? folder === "models" && isTexts([name, version]) && own.startsWith(`${name}-${version}`)
    : kind === "file" && folder === "files";
}

/** The header of a plain file (POSIX.1-1988, "ustar"), of which only name, size and time are free. */
function renderTarHeader(path: string, size: number, seconds: number): Buffer {
  const header = Buffer.alloc(TAR_BLOCK_BYTES);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(path, 0, 100, "latin1");
  header.write(`${octal(0o644, 7)}${octal(0, 7)}${octal(0, 7)}${octal(size, 11)}${octal(seconds, 11)}`, 100);
  header.write("        0", 148);
  header.write("ustar\x0000", 257);
  header.write(
    `${octal(
      header.reduce((sum, byte) => sum + byte, 0),
      6,
    )} `,
    148,
  );
  return header;
}

/** The line that a file of one line has. */
function lineOf(bytes: Buffer): string {
  const text = bytes.toString("latin1");
  if (!text.endsWith("\n")) throw notGenuine("bundle", "a text has no end of its line");
  return text.slice(0, -1);
}

/** The bytes of a bundle in parts of the sizes that its reader needs. */
class BundleBytes {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Ends the reading of the source. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  async isEnd(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#chunks.next();
      if (done) return true;
      this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    return false;
  }

  /** At least one byte, and at most so many. */
  async some(most: number): Promise<Buffer> {
    if (await this.isEnd()) throw notGenuine("bundle", "it ends too early");
    const part = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(part.length);
    return part;
  }

  async take(length: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = length; left > 0; left -= parts.at(-1)?.length ?? 0) parts.push(await this.some(left));
    return Buffer.concat(parts);
  }

  /** Zeros fill the last block of a file. */
  async skipPadding(size: number): Promise<void> {
    const padding = await this.take((TAR_BLOCK_BYTES - (size % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES);
    if (padding.some((byte) => byte !== 0)) throw notGenuine("bundle", "its padding is not zero");
  }
}

// Texts, times and files

const codeOf = ({ code }: Fields): string =>
  typeof code === "string" && /^[A-Z_]{1,64}$/.test(code) ? code : "";

function describe(question: Question, answer: Answer | null, cause: string): string {
  if (answer === null) return `no answer: ${cause}`;
  if (!isGenuine(question, answer)) return `no answer (${answer.status})`;
  return `${answer.status} ${codeOf(answer.body)}`.trim();
}

/** One line of at most 300 printable characters, for the log. */
const toLine = (text: unknown) =>
  String(text)
    .replace(/[^ -~]/g, "")
    .slice(0, 300);

/** Unix seconds; 0 if the text is not a time. */
const parseTime = (text: unknown) => Math.floor(Date.parse(String(text)) / 1_000) || 0;

const toTime = (seconds: number) => new Date(seconds * 1_000).toISOString().replace(".000", "");

/** Whole seconds from 1 to an hour; 0 if the answer has none. */
function retryAfter(answer: Pick<Answer, "headers"> | null): number {
  const text = answer?.headers["retry-after"] ?? "";
  return /^\d+$/.test(text) ? Math.min(Math.max(1, Number(text)), 3_600) : 0;
}

/** The hashed id of this machine, as systemd asks for it to be used; "" if there is none. */
export function findFingerprint(): string {
  const ids = ["/etc/machine-id", "/var/lib/dbus/machine-id"].map((path) => readOrNothing(path).trim());
  const id = ids.find(({ length }) => length === 32);
  return id === undefined ? "" : sha256(`claviger ${id}`);
}

const sha256 = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
const nowSeconds = () => Math.floor(Date.now() / 1_000);

/** The fields of a JSON object; none if the text is something else. */
function toFields(text: string): Fields {
  try {
    const fields = JSON.parse(text);
    return typeof fields === "object" && !Array.isArray(fields) ? { ...fields } : {};
  } catch {
    return {};
  }
}

/** Returns at most so many bytes of a file, from its beginning or from another byte. */
function readBytes(path: string, maxBytes: number, from = 0): Buffer {
  const file = openSync(path, "r");
  try {
    return readOpen(file, maxBytes, from);
  } finally {
    closeSync(file);
  }
}

function readOpen(file: number, maxBytes: number, from = 0): Buffer {
  const bytes = Buffer.alloc(Math.min(maxBytes, Math.max(0, fstatSync(file).size - from)));
  let length = 0;
  for (let got = 1; got > 0 && length < bytes.length; length += got)
    got = readSync(file, bytes, length, bytes.length - length, from + length);
  return bytes.subarray(0, length);
}

/** Yields the lines of a file, and where each ends. A last line without its end is left out: it comes from a crash. */
function* readLines(path: string): Generator<JournalLine, undefined> {
  let rest = Buffer.alloc(0);
  let at = 0; // where the rest begins
  for (;;) {
    const chunk = readBytes(path, MAX_BATCH_BYTES, at + rest.length);
    if (chunk.length === 0) return undefined;
    rest = Buffer.concat([rest, chunk]);
    let begin = 0;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10, begin)) {
      yield { text: rest.toString("utf8", begin, end), end: at + end + 1 };
      begin = end + 1;
    }
    rest = rest.subarray(begin);
    at += begin;
    // No line is as long. What is no line is dropped as one.
    if (rest.length <= MAX_EVENT_BYTES) continue;
    at += rest.length;
    rest = Buffer.alloc(0);
    yield { text: "no line", end: at };
  }
}

const readStart = (path: string, maxBytes: number, encoding: "utf8" | "latin1" = "utf8") =>
  readBytes(path, maxBytes).toString(encoding);

/** A file that cannot be read is as good as none. */
function readOrNothing(path: string, maxBytes = MAX_ANSWER_BYTES): string {
  try {
    return readStart(path, maxBytes);
  } catch {
    return "";
  }
}

/** Zero if there is no such file. */
const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** Writes a new file first, so that a crash leaves the old one or the new one. Other processes may do so, too. */
function replaceFile(path: string, ...parts: readonly (string | Buffer)[]): void {
  const newPath = `${path}.${randomUUID()}`;
  try {
    const file = openSync(newPath, "wx", 0o600);
    try {
      for (const part of parts) writeAll(file, part);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(newPath, path);
  } catch (error) {
    rmSync(newPath, { force: true });
    throw error;
  }
}

/** Gives a new file its name, unless another one has it; returns whether it did. The caller removes the new file. */
function putNew(newPath: string, path: string): boolean {
  try {
    linkSync(newPath, path);
  } catch (error) {
    if (codeOfFailure(error) === "EEXIST" || isThere(path)) return false;
    renameSync(newPath, path); // a disk without such links, as many sticks are
  }
  return true;
}

/** Writes a file, and replaces none. A file with the same bytes is good. */
function writeOnce(path: string, text: string): void {
  if (sizeOf(path) === Buffer.byteLength(text) && readOrNothing(path, Buffer.byteLength(text)) === text)
    return;
  refuseExisting(path);
  const newPath = `${path}.${randomUUID()}`;
  try {
    replaceFile(newPath, text);
    if (!putNew(newPath, path)) refuseExisting(path);
  } finally {
    rmSync(newPath, { force: true });
  }
}

function refuseExisting(path: string): void {
  if (isThere(path)) throw new Refused(`there is a file ${path} already: name another one, or move it away`);
}

/** Whether a name is taken, also by a link that leads nowhere. */
const isThere = (path: string): boolean => {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
};

/** Refuses to make files as root for the program of another user, who could not read them. */
function refuseRoot(path: string): void {
  if (process.geteuid?.() !== 0) return;
  const there = existsSync(path) ? path : dirname(path);
  const { uid = 0 } = statSync(there, { throwIfNoEntry: false }) ?? {};
  if (uid === 0) return;
  const users = readOrNothing("/etc/passwd")
    .split("\n")
    .map((line) => line.split(":"));
  const user = users.find(([, , id]) => id === String(uid))?.[0] ?? uid;
  throw new Refused(
    `${there} belongs to user ${user}, who could not read what root writes: run this as that user`,
  );
}

/** Yields the bytes of a file. A chunk is valid until the next one is read: so a large file needs little memory. */
async function* readChunks(path: string): AsyncGenerator<Uint8Array, undefined> {
  const file = openSync(path, "r");
  const buffer = Buffer.alloc(MAX_BATCH_BYTES);
  try {
    for (;;) {
      const length = await new Promise<number>((resolve, reject) =>
        read(file, buffer, 0, buffer.length, null, (error, bytes) =>
          error ? reject(error) : resolve(bytes),
        ),
      );
      if (length === 0) return undefined;
      yield buffer.subarray(0, length);
    }
  } finally {
    closeSync(file);
  }
}

function writeAll(file: number, part: string | Uint8Array): void {
  const bytes = typeof part === "string" ? Buffer.from(part) : part;
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
}

/**
 * Adds a text to a file. If another process replaces the file meanwhile, perhaps without the text, adds it again, unless
 * `isKept` finds it kept when it looks at the file that was replaced.
 */
function addToFile(path: string, text: string, isKept: (file: number) => boolean = () => false): void {
  for (let tries = 1; tries <= 100; tries++) {
    const file = openSync(path, "a+", 0o600);
    try {
      writeAll(file, text);
      if (statSync(path, { throwIfNoEntry: false })?.ino === fstatSync(file).ino || isKept(file)) return;
    } finally {
      closeSync(file);
    }
  }
}

async function hashFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return `sha256:${hash.digest("hex")}`;
}

/** Waits by the local clock, which goes on while the computer sleeps, and no longer if the clock is set back. */
export async function pause(
  seconds: number,
  { signal, ref = true }: { readonly signal?: AbortSignal | undefined; readonly ref?: boolean } = {},
): Promise<void> {
  const whole = seconds * (1 + Math.random() / 10); // so that not all clients come back at the same moment
  const began = Date.now() / 1_000;
  const passed = () => Date.now() / 1_000 - began;
  const isWaiting = () => passed() < whole && passed() > -CLOCK_TOLERANCE_SECONDS && !signal?.aborted;
  for (let left = whole; left > 0 && isWaiting(); left -= NAP_SECONDS)
    await sleep(Math.min(NAP_SECONDS, left) * 1_000, undefined, { signal, ref }).catch(() => {});
}

/** Says in some words why a request got no answer. */
function describeFailure(error: unknown): string {
  const { name, cause = error } = error as { name?: string; cause?: unknown };
  const { message = "", code = "" } = cause as { message?: string; code?: unknown };
  const text = toLine(`${code} ${message}`);
  if (name === "TimeoutError" || /TIMEDOUT|TIMEOUT|timed out/i.test(text)) return "timed out";
  if (/ECONNREFUSED|ConnectionRefused/.test(text)) return "connection refused";
  if (/ENOTFOUND|EAI_AGAIN|FailedToOpenSocket|DNS/.test(text)) return "name not found";
  if (/CERT|SSL|TLS|EPROTO|SELF_SIGNED|UNABLE_TO/.test(text))
    return `TLS: ${toTlsReason(String(code), message)}`;
  if (/ECONNRESET|ConnectionClosed|SOCKET|closed/.test(text)) return "connection closed";
  return text.trim() || toLine(error);
}

/** The reason of OpenSSL in some words. */
function toTlsReason(code: string, message: string): string {
  if (/wrong.version|packet.length.too.long|http.request|speak TLS on this port/i.test(`${code} ${message}`))
    return "wrong version number: is the service without TLS?";
  // Some messages have the place in the source of OpenSSL.
  const isSentence = message !== "" && message.length <= 80 && !/[:\n]/.test(message);
  return toLine(
    isSentence
      ? message
      : code
          .replace(/^ERR_((SSL|TLS)_)?/, "")
          .replaceAll("_", " ")
          .toLowerCase(),
  );
}

/** Reads a body; one that is longer than allowed is as good as none. */
async function readBody(response: Response, maxBytes: number): Promise<Fields> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > maxBytes) return {};
    chunks.push(chunk);
  }
  return toFields(Buffer.concat(chunks).toString());
}

// The client

export interface ClientOptions {
  /** Left out, as the key, for a machine that never has a network: what needs them throws {@linkcode Refused}. */
  readonly url?: string | undefined;
  readonly apiKey?: string | undefined;
  /** In a closed network all programs of a machine share one. */
  readonly stateFile: string;
  readonly fingerprint?: string | undefined;
  readonly name?: string | undefined;
  /** Gets one line after each request; by default nobody does. */
  readonly log?: ((line: string) => void) | undefined;
  /** The pinned keys: a JWK set, or the path of one. */
  readonly keys?: string | { readonly keys: Pinned } | undefined;
  /** The brand of the service, for which a signed license must be. */
  readonly audience?: string | undefined;
  /** Gets each event that the service refused for good, or that is too old to be sent. */
  readonly onRefused?: ((event: Event, code: string, error: string) => void) | undefined;
}

export interface Model {
  readonly name: string;
  readonly version: string;
  readonly size_mb: number;
  readonly download_url: string;
  readonly checksum: string;
  readonly [field: string]: unknown;
}

export interface EventDetails {
  readonly modelName?: string | undefined;
  readonly inferenceType?: string | undefined;
  readonly durationMs?: number | undefined;
  readonly success?: boolean | undefined;
  readonly errorMessage?: string | undefined;
  readonly metadata?: Fields | undefined;
  /** A Date or an ISO 8601 text with its zone; by default now. */
  readonly occurredAt?: Date | string | undefined;
}

export interface Counts {
  readonly accepted: number;
  readonly refused: number;
  readonly waiting: number;
}

/** What is known of the kept license beside its text. */
interface LicenseRecord {
  readonly key_id: string;
  readonly days: number | null;
  readonly borrowed: boolean; // and not an exported file that somebody put there
  readonly iat: number; // the latest time of issue of all that were accepted, and the id of that license
  readonly jti: string | null;
  readonly taken_until: number; // the latest end of all that were borrowed for a place; 0 without one
}

/** Whose journal it is, its last report, and the begin of the journal that this report holds. */
interface Head extends JournalHead {
  readonly license_id: string;
  readonly machine: string;
  readonly cut: { readonly bytes: number; readonly sha256: string } | null;
}

/** The license with which a machine reports, and the key that signs its reports. */
interface Reporting {
  readonly iat: number;
  readonly license_id: string;
  readonly machine: string;
  readonly key: string;
}

export interface ReportOptions {
  /** Whether each use is in it, and not the counts of the days alone. */
  readonly withEvents?: boolean | undefined;
}

export interface BundleFolders {
  /** Where the models and the other files go; those without a folder are only checked. */
  readonly modelsFolder?: string | undefined;
  readonly filesFolder?: string | undefined;
}

export interface OpenedBundle {
  readonly claims: Claims;
  /** The paths of the models and of the other files. */
  readonly models: readonly string[];
  readonly files: readonly string[];
}

function toEvent(eventType: string, fields: EventDetails, occurredAt: Date | string): Event {
  return {
    idempotency_key: randomBytes(16).toString("hex"),
    occurred_at: toUtc(occurredAt),
    event_type: eventType,
    model_name: fields.modelName,
    inference_type: fields.inferenceType,
    duration_ms: fields.durationMs,
    success: fields.success,
    error_message: fields.errorMessage,
    metadata: fields.metadata,
  };
}

/** The time as `Date.toISOString` writes it. A text is YYYY-MM-DDThh:mm:ss, perhaps a fraction, and Z or the offset. */
function toUtc(time: Date | string): string {
  const date = typeof time === "string" ? fromText(time) : time;
  if (date === undefined || Number.isNaN(date.getTime()))
    throw new RangeError("occurred_at must be a time with its zone");
  return date.toISOString();
}

function fromText(text: string): Date | undefined {
  const [, day = "", clock = "", milliseconds = "", zone = ""] =
    /^(\d{4}-\d\d-\d\d)T((?:[01]\d|2[0-3])(?::[0-5]\d){2})(?:\.(\d{1,3})\d*)?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(
      text,
    ) ?? [];
  const isDay = toTime(parseTime(`${day}T00:00:00Z`)).startsWith(day);
  return day !== "" && isDay ? new Date(`${day}T${clock}.${milliseconds.padEnd(3, "0")}${zone}`) : undefined;
}

interface Asked {
  readonly path: string;
  readonly fields?: Fields;
  readonly withHeader?: boolean; // whether the key is in a header, and not a field
  readonly maxBytes?: number;
}

/** What the client knows of its queue or its journal without reading it. */
interface Queue {
  readonly events: number;
  readonly bytes: number;
  readonly isEnded: boolean; // false if a crash left a line without its end
}

export class Client {
  state: State;
  /** The last answer to a request for a place. */
  answer: Answer | null = null;
  /** The last of them that came from the service. */
  /** Why the last call that may send four requests sent them in vain; "" if it did not. */
  gaveUp = "";
  #hasNoAnswer = ""; // why the last request for a place got none
  #genuine: { readonly request: Request; readonly answer: Answer } | null = null;
  /** Why the last request got no answer; "" if it got one. */
  cause = "";
  readonly #options: ClientOptions & { readonly url: string; readonly apiKey: string };
  readonly #pinned: Pinned;
  #validation: Validation | null;
  /** The last answer to a request for a place, if it was an activation. */
  #activated: { readonly atMs: number; readonly waitSeconds: number } | null = null;
  #validatedAt = 0; // when this process asked last
  #record: LicenseRecord | null;
  #isOthers = false; // whether the kept license is for another key or fingerprint
  #verified: { readonly license: string; readonly claims: Claims } | null = null;
  readonly #queues: Record<"events" | "journal", Queue | null> = { events: null, journal: null };
  #sending: Promise<unknown> = Promise.resolve();

  constructor(options: ClientOptions) {
    const { url = "", apiKey = "", stateFile, keys } = options;
    const why = whyNoAddress(url) ?? whyNoKey(apiKey) ?? whyNoFingerprint(options.fingerprint ?? "");
    if (why !== undefined) throw new TypeError(why);
    if (!existsSync(dirname(stateFile)))
      throw new Error(`cannot write ${stateFile}: there is no folder ${dirname(stateFile)}, so create it`);
    if (url === "") refuseRoot(stateFile);
    this.#options = { ...options, url, apiKey };
    this.#pinned =
      typeof keys === "string" ? readKeys(keys) : keys === undefined ? [] : toPinned(keys, "keys");
    const saved = toFields(readOrNothing(stateFile)) as Partial<State>;
    // A random fingerprint is stored before it is used: otherwise every start would take a new place.
    const known = options.fingerprint || findFingerprint() || saved.fingerprint;
    const fingerprint = typeof known === "string" && known !== "" ? known : randomBytes(32).toString("hex");
    // `status` without the settings must not begin a new state.
    const isBare = (url === "" || apiKey === "") && saved.fingerprint === fingerprint;
    const owner =
      isBare && typeof saved.owner === "string" ? saved.owner : sha256(`${url} ${apiKey} ${fingerprint}`);
    const { until = 0, seen = 0, failures = 0 } = saved;
    const machine_id = typeof saved.machine_id === "string" ? saved.machine_id : null;
    const isWhole = [saved.until, saved.seen, saved.failures].every(Number.isSafeInteger);
    const isOurs = saved.owner === owner && saved.fingerprint === fingerprint && isWhole;
    if (isOurs) this.state = { owner, fingerprint, machine_id, until, seen, failures };
    else {
      this.state = { owner, fingerprint, machine_id: null, until: 0, seen: 0, failures: 0 };
      try {
        this.#writeState();
      } catch (error) {
        throw new Error(`cannot write ${stateFile}: ${toLine(error)}`);
      }
    }
    this.#validation = this.#readValidation();
    this.#record = this.#readRecord();
  }

  // Places

  /** Whether the program may work, by its place or by the kept license. */
  readonly mayWork = (): boolean => mayWork(this.state, nowSeconds()) || this.#goodClaims() !== null;
  readonly activate = () => this.#tryOften("activate").then(() => this.mayWork());
  readonly release = () => this.#tryOften("release").then((next) => next === "done");

  /**
   * Keeps the place until the service refuses the key, or until the signal, renews a borrowed license, and asks `validate`
   * again every hour if an answer of it is kept. Stop it before `release`. It does not keep the program alive.
   */
  async run(signal?: AbortSignal): Promise<void> {
    let next: Next = firstRequest(this.state);
    const { atMs, waitSeconds } = this.#activated ?? { atMs: 0, waitSeconds: 0 };
    const passedSeconds = (performance.now() - atMs) / 1_000;
    // The program has just activated: the heartbeat of its answer is not due yet.
    if (this.#activated !== null && passedSeconds < 60 && next === "heartbeat")
      await pause(Math.max(0, waitSeconds - passedSeconds), { signal, ref: false });
    while (next !== "stop" && next !== "done" && !signal?.aborted) {
      const [following, waitSeconds] = await this.#step(next);
      if (statusOf(next, this.answer) === 200) {
        await this.#renew();
        await this.#validateAgain();
      }
      next = following;
      await pause(waitSeconds, { signal, ref: false });
    }
  }

  /** Says until when the program may work: the later of the ends of its place and of the kept license. */
  describe(): string {
    const placeEnd = mayWork(this.state, nowSeconds()) ? this.state.until : 0;
    const until = Math.max(placeEnd, this.#goodClaims()?.exp ?? 0);
    return until === 0 ? "may not work" : `may work until ${toTime(until)}`;
  }

  /** Why the program may not work, in a sentence for people and perhaps the code of the service; null if it may. */
  why(): Refused | null {
    if (this.mayWork()) return null;
    const { request, answer } = this.#genuine ?? { request: "activate", answer: null };
    const isGone = request === "release" && answer?.status === 404;
    if (answer !== null && answer.status !== 200 && !isGone) {
      const [why, code] = this.#whyNoAnswer(request, answer);
      const remedy = REMEDIES[code];
      return new Refused(remedy === undefined ? why : `${why}: ${remedy}`, code);
    }
    if (this.#isClosed())
      try {
        this.claims();
      } catch (error) {
        return error instanceof Refused ? error : new Refused(messageOf(error));
      }
    if (nowSeconds() < this.state.seen - CLOCK_TOLERANCE_SECONDS)
      return new Refused(explain("clock_behind", false));
    if (this.#hasNoAnswer !== "")
      return new Refused(`the license service gives no answer: ${this.#hasNoAnswer}`);
    return new Refused(explain("no_place", false));
  }

  /** Whether licenses come from the vendor as files, and not over a network. */
  #isClosed(): boolean {
    const isGiven = this.#record?.borrowed === false && existsSync(this.#fileOf("license"));
    return isGiven || this.missing() !== undefined;
  }

  /** What the client lacks to ask the service; undefined if nothing. */
  missing(): string | undefined {
    const { url, apiKey } = this.#options;
    return explainMissing(url !== "", apiKey !== "");
  }

  #requireService(): void {
    const missing = this.missing();
    if (missing !== undefined) throw new Refused(missing);
  }

  /** Sends a request four times at most. Does not wait for a place. */
  async #tryOften(request: Request): Promise<Next> {
    this.gaveUp = "";
    for (let tries = 1; ; tries++) {
      // Failures of earlier calls do not make the waits longer.
      const [next, waitSeconds] = await this.#step(request, tries - 1);
      if (next !== request || this.answer?.status === 409) return next;
      if (tries === MAX_TRIES) {
        this.gaveUp = this.#hasNoAnswer;
        return next;
      }
      await pause(waitSeconds);
    }
  }

  async #step(request: Request, failures = this.state.failures): Promise<[next: Next, waitSeconds: number]> {
    const sentAt = nowSeconds();
    const { name } = this.#options;
    const more = request === "activate" ? { platform: process.platform, name: name || undefined } : {};
    const fields = { fingerprint: this.state.fingerprint, ...more };
    const answer = await this.#ask({ path: `machines/${request}`, fields });
    const before = { ...this.state, failures };
    const [state, next, wait] = decide(before, request, answer, { sentAt, now: nowSeconds() });
    const why = describe(request, answer, this.cause);
    this.answer = answer;
    this.#hasNoAnswer = this.#whyPassing(request, answer);
    const isActivated = request === "activate" && next === "heartbeat";
    this.#activated = isActivated ? { atMs: performance.now(), waitSeconds: wait } : null;
    this.#keepState(state);
    const status = statusOf(request, answer);
    if (answer !== null && !isPassing(status)) this.#genuine = { request, answer };
    if (request !== "release" && status === 401) this.#dropBorrowed();
    const then = next === "stop" || next === "done" ? next : `${next} in ${wait} s`;
    const sentence = next === "stop" ? `: ${toLine(answer?.body.error ?? "")}` : "";
    this.#log(`${request}: ${why}; ${this.describe()}; ${then}${sentence}`);
    return [next, wait];
  }

  // Kept answers

  /**
   * Asks the service what the license allows, and keeps the answer. Returns the body of its answer, which has `error` and
   * `code` if the service refuses the key, or null if there was no answer. When the month is used up, `auth/refresh` still
   * says what the license allows, and its answer is kept.
   */
  async validate(): Promise<Fields | null> {
    this.#validatedAt = nowSeconds();
    const answer = await this.#askRights("validate");
    const body = answer !== null && isGenuine("validate", answer) ? answer.body : null;
    if (answer?.status === 429 && codeOf(body ?? {}) === "QUOTA_EXCEEDED") await this.#askRights("refresh");
    return body;
  }

  /** What a process has for weeks would end: so it is asked for again, at most once an hour, also after no answer. */
  async #validateAgain(): Promise<void> {
    const since = nowSeconds() - this.#validatedAt;
    if (this.#validation === null || this.isFresh() || (since >= 0 && since < CHECK_SECONDS)) return;
    await this.validate();
  }

  async #askRights(path: "validate" | "refresh"): Promise<Answer | null> {
    const sentAt = nowSeconds();
    const answer = await this.#ask({ path: `auth/${path}` });
    const why = describe("validate", answer, this.cause);
    const times = { seen: this.state.seen, sentAt, now: nowSeconds() };
    const [saved, seen] = keepValidation(this.#validation, answer, times);
    const isChanged = saved !== this.#validation;
    this.#validation = saved;
    this.#keepState({ ...this.state, seen });
    if (isChanged)
      this.#write(this.#fileOf("validated"), saved && JSON.stringify({ owner: this.state.owner, ...saved }));
    this.#log(`${path}: ${why}`);
    return answer;
  }

  /** The kept answer of `validate` while it may be used, else null. */
  readonly licenseAnswer = (): Fields | null =>
    mayUse(this.#validation, this.state.seen, nowSeconds()) ? this.#validation.body : null;

  /** Whether the kept answer may be used without asking again. */
  readonly isFresh = (): boolean => isFresh(this.#validation, this.state.seen, nowSeconds());

  /** The features of the kept answer if it may be used, else of the kept license, else none. */
  features(): readonly string[] {
    const answer = this.licenseAnswer();
    if (answer !== null) return answer.features as readonly string[];
    const claims = this.#goodClaims();
    return claims === null ? [] : featuresAt(claims, nowSeconds());
  }

  /** The values of the license by their names, from where `features` has the features. */
  entitlements(): EntitlementValues {
    return entitlementsOf(this.licenseAnswer() ?? this.#goodClaims() ?? {});
  }

  #readValidation(): Validation | null {
    const { owner, fetched_at, until, body } = toFields(readOrNothing(this.#fileOf("validated")));
    const isWhole = [fetched_at, until].every(Number.isSafeInteger) && typeof body === "object";
    if (owner !== this.state.owner || !isWhole || !isTexts((body as Fields | null)?.features)) return null;
    return { fetched_at, until, body } as Validation;
  }

  // Signed licenses

  /**
   * Fetches a signed license for this machine, which has to have a place if the license counts machines, and keeps it.
   * `days` is at most what the license allows, by default all of them. Throws {@linkcode Refused}.
   */
  async borrow(days?: number): Promise<Claims> {
    this.#requireKeys();
    return this.#keepLicense(await this.#askOften("license", this.#licenseRequest(days)), days);
  }

  /** The claims of the kept license; throws {@linkcode Refused} if there is none, or it must not be used now. */
  claims(): Claims {
    const claims = this.#readKept();
    let seen: number;
    try {
      seen = this.#checkClaims(claims, this.#isClosed());
    } catch (error) {
      // Also after its end: otherwise the clock could be set back to a time before it.
      if (nowSeconds() >= this.state.seen + SEEN_SECONDS)
        this.#keepState({ ...this.state, seen: nowSeconds() });
      throw error;
    }
    // Without a network nothing else keeps the time, which shows later that the clock was set back.
    const now = nowSeconds();
    // Another process may have borrowed it.
    if (this.#isNewer(claims)) this.#record = this.#readRecord() ?? this.#record;
    const isNewer = this.#isNewer(claims);
    if (isNewer || now >= seen + SEEN_SECONDS)
      this.#keepState({ ...this.state, seen: isNewer ? seen : Math.max(seen, now) });
    // An exported file: from now on only licenses of its key are accepted.
    if (isNewer || this.#record === null) this.#noteLicense(claims, { days: null, borrowed: false });
    return claims;
  }

  /**
   * Releases the machine, and then deletes the kept license. Returns the end until which the service keeps the place taken,
   * in Unix seconds; null if it keeps none. Throws {@linkcode Refused} if the service did not take the place back.
   */
  async giveBack(): Promise<number | null> {
    if (!(await this.release())) {
      const [why, code] = this.#whyNoAnswer("release", this.answer);
      throw new Refused(`the place was not given back, and the license stays: ${why}`, code);
    }
    // The signature does not matter here: this is only for people.
    const [, payload = ""] = readOrNothing(this.#fileOf("license")).split(".");
    const claims = toFields(Buffer.from(payload, "base64url").toString());
    const end = Math.max(this.#record?.taken_until ?? 0, takenUntil(claims));
    this.#deleteLicense();
    return end > nowSeconds() ? end : null;
  }

  #deleteLicense(): void {
    const record = this.#record;
    rmSync(this.#fileOf("license"), { force: true });
    this.#verified = null;
    this.#isOthers = false;
    if (record === null) this.#write(this.#fileOf("license.terms"), null);
    else this.#keepRecord({ ...record, days: null, borrowed: false });
  }

  /** A license that was borrowed for a key which the service refuses. A file that somebody put there stays. */
  #dropBorrowed(): void {
    if (this.#record?.borrowed !== true || !existsSync(this.#fileOf("license"))) return;
    try {
      const { iat, jti = null } = this.#readClaims();
      if (iat !== this.#record.iat || jti !== this.#record.jti) return;
      this.#deleteLicense();
      this.#log("license: deleted, because the service refuses the key");
    } catch (error) {
      this.#log(`license: ${toLine(error)}`);
    }
  }

  /** Why a request got no answer, or one that may be another one later; "" if it got another. */
  #whyPassing(question: Question, answer: Answer | null): string {
    const status = statusOf(question, answer);
    if (!isPassing(status)) return "";
    return status === 0 ? this.#whyNoAnswer(question, answer)[0] : describe(question, answer, "");
  }

  /** Why a request was not answered with 200: the sentence and the code of the service, or the cause. */
  #whyNoAnswer(question: Question, answer: Answer | null): [why: string, code: string] {
    const status = statusOf(question, answer);
    if (answer === null) return [this.cause, ""];
    if (status === 0) return [`its answer has status ${answer.status} and is not from the service`, ""];
    return [toLine(answer.body.error || `status ${status}`), codeOf(answer.body)];
  }

  /** Verifies the signature of the kept license, but once only. */
  #readClaims(): Claims {
    const license = readLicense(this.#fileOf("license"));
    if (this.#verified?.license !== license)
      this.#verified = { license, claims: verify(license, this.#pinned) };
    return this.#verified.claims;
  }

  /** From half of its time on, also after its end, a borrowed license is borrowed again, for as many days as before. */
  async #renew(): Promise<void> {
    if (this.#record?.borrowed !== true || !existsSync(this.#fileOf("license"))) return;
    const days = this.#record.days ?? undefined;
    try {
      const claims = this.#readClaims();
      if (nowSeconds() < (claims.refresh_after ?? claims.exp)) return;
      const answer = await this.#ask(this.#licenseRequest(days));
      this.#log(`license: ${describe("license", answer, this.cause)}`);
      if (answer !== null && statusOf("license", answer) === 200) this.#keepLicense(answer, days);
    } catch (error) {
      this.#log(`license: ${toLine(error)}`);
    }
  }

  #licenseRequest(days: number | undefined): Asked {
    return { path: "auth/license", fields: { fingerprint: this.state.fingerprint, days } };
  }

  /** Checks a license that the service has just signed before it replaces the kept one. */
  #keepLicense({ body }: Answer, days: number | undefined): Claims {
    const license = String(body.license);
    const claims = verify(license, this.#pinned);
    const { audience } = this.#options;
    if (claims.aud !== audience)
      throw new Refused(
        `LICENSE_AUDIENCE is ${toLine(audience)}, and the license is for ${toLine(claims.aud)}`,
      );
    return this.#replaceLicense(license, claims, {
      days: days ?? null,
      borrowed: true,
    });
  }

  #replaceLicense(
    license: string,
    claims: Claims,
    how: Pick<LicenseRecord, "days" | "borrowed">,
    before: () => void = () => {},
  ): Claims {
    const seen = this.#checkClaims(claims, !how.borrowed);
    before();
    // The time comes first: a license that is noted as seen corrects it no more.
    this.#keepState({ ...this.state, seen: this.#isNewer(claims) ? seen : Math.max(seen, nowSeconds()) });
    this.#noteLicense(claims, how);
    replaceFile(this.#fileOf("license"), `${license}\n`);
    this.#isOthers = false;
    this.#verified = { license, claims };
    return claims;
  }

  readonly #isNewer = ({ iat }: Claims): boolean => iat > (this.#record?.iat ?? 0);

  /** Returns the latest time with which the license was checked. */
  #checkClaims(claims: Claims, isClosed: boolean): number {
    const seen = clockAfter(this.state.seen, this.#record?.iat ?? 0, claims.iat);
    checkTerms(claims, { ...this.#termsOf(this.#record?.key_id ?? claims.key_id, seen), isClosed });
    return seen;
  }

  #noteLicense(claims: Claims, { days, borrowed }: Pick<LicenseRecord, "days" | "borrowed">): void {
    const { iat, jti, taken_until: taken } = this.#record ?? { iat: 0, jti: null, taken_until: 0 };
    const latest = this.#isNewer(claims) ? { iat: claims.iat, jti: claims.jti ?? null } : { iat, jti };
    const end = Math.max(taken, borrowed ? takenUntil({ ...claims }) : 0);
    this.#keepRecord({ key_id: claims.key_id, days, borrowed, ...latest, taken_until: end });
  }

  #termsOf(keyId: string, seen: number): Terms {
    const { audience = "" } = this.#options;
    return { audience, keyId, fingerprint: this.state.fingerprint, now: nowSeconds(), seen };
  }

  #requireKeys(): void {
    if (this.#pinned.length === 0 || !this.#options.audience)
      throw new Refused(
        "no keys are pinned: give the client `keys` and `audience` (for commands LICENSE_KEYS and LICENSE_AUDIENCE)",
      );
  }

  #goodClaims(): Claims | null {
    if (this.#pinned.length === 0) return null;
    try {
      return this.claims();
    } catch {
      return null;
    }
  }

  #readRecord(): LicenseRecord | null {
    const { owner, key_id, days, borrowed, iat, jti, taken_until } = toFields(
      readOrNothing(this.#fileOf("license.terms")),
    );
    if (typeof owner !== "string" || typeof key_id !== "string") return null;
    this.#isOthers = owner !== this.state.owner;
    if (this.#isOthers) return null;
    return {
      key_id,
      days: Number.isSafeInteger(days) ? Number(days) : null,
      borrowed: borrowed === true,
      iat: Number.isSafeInteger(iat) ? Number(iat) : 0,
      jti: typeof jti === "string" ? jti : null,
      taken_until: Number.isSafeInteger(taken_until) ? Number(taken_until) : 0,
    };
  }

  #keepRecord(record: LicenseRecord): void {
    this.#record = record;
    this.#write(this.#fileOf("license.terms"), JSON.stringify({ owner: this.state.owner, ...record }));
  }

  // Models

  /** The models that the license allows. Their links end after 15 minutes. Throws {@linkcode Refused}. */
  async models(): Promise<readonly Model[]> {
    const asked = { path: "models/list", withHeader: true, maxBytes: MAX_LIST_BYTES };
    const { body } = await this.#askOften("models", asked);
    return (body.models as readonly unknown[]).filter(isModel);
  }

  /**
   * Downloads the file of a model into a folder, and returns its whole path. Continues a download that was interrupted, and
   * fetches nothing if the file is there. Without a version, the one of the list. If the service gives no answer, and the
   * program may work, an earlier download is as good. Throws {@linkcode Refused}.
   */
  async download(
    name: string,
    { folder, version }: { readonly folder: string; readonly version?: string | undefined },
  ): Promise<string> {
    requireFolder(folder);
    const cannot = (why: string) => new Refused(`the file of ${toLine(name)} cannot be fetched: ${why}`);
    let model: Model;
    try {
      model = await this.#findModel(name, version);
    } catch (error) {
      const there =
        (error instanceof NoAnswer || this.missing() !== undefined) && this.mayWork()
          ? await findWhole(folder, name, version)
          : null;
      if (there === null) throw error;
      this.#log(`download: ${toLine(messageOf(error))}; the file is there`);
      return there;
    }
    const path = resolve(folder, fileNameOf(model));
    const part = `${path}.part`;
    const tag = `${part}.etag`;
    const noteChecksum = () => {
      const noted = checksumFileOf(path);
      if (readOrNothing(noted).trim() !== model.checksum) this.#write(noted, `${model.checksum}\n`);
    };
    if (existsSync(path) && (await hashFile(path)) === model.checksum) {
      noteChecksum();
      return path;
    }
    let [failures, lists, longest] = [0, 0, sizeOf(part)];
    for (let isWhole = false; !isWhole; ) {
      const sizeBytes = Math.round(Number(model.size_mb) * 1e6) || 0;
      const have = { haveBytes: sizeOf(part), etag: readOrNothing(tag) || null, sizeBytes };
      if (!/^https?:\/\//i.test(model.download_url))
        throw cannot("its link has neither https:// nor http://");
      const connection = new Connection();
      const answer = await connection.open(model.download_url, have);
      const [step, waitSeconds] = decideDownload(have, answer, failures);
      if (step === "anew") {
        rmSync(part, { force: true });
        replaceFile(tag, strongTag(answer?.headers.etag));
      }
      const hasBytes = step === "append" || (step === "anew" && answer?.status === 200);
      const written = hasBytes ? await connection.write(part, have) : "nothing";
      await connection.close();
      isWhole = written === "whole" || step === "done";
      if (isWhole) break;
      this.cause = connection.cause;
      const why = connection.cause || `status ${answer?.status}`;
      if (written === "too large") rmSync(part, { force: true });
      if (written === "too large" || step === "fail") throw cannot(why);
      if (step === "list_again") {
        if (++lists >= MAX_TRIES) throw cannot(why);
        model = await this.#findModel(name, model.version);
        continue;
      }
      // A server that knows no ranges and always breaks off would never end.
      const grown = sizeOf(part);
      if (grown > longest) failures = 0;
      longest = Math.max(longest, grown);
      const wait = written === "cut" ? waitAfter(0, null, failures) : waitSeconds;
      if (++failures >= MAX_TRIES) throw cannot(why);
      this.#log(`download: ${why}; ${grown} bytes; again in ${wait} s`);
      await pause(wait);
    }
    const isSame = (await hashFile(part)) === model.checksum;
    if (isSame) renameSync(part, path);
    rmSync(part, { force: true });
    rmSync(tag, { force: true });
    if (!isSame)
      throw new Refused(`the file of ${toLine(name)} is not the one of the list: its checksum differs`);
    noteChecksum();
    return path;
  }

  async #findModel(name: string, version: string | undefined): Promise<Model> {
    const models = await this.models();
    const model = models.find((each) => each.name === name && [undefined, each.version].includes(version));
    if (model === undefined)
      throw new Refused(
        `there is no model ${toLine(name)}${version === undefined ? "" : ` ${toLine(version)}`}, or the license does not include it`,
      );
    return model;
  }

  // Events

  /**
   * Puts an event into the queue, and returns its key. Never waits for a network. Throws RangeError if the service would
   * refuse the event, or if too many wait.
   */
  logEvent(eventType: string, fields: EventDetails = {}): string {
    this.#requireService();
    const event = toEvent(eventType, fields, fields.occurredAt ?? new Date());
    const why = whyNoUse(toFields(JSON.stringify(event)));
    if (why !== undefined) throw new RangeError(`the event cannot be logged: ${why}`);
    this.#addToQueue("events", event, {
      events: MAX_QUEUE_EVENTS,
      bytes: MAX_QUEUE_BYTES,
      full: (path) => `100000 events or 64 MiB wait in ${path}: send them, or delete the file`,
    });
    return event.idempotency_key;
  }

  #addToQueue(kind: "events" | "journal", event: Event, most: QueueBounds): void {
    const line = `${JSON.stringify(event)}\n`;
    const bytes = Buffer.byteLength(line);
    if (bytes > MAX_EVENT_BYTES) throw new RangeError("the event is larger than 64 KiB: shorten its texts");
    const path = this.#fileOf(kind);
    const queue = this.#lookAtQueue(kind);
    if (queue.events >= most.events || queue.bytes + bytes > most.bytes)
      throw new RangeError(most.full(path));
    const end = queue.isEnded ? "" : "\n";
    addToFile(
      path,
      end + line,
      kind === "journal" ? (file) => this.#isReported(file, event.idempotency_key) : undefined,
    );
    this.#queues[kind] = {
      events: queue.events + 1,
      bytes: queue.bytes + end.length + bytes,
      isEnded: true,
    };
  }

  /**
   * Sends the events that wait, oldest first, until none is left or four tries in a row failed. After `timeoutSeconds` it
   * begins no request and no wait; a request takes 10 s at most.
   */
  async sendEvents({
    timeoutSeconds,
  }: {
    readonly timeoutSeconds?: number | undefined;
  } = {}): Promise<Counts> {
    this.#requireService();
    const deadlineMs = timeoutSeconds === undefined ? undefined : performance.now() + timeoutSeconds * 1_000;
    const { accepted, refused } = await this.#sendInTurn({ deadlineMs });
    return { accepted, refused, waiting: this.#lookAtQueue("events").events };
  }

  /**
   * Sends the events in a loop, until the service refuses the key, or until the signal. It does not keep the program
   * alive.
   */
  async runEvents(signal?: AbortSignal): Promise<void> {
    this.#requireService();
    while (!signal?.aborted) {
      let wait = IDLE_SECONDS;
      try {
        if (this.#lookAtQueue("events").events > 0) {
          const { next } = await this.#sendInTurn({ signal, ref: false });
          if (next === "stop") return;
          wait = next === "done" ? BATCH_SECONDS : BROKEN_SECONDS;
        }
      } catch (error) {
        this.#log(`events: ${toLine(error)}`);
        wait = BROKEN_SECONDS;
      }
      await pause(wait, { signal, ref: false });
    }
  }

  /** Two callers never send the same events. */
  async #sendInTurn(waiting: Waiting): Promise<Sent> {
    const before = this.#sending;
    let hasBegun = false;
    const turn = before.then(() => {
      hasBegun = true;
      return this.#sendAll(waiting);
    });
    this.#sending = turn.catch(() => {});
    if (waiting.deadlineMs !== undefined) {
      const timer = new AbortController();
      const leftMs = Math.max(0, waiting.deadlineMs - performance.now()) + 1;
      const late = sleep(Math.min(leftMs, 2 ** 31 - 1), undefined, { signal: timer.signal }).catch(() => {});
      await Promise.race([before, late]);
      timer.abort();
      // When its turn comes, it finds that its time is over.
      if (!hasBegun && isOver(waiting)) return { accepted: 0, refused: 0, next: "send" };
    }
    return await turn;
  }

  async #sendAll(waiting: Waiting): Promise<Sent> {
    let [accepted, refused, failures, most] = [0, 0, 0, MAX_BATCH_EVENTS];
    this.gaveUp = "";
    let largest = MAX_BATCH_EVENTS; // the service takes no more at once
    for (;;) {
      if (isOver(waiting)) return { accepted, refused, next: "send" };
      const { events, old, head } = this.#readBatch(most);
      for (const event of old) this.#refuse(event, "EVENT_TOO_OLD", "the event is older than 7 days");
      refused += old.length;
      if (events.length === 0) {
        if (head.length === 0) return { accepted, refused, next: "done" };
        this.#replaceHead(head, []);
        continue;
      }
      const asked = { path: "analytics/batch", fields: { events }, maxBytes: MAX_BATCH_ANSWER_BYTES };
      const answer = await this.#ask({ ...asked, withHeader: true });
      const why = describe("events", answer, this.cause);
      const settled = settleEvents(events, answer, failures);
      for (const { index, code, error } of settled.refused) {
        const event = events[index];
        if (event !== undefined) this.#refuse(event, code, error);
      }
      if (settled.kept !== events || old.length > 0) this.#replaceHead(head, settled.kept);
      accepted += settled.accepted;
      refused += settled.refused.length;
      const { waitSeconds } = settled;
      // Perhaps this service takes fewer events at once. A single one that is wrong as a whole stops the queue.
      const isTooMany = answer?.status === 400 && settled.next === "stop" && events.length > 1;
      const next = isTooMany ? "halve" : settled.next;
      const counts = `${settled.accepted} accepted, ${settled.refused.length} refused`;
      const left = this.#lookAtQueue("events").events;
      const after = next === "done" && left > 0 ? "next batch" : next;
      const then = next === "send" && waitSeconds > 0 ? `send in ${waitSeconds} s` : after;
      const sentence = next === "stop" ? `: ${toLine(answer?.body.error ?? "")}` : "";
      this.#log(`events: ${why}; ${counts}, ${left} waiting; ${then}${sentence}`);
      if (next === "stop") return { accepted, refused, next };
      if (next === "halve") largest = Math.max(1, Math.floor(events.length / 2));
      // One event that is too large does not make the later batches small.
      if (next === "done" && answer?.status === 413) largest = MAX_BATCH_EVENTS;
      if (next === "halve" || waitSeconds === 0) most = largest;
      else most = settled.most ?? most;
      failures = waitSeconds > 0 ? failures + 1 : 0;
      if (failures >= MAX_TRIES) this.gaveUp = this.#whyPassing("events", answer);
      if (failures >= MAX_TRIES || isOver(waiting, waitSeconds * 1.1))
        return { accepted, refused, next: "send" };
      if (waitSeconds > 0) await pause(waitSeconds, waiting);
    }
  }

  #refuse(event: Event, code: string, error: string): void {
    try {
      this.#options.onRefused?.(event, code, error);
    } catch (thrown) {
      this.#log(`onRefused failed: ${toLine(thrown)}`);
    }
  }

  /** Reads the oldest events. `head` is what was read, also lines that are damaged or too old. */
  #readBatch(most: number): { readonly events: Event[]; readonly old: Event[]; readonly head: Buffer } {
    const path = this.#fileOf("events");
    const read = existsSync(path) ? readBytes(path, MAX_BATCH_BYTES) : Buffer.alloc(0);
    const isEnd = read.length === sizeOf(path);
    const events: Event[] = [];
    const old: Event[] = [];
    let [bytes, batchBytes] = [0, 20];
    while (bytes < read.length && events.length < most) {
      const found = read.indexOf(10, bytes);
      // The line goes on after what was read. A line that has no end at all comes from a crash, or is damaged.
      if (found < 0 && !isEnd && bytes > 0) break;
      const end = found < 0 ? read.length : found + 1;
      const event = toFields(read.toString("utf8", bytes, end)) as Event;
      if (typeof event.idempotency_key === "string") {
        batchBytes += end - bytes;
        if (batchBytes > MAX_BATCH_BYTES) break;
        const occurredAt = parseTime(event.occurred_at);
        if (occurredAt > 0 && occurredAt < nowSeconds() - EVENT_SECONDS) old.push(event);
        else events.push(event);
      }
      bytes = end;
    }
    return { events, old, head: read.subarray(0, bytes) };
  }

  /** Puts events in the place of those that were sent. The command `log` or `send` may use the queue at the same time. */
  #replaceHead(head: Buffer, kept: readonly Event[]): void {
    const path = this.#fileOf("events");
    if (!existsSync(path)) return;
    // Windows does not replace an open file.
    const file = process.platform === "win32" ? undefined : openSync(path, "r");
    try {
      const bytes = readBytes(path, 2 * MAX_QUEUE_BYTES);
      // Another process has sent the same events, and has removed them already.
      if (!bytes.subarray(0, head.length).equals(head)) return;
      const lines = kept.map((event) => `${JSON.stringify(event)}\n`).join("");
      replaceFile(path, lines, bytes.subarray(head.length));
      if (file === undefined) return;
      // Lines that another process has added to the old file meanwhile.
      const late = Buffer.alloc(Math.max(0, fstatSync(file).size - bytes.length));
      const length = readSync(file, late, 0, late.length, bytes.length);
      if (length > 0) appendFileSync(path, late.subarray(0, length));
    } finally {
      if (file !== undefined) closeSync(file);
      this.#queues.events = null;
    }
  }

  /** Counts what was added to the file since the last look, or all of it if the file is shorter. */
  #lookAtQueue(kind: "events" | "journal"): Queue {
    const path = this.#fileOf(kind);
    const size = sizeOf(path);
    const known = this.#queues[kind];
    if (known?.bytes === size) return known;
    const begin = known?.isEnded && known.bytes < size ? known : { events: 0, bytes: 0 };
    let events = begin.events;
    let last = 10;
    try {
      for (let at = begin.bytes; at < size; ) {
        const chunk = readBytes(path, MAX_BATCH_BYTES, at);
        if (chunk.length === 0) break;
        for (const byte of chunk) if (byte === 10) events++;
        at += chunk.length;
        last = chunk.at(-1) ?? 10;
      }
    } catch (error) {
      // Another process has just taken the journal away for a report.
      if (codeOfFailure(error) !== "ENOENT") throw error;
    }
    const isEnded = last === 10;
    const queue = { events: isEnded ? events : events + 1, bytes: size, isEnded };
    this.#queues[kind] = queue;
    return queue;
  }

  // Reports of use

  /**
   * Keeps a use for the next report, and returns its key. For a machine that never has a network, whose license has a key
   * for reports. An inference is a unit of the quota, also with `success: false`: record only what counts. Throws
   * {@linkcode Refused} without such a license, and if the service would refuse the use RangeError.
   */
  record(eventType: string, fields: EventDetails = {}): string {
    const claims = this.#readReporting();
    if (this.#readHead(claims) === null) this.#beginJournal(claims);
    // An earlier clock is wrong.
    const now = new Date(Math.max(Date.now(), claims.iat * 1_000));
    const event = toEvent(eventType, fields, fields.occurredAt ?? now);
    const why = whyNoUse(toFields(JSON.stringify(event)));
    if (why !== undefined) throw new RangeError(`the use cannot be recorded: ${why}`);
    this.#addToQueue("journal", event, {
      events: MAX_JOURNAL_LINES,
      bytes: MAX_JOURNAL_BYTES,
      full: (path) => `${this.#lookAtQueue("journal").events} uses wait in ${path}: report them`,
    });
    return event.idempotency_key;
  }

  /**
   * Writes what was recorded since the last report as the next one, and returns its number; null if nothing is new. What
   * does not fit into one report waits for the next one. Each report is also kept beside the state. Replaces no file.
   */
  report(to: string, { withEvents = false }: ReportOptions = {}): number | null {
    requireFolder(dirname(to));
    const claims = this.#readReporting();
    return this.#lock(() => {
      const head = this.#readHead(claims);
      if (head !== null && this.#countWaiting() > 0) refuseExisting(to);
      const made = head === null ? null : this.#makeReport(claims, head, withEvents);
      const damaged = made !== null && made.dropped > 0 ? `${made.dropped} damaged lines dropped; ` : "";
      const taken = this.#fileOf("journal.old");
      if (head === null || made === null || made.text === null) {
        rmSync(taken, { force: true });
        this.#log(`report: ${damaged}nothing is new since report ${head?.number ?? 0}`);
        return null;
      }
      const number = head.number + 1;
      const cut = { bytes: made.end, sha256: sha256(readBytes(taken, made.end)) };
      const next = { ...head, number, digest: made.digest, cut };
      mkdirSync(this.#fileOf("reports"), { recursive: true, mode: 0o700 });
      // In this order a crash loses nothing, and no number is used twice. The copy for others comes last.
      replaceFile(this.#reportPath(number), `${made.text}\n`);
      replaceFile(this.#fileOf("journal.head"), JSON.stringify(next));
      let rest: string;
      try {
        this.#cutJournal(next);
        // Who looks finds an empty journal rather than none.
        appendFileSync(this.#fileOf("journal"), "", { mode: 0o600 });
        rest = `${this.#countWaiting()} waiting`;
      } catch (error) {
        if (codeOfFailure(error) === undefined) throw error;
        // Such as a full disk: the report counts already.
        rest = `the next report cuts the journal: ${toReason(error)}`;
      }
      this.#log(`report: ${damaged}${made.uses} uses in report ${number}, ${rest}`);
      try {
        writeOnce(to, `${made.text}\n`);
      } catch (error) {
        const kept = `report ${number} is in ${this.#fileOf("reports")}, but not at ${to}`;
        throw new Refused(`${kept}: ${toReason(error)}; use report-again`);
      }
      return number;
    });
  }

  /** Writes an earlier report again, with the same bytes. Replaces no file. */
  reportAgain(number: number, to: string): void {
    requireFolder(dirname(to));
    const head = toHead(toFields(readOrNothing(this.#fileOf("journal.head"))));
    const isKnown = head !== null && Number.isSafeInteger(number) && number >= 1 && number <= head.number;
    const text = isKnown ? this.#readReport(number) : "";
    if (head === null || text === "") throw new Refused(`there is no report ${number}`);
    if (!this.#isInChain(head, number, text))
      throw new Refused(
        `${this.#reportPath(number)} is not the report ${number} of this journal: put back the file that was there`,
      );
    writeOnce(to, `${text}\n`);
  }

  /** The text of a report without its newline; "" if there is none. */
  #readReport(number: number): string {
    return readOrNothing(this.#reportPath(number), MAX_REPORT_BYTES).trim();
  }

  /** Whether a report is of this journal, and what those after it say, as far as their files are there. */
  #isInChain(head: Head, first: number, firstText: string): boolean {
    let text = firstText;
    for (let number = first; ; ) {
      const fields = payloadOf(text);
      if (fields.journal !== head.journal || fields.number !== number) return false;
      const digest = sha256(text);
      if (++number > head.number) return digest === head.digest;
      text = this.#readReport(number);
      if (text === "") return true;
      if (payloadOf(text).previous !== digest) return false;
    }
  }

  readonly #reportPath = (number: number): string =>
    join(this.#fileOf("reports"), `${String(number).padStart(6, "0")}.report`);

  /** The claims of the license with which this machine reports. Also use after its end is a fact. */
  #readReporting(): Reporting {
    const { sub, report, iat } = this.#readKept();
    const { machine, key } = (report ?? {}) as Fields;
    const isGood = typeof machine === "string" && typeof key === "string" && typeof sub === "string";
    if (!isGood)
      throw new Refused("this license has no key for reports: ask the vendor for a file with --fingerprint");
    return { iat, license_id: sub, machine, key };
  }

  /** The next report, of all uses that are on the disk. */
  #makeReport({ iat, ...reporting }: Reporting, head: Head, withEvents: boolean): Report {
    const { license_id: licenseId, machine, key } = reporting;
    this.#takeJournal(head);
    // An earlier clock is wrong, and would move all use to its own day.
    const madeAt = Math.max(nowSeconds(), Math.floor(iat));
    const request = { licenseId, machine, key, head, madeAt, client: CLIENT, withEvents };
    return makeReport(this.#readTaken(), request);
  }

  /** The lines that a report has taken, before the seal. */
  *#readTaken(): Generator<JournalLine, undefined> {
    const taken = this.#fileOf("journal.old");
    if (!existsSync(taken)) return undefined;
    for (const line of readLines(taken)) {
      if (line.text === SEAL.trim()) break;
      yield line;
    }
    return undefined;
  }

  #countWaiting(): number {
    let waiting = this.#lookAtQueue("journal").events;
    for (const { text } of this.#readTaken()) if (text !== "") waiting++;
    return waiting;
  }

  /** Makes the head of the journal, unless another process has made it meanwhile. */
  #beginJournal({ license_id, machine }: Reporting): void {
    const path = this.#fileOf("journal.head");
    const journal = randomBytes(16).toString("hex");
    const newPath = `${path}.${randomUUID()}`;
    const head = { journal, license_id, machine, number: 0, digest: null, cut: null };
    replaceFile(newPath, JSON.stringify(head));
    try {
      putNew(newPath, path);
    } finally {
      rmSync(newPath, { force: true });
    }
  }

  /** Null before the first use. */
  #readHead({ license_id, machine }: Reporting): Head | null {
    const path = this.#fileOf("journal.head");
    const reports = this.#fileOf("reports");
    if (!existsSync(path) && !existsSync(reports)) return null;
    const head = toHead(toFields(readOrNothing(path)));
    // A new journal would begin with number 1 again, which the service refuses.
    if (head === null)
      throw new Refused(
        `${path} is missing or damaged: restore it, or move it, the journal and ${reports} away`,
      );
    if (head.license_id !== license_id || head.machine !== machine)
      throw new Refused(
        `${this.#fileOf("journal")} belongs to another license or machine: move it, its .head and ${reports} away`,
      );
    return head;
  }

  /**
   * Takes the journal away, so that what other processes record meanwhile, in either language, goes into a new one, and
   * seals it. Lines before the seal are reported. Who finds its line after the seal adds it to the new journal: so each use
   * counts once, and nobody who records waits for another. What a crash has left and what came since then become one file.
   */
  #takeJournal(head: Head): void {
    const [path, taken, second] = [
      this.#fileOf("journal"),
      this.#fileOf("journal.old"),
      this.#fileOf("journal.new"),
    ];
    this.#mergeTaken();
    this.#cutJournal(head);
    if (sizeOf(path) === 0) return;
    renameSync(path, existsSync(taken) ? second : taken);
    this.#queues.journal = null;
    this.#mergeTaken();
    this.#cutJournal(head);
  }

  /** Adds the second taken journal to the first, once: each line has a random key, so it cannot come again. */
  #mergeTaken(): void {
    const [taken, second] = [this.#fileOf("journal.old"), this.#fileOf("journal.new")];
    if (existsSync(second)) {
      if (!existsSync(taken)) renameSync(second, taken);
      else {
        const [before, more] = [seal(taken), seal(second)];
        const isMerged = before.subarray(Math.max(0, before.length - more.length)).equals(more);
        if (!isMerged) replaceFile(taken, before, before.at(-1) === 10 ? "" : "\n", more, SEAL);
        rmSync(second);
      }
    }
    if (existsSync(taken)) seal(taken);
  }

  /** Removes what the last report holds, if the taken journal begins with it. */
  #cutJournal({ cut }: Head): void {
    const path = this.#fileOf("journal.old");
    if (cut === null || sizeOf(path) < cut.bytes) return;
    const bytes = readBytes(path, 2 * MAX_TAKEN_BYTES);
    if (sha256(bytes.subarray(0, cut.bytes)) !== cut.sha256) return;
    const rest = bytes.subarray(cut.bytes, Math.max(cut.bytes, bytes.indexOf(SEAL)));
    if (rest.toString("latin1").trim() === "") rmSync(path);
    else replaceFile(path, rest, SEAL);
  }

  /** Whether a line counts that was added to a journal while another process took it away. */
  #isReported(file: number, key: string): boolean {
    const bytes = readOpen(file, 2 * MAX_TAKEN_BYTES);
    const seal = bytes.indexOf(SEAL);
    return seal < 0 || bytes.indexOf(key) < seal;
  }

  /** Does something that nobody else does meanwhile, also in this process. */
  #lock<Result>(work: () => Result): Result {
    const path = this.#fileOf("journal.lock");
    const name = nameProcess();
    if (existsSync(path) && !isAtWork(path)) removeLock(path);
    let file: number;
    try {
      file = openSync(path, "wx", 0o600);
    } catch (error) {
      if (codeOfFailure(error) !== "EEXIST") throw error;
      throw new Refused("another report is being written: wait until it is done");
    }
    try {
      writeAll(file, name);
      return work();
    } finally {
      closeSync(file);
      rmSync(path, { force: true });
    }
  }

  // Bundles

  /**
   * Replaces the license by the one of a bundle, and copies its models and its other files into folders. Checks the whole
   * bundle first: one that is refused changes nothing. Throws {@linkcode Refused}.
   */
  async openBundle(path: string, { modelsFolder, filesFolder }: BundleFolders = {}): Promise<OpenedBundle> {
    this.#requireKeys();
    refuseRoot(this.#options.stateFile);
    for (const folder of [modelsFolder, filesFolder]) {
      if (folder === undefined) continue;
      requireFolder(folder);
      refuseRoot(folder);
    }
    let begin: string;
    try {
      begin = readStart(path, LICENSE_BEGIN.length);
    } catch (error) {
      throw new Refused(`cannot read ${path}: ${toReason(error)}`);
    }
    if (begin === LICENSE_BEGIN) return this.#openLicense(path);
    const { audience = "" } = this.#options;
    const terms = {
      audience,
      keyId: this.#record?.key_id,
      fingerprint: this.state.fingerprint,
      now: nowSeconds(),
      seen: this.state.seen,
      highestIat: this.#record?.iat ?? 0,
      kept: this.#keptOrNull(),
    };
    /** The new files by the paths that they get, and those that are there already. */
    const waiting = new Map<string, { readonly newPath: string; readonly file: number }>();
    const pathOf = ({ kind, path: inBundle }: OpenedFile) => {
      const folder = kind === "model" ? modelsFolder : filesFolder;
      return folder === undefined ? undefined : join(folder, inBundle.slice(inBundle.indexOf("/") + 1));
    };
    const save = async (file: OpenedFile) => {
      const target = pathOf(file);
      if (target === undefined) return undefined;
      if (waiting.has(target))
        throw new Refused(`two files of the bundle would be ${target}: name two folders`);
      const there = statSync(target, { throwIfNoEntry: false });
      if (there !== undefined && !there.isFile()) throw new Refused(`${target} is no file: move it away`);
      if (there !== undefined && (await hashFile(target)) === `sha256:${file.sha256}`) return undefined;
      removeLeft(target);
      const newPath = `${target}.${randomUUID()}`;
      const opened = openSync(newPath, "wx", 0o600);
      waiting.set(target, { newPath, file: opened });
      return (chunk: Uint8Array) => writeAll(opened, chunk);
    };
    const close = (file: number, isWhole: boolean) => {
      try {
        if (isWhole) fsyncSync(file);
      } finally {
        closeSync(file);
      }
    };
    try {
      const { license, claims, files } = await readBundle(readChunks(path), this.#pinned, {
        terms,
        save,
      });
      const moved = [...waiting];
      // The license comes last: with it the program may use what the bundle has.
      this.#replaceLicense(license, claims, { days: null, borrowed: false }, () => {
        for (const [target, { newPath, file }] of moved) {
          waiting.set(target, { newPath, file: -1 });
          close(file, true);
        }
        for (const [target, { newPath }] of moved) renameSync(newPath, target);
      });
      const pathsOf = (kind: OpenedFile["kind"]) =>
        files.filter((file) => file.kind === kind).flatMap((file) => pathOf(file) ?? []);
      return { claims, models: pathsOf("model"), files: pathsOf("file") };
    } finally {
      for (const { newPath, file } of waiting.values()) {
        if (file >= 0) close(file, false);
        rmSync(newPath, { force: true });
      }
    }
  }

  /** Replaces the license by that of an exported file, which comes without models. */
  #openLicense(path: string): OpenedBundle {
    const license = readLicense(path);
    const claims = verify(license, this.#pinned);
    refuseOlder(claims, this.#keptOrNull());
    this.#replaceLicense(license, claims, { days: null, borrowed: false });
    return { claims, models: [], files: [] };
  }

  /** The claims of the kept license if it is for this machine and key, also if it is not good now. */
  #readKept(): Claims {
    this.#requireKeys();
    if (!existsSync(this.#fileOf("license")))
      throw new Refused(explain("license_missing", this.missing() !== undefined));
    if (this.#isOthers) throw new Refused("the license is for another key");
    const claims = this.#readClaims();
    return checkNames(claims, this.#termsOf(this.#record?.key_id ?? claims.key_id, 0));
  }

  #keptOrNull(): Claims | null {
    try {
      return this.#readKept();
    } catch (error) {
      if (error instanceof Refused) return null;
      throw error;
    }
  }

  // Requests

  /** Sends a request four times at most; throws {@linkcode Refused} if the service refuses it or gives no answer. */
  async #askOften(question: Question, asked: Asked): Promise<Answer> {
    for (let failures = 0; ; failures++) {
      const answer = await this.#ask(asked);
      const status = statusOf(question, answer);
      this.#log(`${question}: ${describe(question, answer, this.cause)}`);
      if (answer !== null && status === 200) return answer;
      if (!isPassing(status) || failures + 1 === MAX_TRIES) {
        const [why, code] = this.#whyNoAnswer(question, answer);
        if (status === 0) throw new NoAnswer(`the service gave no answer: ${why}`, why);
        if (isPassing(status)) throw new NoAnswer(why, this.#whyPassing(question, answer), code);
        throw new Refused(why, code);
      }
      await pause(waitAfter(status, answer, failures));
    }
  }

  async #ask({
    path,
    fields,
    withHeader = false,
    maxBytes = MAX_ANSWER_BYTES,
  }: Asked): Promise<Answer | null> {
    const { url, apiKey } = this.#options;
    const isGet = withHeader && fields === undefined;
    const body = JSON.stringify(withHeader ? fields : { api_key: apiKey, ...fields });
    const headers: Record<string, string> = withHeader ? { "X-API-Key": apiKey } : {};
    this.#requireService();
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    // A redirect is not followed: the key is for one address only.
    const options: RequestInit = { headers, signal, redirect: "manual" };
    try {
      const how: RequestInit = isGet ? {} : { method: "POST", body };
      const response = await fetch(`${url.replace(/\/$/, "")}/v1/${path}`, { ...options, ...how });
      const answer = {
        status: response.status,
        headers: Object.fromEntries(response.headers),
        body: await readBody(response, maxBytes),
      };
      this.cause = "";
      return answer;
    } catch (error) {
      this.cause = describeFailure(error);
      return null;
    }
  }

  // Files

  readonly #log = (line: string): void => this.#options.log?.(line);
  readonly #fileOf = (kind: string): string => `${this.#options.stateFile}.${kind}`;
  readonly #writeState = (): void => replaceFile(this.#options.stateFile, JSON.stringify(this.state));

  #keepState(state: State): void {
    this.state = state;
    this.#write(this.#options.stateFile, JSON.stringify(state));
  }

  /** Writes a file, or deletes it. The program goes on without the file: the client has what is in it. */
  #write(path: string, text: string | null): void {
    try {
      if (text === null) rmSync(path, { force: true });
      else replaceFile(path, text);
    } catch (error) {
      this.#log(`cannot write ${path}: ${toLine(error)}`);
    }
  }
}

interface QueueBounds {
  readonly events: number;
  readonly bytes: number;
  readonly full: (path: string) => string;
}

interface Waiting {
  readonly signal?: AbortSignal | undefined;
  /** The time of `performance.now()` from which on nothing is begun. */
  readonly deadlineMs?: number | undefined;
  readonly ref?: boolean;
}

interface Sent {
  readonly accepted: number;
  readonly refused: number;
  readonly next: "done" | "stop" | "send"; // "send" if some wait after four failures
}

/** Whether nothing more is to be begun, or no wait of so many seconds. */
const isOver = ({ signal, deadlineMs = Number.POSITIVE_INFINITY }: Waiting, seconds = 0): boolean =>
  signal?.aborted === true || performance.now() + seconds * 1_000 >= deadlineMs;

function isModel(value: unknown): value is Model {
  const fields = (value ?? {}) as Fields;
  return ["name", "version", "download_url", "checksum"].every((field) => typeof fields[field] === "string");
}

/** The name for the file of a model. It has no separator, and cannot begin with a point: it leads out of no folder. */
function fileNameOf({ name, version, download_url: link }: Model): string {
  const [extension = ""] = /\.[A-Za-z][A-Za-z0-9]{0,15}$/.exec(URL.parse(link)?.pathname ?? "") ?? [];
  const fileName = `${name}-${version}${extension}`;
  const isGood = [name, version].every((text) => /^[A-Za-z0-9][A-Za-z0-9._+-]*$/.test(text));
  if (isGood && fileName.length <= MAX_FILE_NAME_LENGTH) return fileName;
  throw new Refused(`the service sent a name that is no file name: ${toLine(fileName)}`);
}

const checksumFileOf = (path: string): string => `${path}.checksum`;

/** The newest file of a model that was downloaded whole, and was not changed since then; null if there is none. */
async function findWhole(folder: string, name: string, version: string | undefined): Promise<string | null> {
  // Another model may have a longer name with the same beginning.
  const begin = `${name}-${version ?? ""}`;
  const rest = version === undefined ? /^\d[A-Za-z0-9._+]*$/ : /^(\.[A-Za-z][A-Za-z0-9]{0,15})?$/;
  const found = readdirSync(folder)
    .filter((fileName) => fileName.startsWith(begin) && rest.test(fileName.slice(begin.length)))
    .map((fileName) => resolve(folder, fileName))
    .map((path) => ({ path, noted: statSync(checksumFileOf(path), { throwIfNoEntry: false }) }))
    .filter(({ path, noted }) => noted?.isFile() && statSync(path, { throwIfNoEntry: false })?.isFile())
    .sort((one, other) => Number(other.noted?.mtimeMs) - Number(one.noted?.mtimeMs));
  for (const { path } of found)
    if ((await hashFile(path)) === readOrNothing(checksumFileOf(path)).trim()) return path;
  return null;
}

/** The end of a license for a place, which the service keeps taken until then; 0 without a place. */
const takenUntil = ({ machine_id, exp }: Fields): number =>
  typeof machine_id === "string" && Number.isSafeInteger(exp) ? Number(exp) : 0;

function toHead(fields: Fields): Head | null {
  const { journal, number, digest, license_id, machine, cut } = fields;
  const isHex = (value: unknown, digits: number) =>
    typeof value === "string" && value.length === digits && /^[0-9a-f]+$/.test(value);
  const { bytes, sha256: begin } = (cut ?? {}) as Fields;
  const isGood =
    isHex(journal, 32) &&
    isTexts([license_id, machine]) &&
    isWithin(number, Number.MAX_SAFE_INTEGER - 1) &&
    (number === 0 ? digest === null : isHex(digest, 64)) &&
    (cut === null || (isWithin(bytes, 2 * MAX_JOURNAL_BYTES) && isHex(begin, 64)));
  return isGood ? ({ journal, number, digest, license_id, machine, cut } as Head) : null;
}

/** Whatever is not a plain address would send the key somewhere else, or leave a name and a password in a log. */
function whyNoAddress(url: string): string | undefined {
  const [, port = "1"] = /^https?:\/\/(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?\/?$/i.exec(
    url,
  ) ?? [undefined, "0"];
  if (url === "" || (Number(port) >= 1 && Number(port) <= 65_535 && URL.canParse(url))) return undefined;
  return "the address of the service must be http://HOST or https://HOST, perhaps with :PORT, and without a path";
}

const whyNoKey = (apiKey: string): string | undefined =>
  apiKey === "" || /^[A-Za-z0-9]+_(live|test)_[0-9a-f]{48}$/.test(apiKey)
    ? undefined
    : "the API key must be letters and digits, _live_ or _test_, and 48 lowercase hex digits";

const whyNoFingerprint = (fingerprint: string): string | undefined =>
  fingerprint === "" || /^[ -~]{8,200}$/.test(fingerprint)
    ? undefined
    : "the fingerprint must be 8 to 200 printable ASCII characters";

const codeOfFailure = (error: unknown): unknown => (error as { code?: unknown }).code;

/** Why a file could not be read or written. */
function toReason(error: unknown): string {
  if (codeOfFailure(error) === "ENOENT") return "no such file";
  const name = messageOf(error);
  // Node and Bun name the call and the path after the reason.
  return toLine(error instanceof Refused ? name : name.replace(/^[A-Z]+: /, "").replace(/, \w+( '.*)?$/, ""));
}

function requireFolder(folder: string): void {
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  if (!isFolder) throw new Refused(`there is no folder ${folder}: create it`);
}

/** Removes what a crash left of a file that was to become the target, in either language. */
function removeLeft(target: string): void {
  const begin = `${basename(target)}.`;
  for (const name of readdirSync(dirname(target))) {
    if (!name.startsWith(begin) || !/^([0-9a-f]{16}|[0-9a-f-]{36})$/.test(name.slice(begin.length))) continue;
    const path = join(dirname(target), name);
    if (Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > LEFT_MS)
      rmSync(path, { force: true });
  }
}

/** Whether the process that wrote the lock is at work. */
function isAtWork(lock: string): boolean {
  const name = readOrNothing(lock, 200);
  const ageMs = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? 0);
  if (ageMs > LOCK_MS) return false;
  // It has just been made, and not yet been written.
  if (name === "") return ageMs <= BARE_LOCK_MS;
  const [, pid, begin, place] = /^([1-9][0-9]{0,9}) ([0-9]{1,20}) (\S+)$/.exec(name) ?? [];
  if (pid === undefined || place !== findPlace()) return ageMs <= FAR_LOCK_MS;
  const found = findBegin(pid);
  if (found !== "") return found === begin;
  try {
    return process.kill(Number(pid), 0);
  } catch (error) {
    return codeOfFailure(error) === "EPERM";
  }
}

/** How a lock names this process: its number, when it began, and the place where the number means it. */
function nameProcess(): string {
  const pid = String(process.pid);
  return `${pid} ${findBegin(pid) || 0} ${findPlace()}`;
}

/** Where a number means the same process: one boot of a computer, and there one container. "-" if unknown. */
function findPlace(): string {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return `${boot}/${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return "-";
  }
}

/** When a process began, in ticks since the computer did; "" if nobody says. A later process with its number differs. */
function findBegin(pid: string): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? ""; // the name before it may have spaces
  } catch {
    return "";
  }
}

/** Removes a lock that a process has left, and not one that another process has made just now. */
function removeLock(path: string): void {
  const taken = `${path}.${randomUUID()}`;
  try {
    renameSync(path, taken);
  } catch (error) {
    if (codeOfFailure(error) === "ENOENT") return;
    throw error;
  }
  if (isAtWork(taken)) putNew(taken, path);
  rmSync(taken, { force: true });
}

/** Seals a taken journal if it is not sealed. Returns what stands before the seal. */
function seal(path: string): Buffer {
  const sealed = () => readBytes(path, 2 * MAX_TAKEN_BYTES);
  let bytes = sealed();
  if (!bytes.includes(SEAL)) {
    appendFileSync(path, SEAL);
    bytes = sealed();
  }
  return bytes.subarray(0, bytes.indexOf(SEAL));
}

/** What a report says; nothing if it is none. */
const payloadOf = (text: string): Fields =>
  toFields(Buffer.from(text.split(".", 2)[1] ?? "", "base64url").toString());

/** Only a strong tag stands for the same bytes. */
const strongTag = (etag = "") => (/^"[!#-~]{0,1000}"$/.test(etag) ? etag : "");

/** One request for a file. It never has the key: the link is enough, and may lead to another host. */
class Connection {
  cause = "";
  readonly #abort = new AbortController();
  readonly #timer = setTimeout(
    () => this.#abort.abort(new DOMException("", "TimeoutError")),
    IDLE_TIMEOUT_MS,
  );
  #response: Response | undefined;

  async open(link: string, { haveBytes, etag }: Part): Promise<Pick<Answer, "status" | "headers"> | null> {
    // A compressed body would have other bytes than the file, and no range.
    const headers: Record<string, string> = { "Accept-Encoding": "identity" };
    if (haveBytes > 0 && etag !== null) {
      headers.Range = `bytes=${haveBytes}-`;
      headers["If-Range"] = etag;
    }
    try {
      this.#response = await fetch(link, { headers, signal: this.#abort.signal });
      return { status: this.#response.status, headers: Object.fromEntries(this.#response.headers) };
    } catch (error) {
      this.cause = describeFailure(error);
      await this.close();
      return null;
    }
  }

  /** Adds the body to the file, of which there is nothing or a part. "a part": the server sent less than the rest. */
  async write(path: string, { sizeBytes }: Part): Promise<"whole" | "a part" | "cut" | "too large"> {
    const { body, headers, status } = this.#response ?? new Response();
    const [, total] = /\/(\d+)$/.exec(headers.get("content-range") ?? "") ?? [];
    const whole = Number((status === 206 ? total : headers.get("content-length")) ?? Number.NaN);
    let length = sizeOf(path);
    const file = openSync(path, "a", 0o600);
    try {
      for await (const chunk of body ?? []) {
        this.#timer.refresh();
        length += chunk.length;
        if (length > largestBytes(sizeBytes)) {
          this.cause = "it is larger than the list says";
          return "too large";
        }
        writeAll(file, chunk);
      }
      return length < whole ? "a part" : "whole";
    } catch (error) {
      this.cause = describeFailure(error);
      return "cut";
    } finally {
      closeSync(file);
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#response?.body?.cancel().catch(() => {});
    this.#abort.abort();
  }
}

// The command

const PROGRAM = "claviger_client.ts";

/** The arguments of each command, of which those in brackets may be left out, and what it does. */
const COMMANDS: Readonly<Record<string, readonly [names: string, does: string]>> = {
  activate: ["", "take a place, or renew it"],
  run: ["", "keep the place, and send the events that wait"],
  status: ["", "say whether this machine may work, and if not, why"],
  release: ["", "give the place back"],
  validate: ["", "ask what the key may do"],
  borrow: ["[DAYS]", "fetch a signed license, to work without a network"],
  "give-back": ["", "give the place back, and delete the signed license"],
  features: ["", "print the features and values of the license"],
  models: ["", "list the models"],
  download: ["NAME [VERSION] FOLDER", "download a model"],
  log: ["TYPE [MODEL]", "put an event into the queue"],
  send: ["", "send the events that wait"],
  "open-bundle": ["FILE [MODELS_FOLDER [FILES_FOLDER]]", "replace the license, and copy models and files"],
  record: ["TYPE [MODEL]", "keep a use for the next report"],
  report: ["FILE [--events]", "write a report of the use since the last one"],
  "report-again": ["NUMBER FILE", "write an earlier report again"],
  check: ["LICENSE KEYS AUDIENCE KEY_ID [FINGERPRINT]", "check the file of a signed license"],
};

/** These also work with neither the address of the service nor its key. */
const OFFLINE_COMMANDS = ["status", "features", "open-bundle", "record", "report", "report-again"];

const SETTINGS = `Set LICENSE_URL, LICENSE_KEY and LICENSE_STATE, and perhaps LICENSE_FINGERPRINT, LICENSE_NAME,
LICENSE_KEYS and LICENSE_AUDIENCE. check needs none of them; status, features, open-bundle, record,
report and report-again also work with neither LICENSE_URL nor LICENSE_KEY, in a closed network`;

function renderHelp(): string {
  const rows = Object.entries(COMMANDS).map(([name, [names, does]]) => [`${name} ${names}`.trim(), does]);
  const lines = rows.map(([row = "", does]) =>
    row.length <= 34 ? `  ${row.padEnd(34)} ${does}` : `  ${row}\n${" ".repeat(37)}${does}`,
  );
  return [`Usage: ${PROGRAM} COMMAND`, ...lines, SETTINGS].join("\n");
}

/** The help that is asked for, of all commands or of one; undefined if none is. */
function findHelp(command: string, args: readonly string[]): string | undefined {
  const options = ["--help", "-h"];
  const isFirst = ["help", ...options].includes(command);
  if (!isFirst && !options.includes(args.at(-1) ?? "")) return undefined;
  const name = isFirst ? (args[0] ?? "") : command;
  const [names, does] = (Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined) ?? [];
  if (names === undefined) return renderHelp();
  return `Usage: ${`${PROGRAM} ${name} ${names}`.trim()}\n  ${does}`;
}

/** What is wrong with a command or its arguments; undefined if nothing is. */
function whyNoCommand(command: string, args: readonly string[]): string | undefined {
  const option = [command, ...args].find(
    (each) => each.startsWith("-") && !(command === "report" && each === "--events"),
  );
  if (option !== undefined)
    return toLine(`there is no option ${option}: ${PROGRAM} --help says what there is`);
  if (command === "") return "no command is given";
  const names = Object.hasOwn(COMMANDS, command) ? COMMANDS[command]?.[0] : undefined;
  if (names === undefined) return toLine(`there is no command ${command}`);
  const all = names.split(" ").filter((name) => name !== "");
  const needed = all.filter((name) => !name.startsWith("["));
  if (args.length < needed.length)
    return `${command} needs ${needed.join(", ").replace(/, (?=[^,]*$)/, " and ")}`;
  const isRight = args.length <= all.length && isRightNumber(command, args);
  return isRight ? undefined : `${command} takes ${names || "no arguments"}`;
}

const logLine = (line: string) => void process.stderr.write(`${line}\n`);
const print = (...lines: readonly string[]) =>
  void process.stdout.write(lines.map((line) => `${line}\n`).join(""));

/** Returns the status with which the program ends: 0 is yes or done, 1 is no or refused, 2 is wrong usage. */
async function main([command = "", ...given]: readonly string[]): Promise<number> {
  // The program that this module replaces had no commands: its only arguments were those of `check`.
  const isOld = !Object.hasOwn(COMMANDS, command) && existsSync(command);
  if (isOld && (given.length === 3 || given.length === 4)) return checkFile([command, ...given]);
  const help = findHelp(command, given);
  if (help !== undefined) {
    print(help);
    return 0;
  }
  const isOption = (each: string) => command === "report" && each === "--events";
  const args = given.toSorted((one, other) => Number(isOption(one)) - Number(isOption(other)));
  const { LICENSE_URL: url = "", LICENSE_KEY: apiKey = "", LICENSE_STATE: stateFile, ...more } = process.env;
  const why = whyNoCommand(command, args);
  if (why !== undefined) return showUsage(why);
  if (command === "check") return checkFile(args);
  if (!stateFile) return showUsage("LICENSE_STATE is not set");
  const isOffline = OFFLINE_COMMANDS.includes(command);
  if (!isOffline && apiKey === "") return showUsage("LICENSE_KEY is not set");
  if (!isOffline && url === "") return showUsage("LICENSE_URL is not set");
  let client: Client;
  try {
    client = new Client({
      ...{ url, apiKey, stateFile, log: logLine },
      ...{ fingerprint: more.LICENSE_FINGERPRINT, name: more.LICENSE_NAME },
      ...{ keys: more.LICENSE_KEYS || undefined, audience: more.LICENSE_AUDIENCE },
      onRefused: ({ idempotency_key }, code, error) =>
        logLine(`event ${idempotency_key} is refused: ${code} ${error}`),
    });
  } catch (error) {
    const setting = whyNoAddress(url)
      ? "LICENSE_URL"
      : whyNoKey(apiKey)
        ? "LICENSE_KEY"
        : "LICENSE_FINGERPRINT";
    const isWrongSetting = error instanceof TypeError;
    const refused = error instanceof Refused ? "refused: " : "";
    logLine(isWrongSetting ? `Wrong ${setting}: ${error.message}` : `${refused}${messageOf(error)}`);
    return isWrongSetting ? 2 : 1;
  }
  try {
    const isDone = await runCommand(client, command, args);
    if (!isDone && client.gaveUp !== "") logLine(`gave up after four requests: ${client.gaveUp}`);
    return isDone ? 0 : 1;
  } catch (error) {
    logLine(
      error instanceof NoAnswer
        ? `gave up after four requests: ${error.why}`
        : `refused: ${messageOf(error)}`,
    );
    return 1;
  }
}

function isRightNumber(command: string, [first = "", second]: readonly string[]): boolean {
  if (command === "borrow") return /^\d{0,5}$/.test(first);
  if (command === "report") return second === undefined || second === "--events";
  return command !== "report-again" || /^[1-9]\d{0,14}$/.test(first);
}

async function runCommand(client: Client, command: string, args: readonly string[]): Promise<boolean> {
  const [first = "", second = "", third] = args;
  switch (command) {
    case "activate":
      return await client.activate();
    case "release":
      return await client.release();
    case "run": {
      const awake = setInterval(() => {}, 3_600_000);
      const stopped = new AbortController();
      const events = client.runEvents(stopped.signal);
      await client.run();
      stopped.abort();
      await events;
      clearInterval(awake);
      return false;
    }
    case "status": {
      print(client.describe(), `machine ${client.state.machine_id ?? "none"}`);
      print(`fingerprint ${client.state.fingerprint}`);
      const why = client.why();
      if (why !== null) logLine(`refused: ${why.message}`);
      return why === null;
    }
    case "validate": {
      const answer = await client.validate();
      if (answer !== null) print(JSON.stringify(answer));
      return answer?.valid === true;
    }
    case "features": {
      const isKnown = client.licenseAnswer() !== null;
      if (!isKnown && !process.env.LICENSE_KEYS && client.missing() === undefined)
        throw new Refused("no answer is kept: run validate");
      // Says why there is no license either.
      if (!isKnown) client.claims();
      printRights(client.features(), client.entitlements());
      return true;
    }
    case "borrow":
      printClaims(await client.borrow(first === "" ? undefined : Number(first)));
      return true;
    case "give-back": {
      const end = await client.giveBack();
      if (end !== null) print(`taken until ${toTime(end)}`);
      return [200, 404].includes(statusOf("release", client.answer));
    }
    case "models":
      for (const { name, version, checksum } of await client.models())
        print(toLine(`${name} ${version} ${checksum}`));
      return true;
    case "download":
      print(
        await client.download(
          first,
          third === undefined ? { folder: second } : { version: second, folder: third },
        ),
      );
      return true;
    case "log":
      print(client.logEvent(first, { modelName: second || undefined }));
      return true;
    case "record":
      print(client.record(first, { modelName: second || undefined }));
      return true;
    case "report": {
      const number = client.report(first, { withEvents: second === "--events" });
      if (number !== null) print(String(number));
      return true;
    }
    case "report-again":
      client.reportAgain(Number(first), second);
      return true;
    case "open-bundle": {
      const folders = { modelsFolder: second || undefined, filesFolder: third };
      const { claims, models, files } = await client.openBundle(first, folders);
      printClaims(claims);
      print(...models.map((path) => `model ${path}`), ...files.map((path) => `file ${path}`));
      return true;
    }
    default: {
      const { accepted, refused, waiting } = await client.sendEvents();
      print(`accepted ${accepted}`, `refused ${refused}`, `waiting ${waiting}`);
      return waiting === 0;
    }
  }
}

/** Checks a file with a license, and keeps the latest time that was seen beside it. */
function checkFile([
  licenseFile = "",
  keysFile = "",
  audience = "",
  keyId = "",
  fingerprint,
]: readonly string[]): number {
  try {
    const license = readLicense(licenseFile);
    const pinned = readKeys(keysFile);
    const now = nowSeconds();
    const seen = latestTime(`${licenseFile}.seen`, now);
    printClaims(check(license, pinned, { audience, keyId, fingerprint, now, seen }));
    return 0;
  } catch (error) {
    logLine(`refused: ${messageOf(error)}`);
    return 1;
  }
}

function printClaims(claims: Claims): void {
  print(`${claims.license_type} until ${toTime(claims.exp).slice(0, 10)}`);
  printRights(featuresAt(claims, nowSeconds()), entitlementsOf(claims));
}

function printRights(features: readonly string[], entitlements: EntitlementValues): void {
  print(...features.map((name) => `feature ${name}`));
  print(...Object.entries(entitlements).map(([name, value]) => `value ${name} ${JSON.stringify(value)}`));
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function showUsage(why: string): number {
  logLine(why.includes("--help") ? why : `${why}\n${renderHelp()}`);
  return 2;
}

/** Node has `import.meta.main` since 24.2. */
const [, program = ""] = process.argv;
const isProgram = existsSync(program) && realpathSync(program) === fileURLToPath(import.meta.url);
if (isProgram) {
  // A reader such as `head` has enough: that is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
  // Without a top-level await, so that `require` of this module works.
  void main(process.argv.slice(2)).then((status) => {
    process.exitCode = status;
  });
}
