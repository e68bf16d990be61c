/**
 * The load: connections that stay open, each with one open request. Every answer is checked.
 *
 * The load must cost less than the server that it measures. So requests are prepared in one buffer,
 * and only the status and the length of an answer are read. One load process brings a bare echo to
 * full use of its core while a fifth of the load's own core is idle, and its figures agree with those of `wrk`.
 */
import {
  CLAIM_DIGITS,
  expectedStatus,
  type LoadJob,
  type LoadResult,
  makeRequests,
  type Requests,
} from "./load_job.ts";
import { busySeconds, cpuSecondsOf, cpuSecondsOfTree } from "./process_times.ts";
import { quantile } from "./statistics.ts";

/** Longer than the service's own deadlines. */
const ANSWER_DEADLINE_MS = 10_000;

interface Line {
  readonly socket: Bun.Socket<Line>;
  /** When the open request was sent, or was due. */
  sinceMs: number;
  /** The part of an incomplete answer that has arrived. */
  part: Buffer | undefined;
}

/**
 * Runs a job to its end; throws if an answer is missing or is not the expected success.
 *
 * One long function, because its closures share the connections and the counters.
 */
export async function generateLoad(job: LoadJob): Promise<LoadResult> {
  const requests = preparedRequests(job);
  const expected = expectedStatus(job.request);
  const digits = createDigits(requests);
  const waits = new Samples();
  const lateness = new Samples();
  const ended = Promise.withResolvers<void>();
  ended.promise.catch(() => {});
  const idle: Line[] = [];
  let sent = 0;
  let answered = 0;
  let isMeasured = false;
  let isSending = true;

  function send(line: Line, sinceMs: number) {
    const offset = (sent++ % requests.count) * requests.stride;
    digits.next(offset);
    line.sinceMs = sinceMs;
    const written = line.socket.write(requests.bytes, offset, requests.stride);
    if (written !== requests.stride) ended.reject(new Error("The connection takes no whole request"));
  }

  function receive(line: Line, chunk: Buffer) {
    const bytes = line.part === undefined ? chunk : Buffer.concat([line.part, chunk]);
    const end = endOfAnswer(bytes);
    if (end === undefined || end > bytes.length) {
      // Copy the chunk, because the runtime reuses its memory.
      line.part = line.part === undefined ? Buffer.from(chunk) : bytes;
      return;
    }
    line.part = undefined;
    if (end < bytes.length || statusOf(bytes) !== expected) {
      ended.reject(new Error(`An answer is not the ${expected} that was expected: ${toExcerpt(bytes)}`));
      return;
    }
    answered++;
    const nowMs = performance.now();
    if (isMeasured) waits.add(nowMs - line.sinceMs);
    proceed(line, nowMs);
  }

  /** Sends the next request on a connection without an open request. */
  let proceed: (line: Line, nowMs: number) => void = () => {};

  const lines = await Promise.all(
    Array.from({ length: job.connections }, () =>
      connect(job, {
        receive,
        lost: () => ended.reject(new Error("A connection was closed before its answer")),
      }),
    ),
  );
  const begin = (): Reading => {
    isMeasured = true;
    return readCounters(job, answered);
  };
  const end = (reading: Reading) => {
    isMeasured = false;
    return readCounters(job, answered, reading);
  };
  const drained = async () => {
    isSending = false;
    const untilMs = performance.now() + ANSWER_DEADLINE_MS;
    while (answered < sent) {
      if (performance.now() > untilMs) throw new Error(`${sent - answered} requests were not answered`);
      await pause(1);
    }
  };
  const pause = (ms: number) => Promise.race([Bun.sleep(ms), ended.promise]);

  try {
    let measured: Measured;
    const { span } = job;
    if (span.kind === "count") {
      const wanted = span.requests;
      proceed = (line, nowMs) => {
        if (sent < wanted) send(line, nowMs);
        else if (answered === wanted) ended.resolve();
      };
      const reading = begin();
      for (const line of lines) proceed(line, performance.now());
      await ended.promise;
      measured = end(reading);
    } else {
      proceed = (line, nowMs) => {
        if (isSending) send(line, nowMs);
        else idle.push(line);
      };
      for (const line of lines) proceed(line, performance.now());
      await pause(job.warmUpMs);
      if (span.kind === "time") {
        const reading = begin();
        await pause(span.ms);
        measured = end(reading);
        await drained();
      } else {
        await drained();
        isSending = true;
        const reading = begin();
        await sendOnSchedule(span, {
          idle,
          send,
          lateness,
          ended: ended.promise,
          onProceed: (to) => (proceed = to),
        });
        await drained();
        measured = end(reading);
      }
    }
    waits.sort();
    lateness.sort();
    return {
      ...measured,
      perSecond: measured.requests / measured.seconds,
      p50Ms: quantile(waits.values, 0.5),
      p99Ms: quantile(waits.values, 0.99),
      lateP99Ms: quantile(lateness.values, 0.99),
      answered,
    };
  } finally {
    for (const { socket } of lines) socket.terminate();
  }
}

interface Scheduling {
  readonly idle: Line[];
  readonly send: (line: Line, sinceMs: number) => void;
  readonly lateness: Samples;
  readonly ended: Promise<void>;
  readonly onProceed: (proceed: (line: Line, nowMs: number) => void) => void;
}

/**
 * Sends requests when they are due. A request without a free connection waits, and its latency includes the
 * wait.
 */
async function sendOnSchedule(
  { kind, ms, perSecond }: Extract<LoadJob["span"], { readonly perSecond: number }>,
  { idle, send, lateness, ended, onProceed }: Scheduling,
): Promise<void> {
  const total = Math.floor((ms / 1_000) * perSecond);
  const beganMs = performance.now();
  const dueMs = (index: number) => beganMs + (index * 1_000) / perSecond;
  let next = 0;
  const isPausing = kind === "bursts";
  onProceed((line, nowMs) => {
    if (!isPausing && next < total && dueMs(next) <= nowMs) send(line, dueMs(next++));
    else idle.push(line);
  });
  const allSent = Promise.withResolvers<void>();
  const turn = () => {
    const nowMs = performance.now();
    while (next < total && dueMs(next) <= nowMs) {
      const line = idle.pop();
      if (line === undefined) break;
      lateness.add(nowMs - dueMs(next));
      send(line, isPausing ? nowMs : dueMs(next));
      next++;
    }
    if (next >= total) allSent.resolve();
    else if (isPausing) timer = setTimeout(turn, 1);
    // Timers are exact only to the millisecond, so this loop runs without a pause.
    else immediate = setImmediate(turn);
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  let immediate = setImmediate(turn);
  try {
    await Promise.race([allSent.promise, ended]);
  } finally {
    clearImmediate(immediate);
    clearTimeout(timer);
  }
}

interface LineEvents {
  readonly receive: (line: Line, chunk: Buffer) => void;
  readonly lost: () => void;
}

async function connect(
  { host, port }: Pick<LoadJob, "host" | "port">,
  { receive, lost }: LineEvents,
): Promise<Line> {
  const opened = Promise.withResolvers<Line>();
  await Bun.connect<Line>({
    hostname: host,
    port,
    socket: {
      open(socket) {
        socket.data = { socket, sinceMs: 0, part: undefined };
        socket.setNoDelay(true);
        opened.resolve(socket.data);
      },
      data: (socket, chunk) => receive(socket.data, chunk),
      close: lost,
      error: lost,
      connectError: (_, error) => opened.reject(error),
    },
  });
  return await opened.promise;
}

type Measured = Pick<
  LoadResult,
  "requests" | "seconds" | "loadCpu" | "serviceCpu" | "databaseCpu" | "othersCpu"
>;

interface Reading extends Measured {
  readonly atMs: number;
  readonly busy: number;
}

/** Returns the time and CPU used since `before`; without it, returns the first reading. */
export function readCounters(
  { service, database }: Pick<LoadJob, "service" | "database">,
  answered: number,
  before?: Reading,
): Reading {
  const { user, system } = process.cpuUsage();
  const atMs = performance.now();
  const serviceCpu = service === undefined ? Number.NaN : cpuSecondsOf(service);
  const databaseCpu = database === undefined ? Number.NaN : cpuSecondsOfTree(database);
  const busy = busySeconds();
  const own = {
    loadCpu: (user + system) / 1e6 - (before?.loadCpu ?? 0),
    serviceCpu: serviceCpu - (before?.serviceCpu ?? 0),
    databaseCpu: databaseCpu - (before?.databaseCpu ?? 0),
  };
  return {
    atMs,
    busy,
    requests: answered - (before?.requests ?? 0),
    seconds: (atMs - (before?.atMs ?? 0)) / 1_000,
    ...own,
    othersCpu: busy - (before?.busy ?? 0) - own.loadCpu - (own.serviceCpu || 0) - (own.databaseCpu || 0),
  };
}

/** Returns where the first answer with its body ends; undefined while that is unknown. */
function endOfAnswer(bytes: Buffer): number | undefined {
  const head = bytes.indexOf("\r\n\r\n");
  if (head < 0) return undefined;
  let at = bytes.indexOf("-Length: ");
  if (at < 0) at = bytes.indexOf("-length: ");
  if (at < 0 || at > head) throw new Error(`An answer has no Content-Length: ${toExcerpt(bytes)}`);
  let length = 0;
  for (let index = at + 9; index < head; index++) {
    const digit = (bytes[index] ?? 0) - 48;
    if (digit < 0 || digit > 9) break;
    length = length * 10 + digit;
  }
  return head + 4 + length;
}

/** Returns the status in `HTTP/1.1 200 OK`. */
function statusOf(bytes: Buffer): number {
  return ((bytes[9] ?? 0) - 48) * 100 + ((bytes[10] ?? 0) - 48) * 10 + ((bytes[11] ?? 0) - 48);
}

function toExcerpt(bytes: Buffer): string {
  const text = bytes.toString("latin1", 0, 2_000);
  return `${text.split("\r\n")[0]} ${text.slice(text.indexOf("\r\n\r\n") + 4, 1_500).slice(0, 200)}`.trim();
}

/** A list of numbers that grows without making an object for each number. */
class Samples {
  #values = new Float64Array(65_536);
  #count = 0;

  add(value: number) {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(this.#count * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#count++] = value;
  }

  sort() {
    this.values.sort();
  }

  get values(): Float64Array {
    return this.#values.subarray(0, this.#count);
  }
}

/** The number of the next claim. It starts with the time, because claims must also differ between processes. */
let claims = Date.now() * 1_000;

function createDigits({ bytes, claimAt }: Requests): { next(offset: number): void } {
  if (claimAt < 0) return { next() {} };
  return {
    next(offset) {
      let rest = claims++;
      for (let place = offset + claimAt + CLAIM_DIGITS - 1; place >= offset + claimAt; place--) {
        const tenth = Math.floor(rest / 10);
        bytes[place] = 48 + (rest - tenth * 10);
        rest = tenth;
      }
    },
  };
}

/** Keeps the requests of the last few jobs, because rounds repeat them. */
const prepared = new Map<string, Requests>();
const MAX_PREPARED = 6;

function preparedRequests({ request, keys, order }: LoadJob): Requests {
  const name = JSON.stringify([request, keys, order]);
  const known = prepared.get(name);
  if (known !== undefined) return known;
  const made = makeRequests({ request, keys, order });
  const [oldest] = prepared.keys();
  if (prepared.size >= MAX_PREPARED && oldest !== undefined) prepared.delete(oldest);
  prepared.set(name, made);
  return made;
}
