/**
 * A service whose answers a test chooses for each path, also with a connection that breaks off, and licenses that it could
 * have signed. For what the clients of the page `sdk` do beside taking places.
 */
import { sign } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { generateKeyPair } from "../../src/licensing/signed_licenses/jws.ts";
import { toJwk } from "../../src/licensing/signed_licenses/mod.ts";

export interface FakeRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The fields of the body; none if it has none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape.
  readonly fields: any;
}

export interface FakeAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object | Uint8Array;
  /** The connection breaks off after so many bytes of the body. */
  readonly cutAfter?: number;
  /** Whether the answer does not say its length. */
  readonly isChunked?: boolean;
}

/** "close": the connection is closed without an answer. */
export type Answering = (request: FakeRequest) => FakeAnswer | "close";

export interface FakeService extends Disposable {
  readonly url: string;
  readonly requests: FakeRequest[];
  /** Chooses the answers to a path. A path without an answer is closed. */
  on(path: string, answering: Answering): void;
  /** The requests for a path. */
  to(path: string): FakeRequest[];
}

export async function startFakeService(): Promise<FakeService> {
  const answers = new Map<string, Answering>();
  const requests: FakeRequest[] = [];
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const path = (incoming.url ?? "").split("?")[0] ?? "";
      const text = Buffer.concat(chunks).toString();
      const fields = text === "" ? {} : JSON.parse(text);
      const request = { method: incoming.method ?? "", path, headers: incoming.headers, fields };
      requests.push(request);
      const answer = answers.get(path)?.(request) ?? "close";
      if (answer === "close") return incoming.socket.destroy();
      const { status = 200, headers = {}, body = {}, cutAfter, isChunked = false } = answer;
      const bytes = body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
      const length = isChunked ? {} : { "Content-Length": bytes.length };
      outgoing.writeHead(status, { ...length, Connection: "close", ...headers });
      if (cutAfter === undefined) return outgoing.end(bytes);
      // The bytes have to leave before the connection is closed.
      return outgoing.write(bytes.subarray(0, cutAfter), () =>
        setTimeout(() => incoming.socket.destroy(), 50),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    on: (path, answering) => void answers.set(path, answering),
    to: (path) => requests.filter((request) => request.path === path),
    [Symbol.dispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Answers one after the other, and then with the last one again and again. */
export function inOrder(...answers: readonly (FakeAnswer | "close")[]): Answering {
  const left = [...answers];
  return () => (left.length > 1 ? left.shift() : left[0]) ?? "close";
}

/** An error of the service. */
export function refusedWith(status: number, code: string, headers = {}): FakeAnswer {
  return { status, headers, body: { error: `The sentence of ${code}`, code } };
}

export const VALID = {
  valid: true,
  license_type: "research",
  features: ["streaming", "training"],
  quota: { monthly_limit: 100, used: 1, remaining: 99, resets_at: "2030-01-01T00:00:00Z" },
  expires_at: "2099-01-01T00:00:00Z",
  entitlements: { channels: 64 },
};

/** Answers a batch: every event is counted, except those that the test refuses. */
export function countEvents(
  // biome-ignore lint/suspicious/noExplicitAny: tests read events of every shape.
  refuse: (event: any) => string | undefined = () => undefined,
): Answering {
  return ({ fields }) => ({
    body: {
      results: fields.events.map((event: object, index: number) => {
        const code = refuse(event);
        if (code !== undefined) return { logged: false, code, error: `The sentence of ${code}` };
        const quota = { used: index + 1, remaining: null };
        return { logged: true, event_id: `evt_${"0".repeat(31)}1`, month: "2026-11", quota };
      }),
    },
  });
}

const pair = generateKeyPair();

/** The keys that a client pins. */
export const PINNED_KEYS = { keys: [toJwk(pair.publicKey)] };
export const KEY_ID = "key_01a2038780767b698ef799a812850002";

/** Signs a license of seven days for the machine `workstation-7`. */
export function signLicense(more: object = {}): string {
  const now = Math.floor(Date.now() / 1_000);
  const times = { iat: now, nbf: now, exp: now + 604_800, refresh_after: now + 302_400 };
  const claims = {
    ...{ aud: "svc", key_id: KEY_ID, fingerprint: "workstation-7", license_type: "research" },
    ...{ features: ["streaming"], entitlements: { channels: 8, region: "eu" }, ...times, ...more },
  };
  return signAs("license", claims);
}

/** Signs a license, or the manifest of a bundle. */
export function signAs(kind: "license" | "bundle", claims: object): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${encode({ alg: "EdDSA", typ: `${kind}+jwt`, kid: pair.kid })}.${encode(claims)}`;
  return `${text}.${sign(null, Buffer.from(text), pair.privateKey).toString("base64url")}`;
}

/** The answer to a request for a license. */
export function licenseAnswer(license: string): FakeAnswer {
  return { body: { license, expires_at: "x", refresh_after: "x", kid: pair.kid } };
}

/** The file of a model at `/file/…`, which serves ranges as the service does. */
export function serveFile(
  bytes: Uint8Array,
  etag: string,
  cuts: readonly (number | undefined)[] = [],
): Answering {
  const left = [...cuts];
  return ({ headers }) => {
    const cut = left.shift();
    const cutAfter = cut === undefined ? {} : { cutAfter: cut };
    const [, first] = /^bytes=(\d+)-$/.exec(headers.range ?? "") ?? [];
    if (first === undefined || headers["if-range"] !== etag)
      return { headers: { ETag: etag }, body: bytes, ...cutAfter };
    const from = Number(first);
    if (from >= bytes.length)
      return { ...refusedWith(416, "RANGE_NOT_SATISFIABLE", { "Content-Range": `bytes */${bytes.length}` }) };
    const range = { ETag: etag, "Content-Range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
    return { status: 206, headers: range, body: bytes.subarray(from), ...cutAfter };
  };
}

/** A model of the list, whose file is at `/file/NAME.onnx` of the service. */
export function modelOf(name: string, url: string, bytes: Uint8Array, more: object = {}) {
  return {
    ...{ name, version: "1.0.0", type: "SvcLDA", size_mb: bytes.length / 1e6, requires_license: "free" },
    ...{ download_url: `${url}/file/${name}.onnx?key=k&signature=s`, metadata: {} },
    checksum: `sha256:${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}`,
    ...more,
  };
}

export function listOf(...models: readonly object[]): FakeAnswer {
  return { body: { models, total: models.length } };
}
