/**
 * Takes a place for this machine, and keeps it by heartbeats. Needs Node 22.18 or Bun, and no package.
 * `claviger guide sdk` has the rules. `decide` contains them, and the test vectors are for `decide`.
 * As a module: wait for `client.activate()`, call `client.run()` without waiting for it, and ask `client.mayWork()` at
 * every use. The loop does not keep the program alive.
 * As a command: claviger_client.ts activate | run | status | release
 * Environment: LICENSE_URL, LICENSE_KEY, LICENSE_STATE (a file), and perhaps LICENSE_FINGERPRINT and LICENSE_NAME.
 */
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readFileSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const OFFLINE_SECONDS = 7 * 86_400; // the longest time for which a place may be used without an answer
const CHECK_SECONDS = 3_600; // the longest time between two heartbeats
const FULL_SECONDS = 30; // the wait for a place if the answer names none
const CLOCK_TOLERANCE_SECONDS = 300;
const TIMEOUT_MS = 10_000; // the service answers within 5 s
const NAP_SECONDS = 15; // a sleeping computer stops timers, so the loop looks at the clock this often

export type Request = "activate" | "heartbeat" | "release";
export type Next = Request | "done" | "stop";

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
  readonly body: Readonly<Record<string, unknown>>;
}

/** A clock that was set back does not make a place last longer. */
export function mayWork({ until, seen }: State, now: number): boolean {
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
  const status = answer !== null && isGenuine(request, answer) ? answer.status : 0;
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
  if ([0, 408, 425, 429].includes(status) || status >= 500) {
    const usual = status === 429 ? 60 : Math.min(2 ** state.failures, 60);
    const failures = Math.min(state.failures + 1, 99);
    return [{ ...state, seen, failures }, request, retryAfter(answer) || usual];
  }
  return [lost, "stop", 0];
}

/** Whether the service has answered, and not a proxy, a balancer or the log-in page of a network. */
function isGenuine(request: Request, answer: Answer): boolean {
  const { status, body } = answer;
  if (status !== 200) return status >= 400 && codeOf(answer) !== "";
  if (request === "release") return body.released === true;
  return body.machine_id !== undefined && (body.expires_at === null || parseTime(body.expires_at) > 0);
}

/**
 * The time for which the program may work: until its place ends, by the clock of the service, and at most
 * OFFLINE_SECONDS, because a place of many days can be released before its end.
 */
function secondsLeft({ headers, body: { expires_at } }: Answer, sentAt: number): number {
  if (expires_at === null) return OFFLINE_SECONDS;
  const left = parseTime(expires_at) - (parseTime(headers.date) || sentAt);
  return Math.max(0, Math.min(left, OFFLINE_SECONDS));
}

const codeOf = ({ body: { code } }: Answer) =>
  typeof code === "string" && /^[A-Z_]{1,64}$/.test(code) ? code : "";

function describe(request: Request, answer: Answer | null, cause: string): string {
  if (answer === null) return `no answer: ${cause}`;
  if (!isGenuine(request, answer)) return `no answer (${answer.status})`;
  return `${answer.status} ${codeOf(answer)}`.trim();
}

/** One line of at most 300 printable characters, for the log. */
const toLine = (text: unknown) =>
  String(text)
    .replace(/[^ -~]/g, "")
    .slice(0, 300);

/** Unix seconds; 0 if the text is not a time. */
const parseTime = (text: unknown) => Math.floor(Date.parse(String(text)) / 1_000) || 0;

/** Whole seconds from 1 to an hour; 0 if the answer has none. */
function retryAfter(answer: Answer | null): number {
  const text = answer?.headers["retry-after"] ?? "";
  return /^\d+$/.test(text) ? Math.min(Math.max(1, Number(text)), 3_600) : 0;
}

/** The hashed id of this machine, as systemd asks for it to be used; "" if there is none. */
export function findFingerprint(): string {
  const ids = ["/etc/machine-id", "/var/lib/dbus/machine-id"].map((path) => readText(path).trim());
  const id = ids.find(({ length }) => length === 32);
  return id === undefined ? "" : sha256(`claviger ${id}`);
}

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const nowSeconds = () => Math.floor(Date.now() / 1_000);

function readText(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

/** The fields of a JSON object; none if the text is something else. */
function toFields(text: string): Record<string, unknown> {
  try {
    const fields = JSON.parse(text);
    return typeof fields === "object" && !Array.isArray(fields) ? { ...fields } : {};
  } catch {
    return {};
  }
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

export interface ClientOptions {
  readonly url: string;
  readonly apiKey: string;
  readonly stateFile: string;
  readonly fingerprint?: string;
  readonly name?: string;
  readonly log?: (line: string) => void;
}

const logLine = (line: string) => void process.stderr.write(`${line}\n`);

export class Client {
  state: State;
  answer: Answer | null = null;
  #cause = ""; // why there was no answer
  readonly #options: ClientOptions & Required<Pick<ClientOptions, "log">>;

  constructor(options: ClientOptions) {
    if (!/^https?:\/\/[^/]/.test(options.url))
      throw new TypeError("the address of the service must begin with https:// or http://");
    this.#options = { log: logLine, ...options };
    const saved = toFields(readText(options.stateFile)) as Partial<State>;
    // A random fingerprint is stored before it is used: otherwise every start would take a new place.
    const known = options.fingerprint || findFingerprint() || saved.fingerprint;
    const fingerprint = known || randomBytes(32).toString("hex");
    const owner = sha256(`${options.url} ${options.apiKey} ${fingerprint}`);
    const isWhole = [saved.until, saved.seen, saved.failures].every(Number.isSafeInteger);
    this.state = { owner, fingerprint, machine_id: null, until: 0, seen: 0, failures: 0 };
    if (saved.owner === owner && isWhole) this.state = saved as State;
    else this.#write();
  }

  readonly mayWork = (): boolean => mayWork(this.state, nowSeconds());
  readonly activate = () => this.#tryOften("activate").then(() => this.mayWork());
  readonly release = () => this.#tryOften("release").then((next) => next === "done");

  /**
   * Keeps the place until the service refuses the key, or until the signal. Stop it before `release`. It does not keep the
   * program alive.
   */
  async run(signal?: AbortSignal): Promise<void> {
    let next: Next = firstRequest(this.state);
    while (next !== "stop" && next !== "done" && !signal?.aborted) {
      const [following, waitSeconds] = await this.#step(next);
      next = following;
      await pause(waitSeconds, { signal, ref: false });
    }
  }

  describe(): string {
    const until = new Date(this.state.until * 1_000).toISOString().replace(".000", "");
    return this.mayWork() ? `may work until ${until}` : "may not work";
  }

  /** Sends a request four times at most. Does not wait for a place. */
  async #tryOften(request: Request): Promise<Next> {
    for (let tries = 1; ; tries++) {
      const [next, waitSeconds] = await this.#step(request);
      if (next !== request || this.answer?.status === 409 || tries === 4) return next;
      await pause(waitSeconds);
    }
  }

  async #step(request: Request): Promise<[next: Next, waitSeconds: number]> {
    const sentAt = nowSeconds();
    this.answer = await this.#send(request);
    const [state, next, wait] = decide(this.state, request, this.answer, { sentAt, now: nowSeconds() });
    this.state = state;
    try {
      this.#write();
    } catch (error) {
      this.#options.log(`cannot write ${this.#options.stateFile}: ${error}`);
    }
    const then = next === "stop" || next === "done" ? next : `${next} in ${wait} s`;
    const why = next === "stop" ? `: ${toLine(this.answer?.body.error ?? "")}` : "";
    this.#options.log(
      `${request}: ${describe(request, this.answer, this.#cause)}; ${this.describe()}; ${then}${why}`,
    );
    return [next, wait];
  }

  async #send(request: Request): Promise<Answer | null> {
    const { url, apiKey, name } = this.#options;
    const more = request === "activate" ? { platform: process.platform, name: name || undefined } : {};
    const body = JSON.stringify({ api_key: apiKey, fingerprint: this.state.fingerprint, ...more });
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    try {
      // A redirect is not followed: the key is for one address only.
      const options: RequestInit = { method: "POST", body, signal, redirect: "manual" };
      const response = await fetch(`${url.replace(/\/$/, "")}/v1/machines/${request}`, options);
      const headers = Object.fromEntries(response.headers);
      return { status: response.status, headers, body: toFields(await response.text()) };
    } catch (error) {
      const { cause = error } = error as { cause?: unknown };
      const { message = "", code = error } = cause as { message?: string; code?: unknown };
      this.#cause = toLine(message || code);
      return null;
    }
  }

  /** Writes a new file first, so that a crash leaves the old state or the new one. */
  #write(): void {
    const newFile = `${this.#options.stateFile}.${process.pid}`;
    writeFileSync(newFile, JSON.stringify(this.state), { mode: 0o600, flush: true });
    renameSync(newFile, this.#options.stateFile);
  }
}

async function main(command: string): Promise<boolean> {
  const { LICENSE_URL: url, LICENSE_KEY: apiKey, LICENSE_STATE: stateFile } = process.env;
  const { LICENSE_FINGERPRINT: fingerprint = "", LICENSE_NAME: name = "" } = process.env;
  if (!/^(activate|run|status|release)$/.test(command) || !url || !apiKey || !stateFile) {
    logLine("Usage: claviger_client.ts activate | run | status | release");
    logLine("Set LICENSE_URL, LICENSE_KEY and LICENSE_STATE");
    process.exit(2);
  }
  let client: Client;
  try {
    client = new Client({ url, apiKey, stateFile, fingerprint, name });
  } catch (error) {
    const isUrl = error instanceof TypeError;
    logLine(isUrl ? `Wrong LICENSE_URL: ${error.message}` : `cannot write ${stateFile}: ${error}`);
    process.exit(isUrl ? 2 : 1);
  }
  if (command === "activate") return await client.activate();
  if (command === "release") return await client.release();
  if (command === "run") {
    const awake = setInterval(() => {}, 3_600_000);
    await client.run();
    clearInterval(awake);
    return false;
  }
  const machine = `machine ${client.state.machine_id ?? "none"}\nfingerprint ${client.state.fingerprint}`;
  process.stdout.write(`${client.describe()}\n${machine}\n`);
  return client.mayWork();
}

/** Node has `import.meta.main` since 24.2. */
const [, program = ""] = process.argv;
const isProgram = existsSync(program) && realpathSync(program) === fileURLToPath(import.meta.url);
if (isProgram) process.exitCode = (await main(process.argv[2] ?? "")) ? 0 : 1;
