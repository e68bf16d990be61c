/**
 * A client with one HTTP/1.1 connection at a time, written on sockets. `fetch` by itself sends a request again when a
 * kept connection turns out to be closed, but a test that counts events must know how often each was sent.
 */
import { connect, type Socket } from "node:net";

export interface Request {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Outcome =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers: ReadonlyMap<string, string>;
      readonly body: Readonly<Record<string, unknown>>;
      readonly tookMs: number;
    }
  /**
   * No answer: the connection was refused (`refused`, the request was not sent), it was lost (`cut`), no answer came
   * in time (`late`), or the answer is not HTTP with a JSON object (`garbled`).
   */
  | {
      readonly kind: "none";
      readonly why: "refused" | "cut" | "late" | "garbled";
      readonly detail: string;
      readonly tookMs: number;
    };

export interface Client {
  /** Sends a request once, on the open connection or on a new one. Only one request at a time. */
  ask(request: Request): Promise<Outcome>;
  /** Whether a connection is open. */
  isConnected(): boolean;
  close(): void;
}

export interface ClientOptions {
  /** Returns the present port on 127.0.0.1; undefined while there is none. */
  readonly port: () => number | undefined;
  /** The time after which an answer is late. */
  readonly limitMs: number;
}

const HEAD_END = Buffer.from("\r\n\r\n");

export function createClient({ port: portNow, limitMs }: ClientOptions): Client {
  let kept: { readonly socket: Socket; readonly port: number } | undefined;

  function ask(request: Request): Promise<Outcome> {
    const beganMs = performance.now();
    const port = portNow();
    if (port === undefined) {
      return Promise.resolve({ kind: "none", why: "refused", detail: "no service runs", tookMs: 0 });
    }
    if (kept !== undefined && (kept.port !== port || kept.socket.destroyed)) close();
    const isNew = kept === undefined;
    kept ??= { socket: connect({ host: "127.0.0.1", port, noDelay: true }), port };
    const { socket } = kept;
    return new Promise((resolve) => {
      let received: Buffer = Buffer.alloc(0);
      let isSent = !isNew;
      const end = (outcome: Outcome, keep: boolean) => {
        clearTimeout(timer);
        socket.removeAllListeners();
        // The request is settled: ignore everything that still arrives.
        socket.on("error", () => {});
        if (!keep) close();
        resolve(outcome);
      };
      const none = (why: "refused" | "cut" | "late" | "garbled", detail: string) =>
        end({ kind: "none", why, detail, tookMs: performance.now() - beganMs }, false);
      const lost = (detail: string) => none(isSent ? "cut" : "refused", detail);
      const timer = setTimeout(() => none("late", `nothing within ${limitMs} ms`), limitMs);
      socket.on("error", (error) => lost("code" in error ? String(error.code) : error.message));
      socket.on("close", () => lost("closed"));
      socket.on("end", () => lost("ended"));
      socket.on("data", (bytes: Buffer) => {
        received = received.length === 0 ? bytes : Buffer.concat([received, bytes]);
        const headBytes = received.indexOf(HEAD_END);
        if (headBytes === -1) return;
        const head = readHead(received.subarray(0, headBytes).toString("latin1"));
        const length = Number(head?.headers.get("content-length"));
        if (head === undefined || !Number.isInteger(length))
          return none("garbled", received.toString("latin1"));
        const bodyAt = headBytes + HEAD_END.length;
        if (received.length < bodyAt + length) return;
        const body = readObject(received.subarray(bodyAt, bodyAt + length).toString());
        if (body === undefined) return none("garbled", received.toString("latin1"));
        const tookMs = performance.now() - beganMs;
        end({ kind: "answer", ...head, body, tookMs }, head.headers.get("connection") !== "close");
      });
      const bytes = render(request);
      if (!isNew) socket.write(bytes);
      else {
        socket.on("connect", () => {
          isSent = true;
          socket.write(bytes);
        });
      }
    });
  }

  function close(): void {
    kept?.socket.destroy();
    kept = undefined;
  }

  return { ask, isConnected: () => kept !== undefined && !kept.socket.destroyed, close };
}

function render({ method, path, body, headers = {} }: Request): string {
  const text = body === undefined ? "" : JSON.stringify(body);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = `Content-Length: ${Buffer.byteLength(text)}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: claviger\r\n${lines.join("")}${length}\r\n${text}`;
}

function readHead(text: string): { status: number; headers: ReadonlyMap<string, string> } | undefined {
  const [first = "", ...lines] = text.split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1]);
  if (!Number.isInteger(status)) return undefined;
  const headers = lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
  });
  return { status, headers: new Map(headers) };
}

function readObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
