/** Writes HTTP directly to a socket, for requests that `fetch` refuses to send. */
import { connect } from "node:net";

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface RawOptions {
  /** How many answers to wait for; by default one. */
  readonly answers?: number;
  /** True if the answers have no body in spite of their length: for HEAD. */
  readonly bodiless?: boolean;
  /** Sent after the bytes, each after the pause. */
  readonly parts?: readonly string[];
  readonly pauseMs?: number;
}

const DEADLINE_MS = 10_000;

/**
 * Sends bytes on a new connection. Resolves with the answers as soon as `answers` have arrived, or with fewer if
 * the peer closes the connection; rejects if the peer neither answers nor closes.
 */
export function sendRaw(
  url: string,
  bytes: string | Uint8Array,
  { answers = 1, bodiless = false, parts = [], pauseMs = 0 }: RawOptions = {},
): Promise<RawAnswer[]> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let received = "";
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const timers = parts.map((part, at) => setTimeout(() => socket.write(part), (at + 1) * pauseMs));
    const settle = (finish: () => void) => {
      for (const each of [timer, ...timers]) clearTimeout(each);
      socket.destroy();
      finish();
    };
    const timer = setTimeout(
      () => settle(() => reject(new Error(`No answer in ${DEADLINE_MS} ms: ${JSON.stringify(received)}`))),
      DEADLINE_MS,
    );
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      const parsed = parseAnswers(received, bodiless);
      if (parsed.length >= answers) settle(() => resolve(parsed));
    });
    socket.on("close", () => settle(() => resolve(parseAnswers(received, bodiless))));
    // The answers that arrived before the peer closed the connection still count.
    socket.on("error", () => {});
  });
}

/** Sends the beginning of a request and closes the connection. */
export function hangUpAfter(url: string, bytes: string): Promise<void> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(bytes);
      // The service does not show when it has read the bytes, so give it time to read them.
      setTimeout(() => socket.destroy(), 50);
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve());
  });
}

/** Splits a body into chunks of 8 KiB. */
export function toChunks(body: string): string {
  let chunks = "";
  for (let at = 0; at < body.length; at += 8_192) {
    const chunk = body.slice(at, at + 8_192);
    chunks += `${chunk.length.toString(16)}\r\n${chunk}\r\n`;
  }
  return `${chunks}0\r\n\r\n`;
}

/** Returns the body at the beginning of what was received, and the bytes that it takes; undefined if it is not complete. */
function readBody(headers: Headers, received: string): { text: string; bytes: number } | undefined {
  if (headers.get("transfer-encoding") !== "chunked") {
    const bytes = Number(headers.get("content-length") ?? 0);
    return received.length < bytes ? undefined : { text: received.slice(0, bytes), bytes };
  }
  let text = "";
  let at = 0;
  for (;;) {
    const lineEnd = received.indexOf("\r\n", at);
    const size = Number.parseInt(received.slice(at, lineEnd), 16);
    if (lineEnd === -1 || Number.isNaN(size)) return undefined;
    const chunkAt = lineEnd + 2;
    at = chunkAt + size + 2;
    if (received.length < at) return undefined;
    if (size === 0) return { text, bytes: at };
    text += received.slice(chunkAt, chunkAt + size);
  }
}

/** Returns the complete answers in the received bytes, without the interim ones (1xx). */
function parseAnswers(received: string, bodiless: boolean): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let at = 0;
  for (;;) {
    const headEnd = received.indexOf("\r\n\r\n", at);
    if (headEnd === -1) return answers;
    const [statusLine = "", ...lines] = received.slice(at, headEnd).split("\r\n");
    const status = Number(statusLine.split(" ")[1]);
    const headers = new Headers(lines.map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
    const begin = headEnd + 4;
    const body = bodiless ? { text: "", bytes: 0 } : readBody(headers, received.slice(begin));
    if (body === undefined) return answers;
    at = begin + body.bytes;
    if (status >= 200) answers.push({ status, headers, text: body.text });
  }
}
