/**
 * A connection that sends bytes unchanged and reads one whole answer to them. It sends bytes that a client library
 * would correct or refuse, and parses the answer strictly.
 */
import { setTimeout as sleep } from "node:timers/promises";

/** One whole answer. */
export interface WireAnswer {
  readonly kind: "answer";
  readonly status: number;
  /** The headers by their lowercase names; an answer with a repeated name is malformed. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

export type WireOutcome =
  | WireAnswer
  /** The service closed the connection without an answer. */
  | { readonly kind: "closed" }
  | { readonly kind: "hung"; readonly afterMs: number }
  | { readonly kind: "malformed"; readonly problem: string };

export interface Wire {
  /** Sends one request and reads its answer. Opens a connection if none is open. */
  send(bytes: Uint8Array, options: SendOptions): Promise<WireOutcome>;
  close(): void;
}

export interface SendOptions {
  /** True if the answer has no body in spite of its Content-Length: for HEAD. */
  readonly isBodiless: boolean;
  /** True if the request asks the service to close the connection after it. */
  readonly isLast?: boolean;
}

const HEAD_END = Buffer.from("\r\n\r\n");

type Socket = Bun.Socket<undefined>;

export function createWire(url: string, options: { readonly deadlineMs: number }): Wire {
  const { hostname, port } = new URL(url);
  let socket: Socket | undefined;
  let received = Buffer.alloc(0);
  /** Parses the received bytes; `isEnd` is true if no more will come. */
  let onReceived: ((isEnd: boolean) => void) | undefined;

  async function open(): Promise<Socket> {
    received = Buffer.alloc(0);
    return await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        data(_, chunk) {
          received = received.length === 0 ? Buffer.from(chunk) : Buffer.concat([received, chunk]);
          onReceived?.(false);
        },
        drain: (from) => void flush(from),
        close(from) {
          if (from !== socket) return;
          socket = undefined;
          onReceived?.(true);
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
      // These bytes are an extra answer: the service saw a second request inside the previous one.
      if (received.length > 0) {
        const extra = received.toString("latin1");
        received = Buffer.alloc(0);
        return { kind: "malformed", problem: `bytes follow the previous answer: ${extra}` };
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
        onReceived = undefined;
        resolve(outcome);
      };
      const timer = setTimeout(() => {
        const ending = socket;
        settle({ kind: "hung", afterMs: options.deadlineMs });
        ending?.terminate();
      }, options.deadlineMs);
      onReceived = (isEnd) => {
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

/** Parses the first whole answer; returns undefined before it is complete. Skips interim answers (1xx). */
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
    if (headers.has("transfer-encoding")) return malformed("chunked, though every answer has a known length");
    const declared = headers.get("content-length");
    const hasBody = !isBodiless && status !== 304;
    // A refusal of the runtime has no length: it ends with the connection.
    if (declared === undefined && hasBody && headers.get("connection") !== "close") {
      return malformed(`${status} without a length`);
    }
    const end = bodyBegin + (hasBody ? Number(declared ?? 0) : 0);
    if (received.length < end) return undefined;
    const body = Buffer.from(received.subarray(bodyBegin, end));
    return { outcome: { kind: "answer", status, headers, body }, end };
  }
}
