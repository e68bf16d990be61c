/**
 * A connection that sends bytes as they are and reads one whole answer to them: what a client library would
 * mend or refuse goes out as it is written, and what comes back is taken apart without being forgiven anything.
 */
import { setTimeout as sleep } from "node:timers/promises";

/** One answer with everything that it had. */
export interface WireAnswer {
  readonly kind: "answer";
  readonly status: number;
  /** By lowercase names; an answer that has a name twice is malformed. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

export type WireOutcome =
  | WireAnswer
  /** The service closed the connection and said nothing. */
  | { readonly kind: "closed" }
  | { readonly kind: "hung"; readonly afterMs: number }
  | { readonly kind: "malformed"; readonly problem: string };

export interface Wire {
  /** Sends one request and reads its answer. Opens a connection where none is open. */
  send(bytes: Uint8Array, options: SendOptions): Promise<WireOutcome>;
  close(): void;
}

export interface SendOptions {
  /** True where the answer has no body whatever its length says: for HEAD. */
  readonly isBodiless: boolean;
  /** True where the request asks for the connection to be closed after it. */
  readonly isLast?: boolean;
}

const HEAD_END = Buffer.from("\r\n\r\n");

type Socket = Bun.Socket<undefined>;

export function createWire(url: string, options: { readonly deadlineMs: number }): Wire {
  const { hostname, port } = new URL(url);
  let socket: Socket | undefined;
  let received = Buffer.alloc(0);
  /** Looks at what has been received; `isEnd` when no more will come. */
  let look: ((isEnd: boolean) => void) | undefined;

  async function open(): Promise<Socket> {
    received = Buffer.alloc(0);
    return await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        data(_, chunk) {
          received = received.length === 0 ? Buffer.from(chunk) : Buffer.concat([received, chunk]);
          look?.(false);
        },
        drain: (from) => void flush(from),
        close(from) {
          if (from !== socket) return;
          socket = undefined;
          look?.(true);
        },
        error(from) {
          from.terminate();
        },
      },
    });
  }

  let unsent: Uint8Array = new Uint8Array();
  function flush(to: Socket): void {
    if (unsent.length > 0) unsent = unsent.subarray(Math.max(0, to.write(unsent)));
  }

  return {
    async send(bytes, { isBodiless, isLast = false }) {
      // An answer that nobody asked for, to a request that was hidden in the one before.
      if (received.length > 0) {
        const extra = received.toString("latin1");
        received = Buffer.alloc(0);
        return { kind: "malformed", problem: `something came after the answer before: ${extra}` };
      }
      for (let tries = 0; socket === undefined; tries++) {
        try {
          socket = await open();
        } catch (error) {
          if (tries === 20) throw error;
          await sleep(10 * tries);
        }
      }
      const { promise, resolve } = Promise.withResolvers<WireOutcome>();
      const settle = (outcome: WireOutcome) => {
        clearTimeout(timer);
        look = undefined;
        resolve(outcome);
      };
      const timer = setTimeout(() => {
        const ending = socket;
        settle({ kind: "hung", afterMs: options.deadlineMs });
        ending?.terminate();
      }, options.deadlineMs);
      look = (isEnd) => {
        const parsed = parseAnswer(received, isBodiless);
        if (parsed === undefined) {
          if (!isEnd) return;
          const text = received.toString("latin1");
          settle(text === "" ? { kind: "closed" } : { kind: "malformed", problem: `cut off: ${text}` });
          return;
        }
        received = Buffer.from(received.subarray(parsed.end));
        settle(parsed.outcome);
      };
      unsent = bytes;
      flush(socket);
      const outcome = await promise;
      const isClosing = outcome.kind === "answer" && outcome.headers.get("connection") === "close";
      if (outcome.kind === "malformed" || isClosing || isLast || unsent.length > 0) {
        unsent = new Uint8Array();
        const ending = socket;
        socket = undefined;
        ending?.end();
      }
      return outcome;
    },
    close() {
      const ending = socket;
      socket = undefined;
      ending?.end();
    },
  };
}

interface Parsed {
  readonly outcome: WireOutcome;
  readonly end: number;
}

/** The first whole answer; undefined where there is none yet. Interim answers (1xx) are left out. */
function parseAnswer(received: Buffer, isBodiless: boolean): Parsed | undefined {
  let begin = 0;
  for (;;) {
    const headEnd = received.indexOf(HEAD_END, begin);
    if (headEnd === -1) return undefined;
    const [statusLine = "", ...lines] = received.toString("latin1", begin, headEnd).split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
    const bodyBegin = headEnd + HEAD_END.length;
    const malformed = (problem: string) => ({
      outcome: { kind: "malformed", problem } as const,
      end: received.length,
    });
    if (Number.isNaN(status)) return malformed(`no status line: ${statusLine}`);
    if (status < 200) {
      begin = bodyBegin;
      continue;
    }
    const headers = new Map<string, string>();
    for (const line of lines) {
      const colon = line.indexOf(": ");
      const name = line.slice(0, colon).toLowerCase();
      if (colon < 1) return malformed(`no header: ${line}`);
      if (headers.has(name)) return malformed(`${name} twice`);
      headers.set(name, line.slice(colon + 2));
    }
    if (headers.has("transfer-encoding")) return malformed("chunks, where every length is known");
    const declared = headers.get("content-length");
    const hasBody = !isBodiless && status !== 304;
    // What the runtime refuses by itself ends with the connection and says no length.
    if (declared === undefined && hasBody && headers.get("connection") !== "close") {
      return malformed(`${status} without a length`);
    }
    const end = bodyBegin + (hasBody ? Number(declared ?? 0) : 0);
    if (received.length < end) return undefined;
    const body = Buffer.from(received.subarray(bodyBegin, end));
    return { outcome: { kind: "answer", status, headers, body }, end };
  }
}
