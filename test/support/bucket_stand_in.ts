/**
 * A server of buckets for tests: keeps objects in memory, refuses a request whose signature or body is wrong, and fails
 * in the ways that a test sets. The signature is computed here by the specification, without the program's own library.
 */
import { createHash, createHmac, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";

/** How the server fails. `silent` never answers, `cut` sends half of an object and closes the connection. */
export type BucketFault = "none" | "silent" | "cut" | "failing" | "throttling" | "full" | "wrong bytes";

export interface BucketStandIn {
  /** The address of the bucket, with a prefix. */
  readonly url: string;
  /** The text of a file with its credentials. */
  readonly credentials: string;
  /** The objects, by their names below the bucket. */
  readonly objects: Map<string, { bytes: Buffer; changedAt: Date }>;
  /** The uploads by parts that have begun and not ended. */
  readonly uploads: ReadonlyMap<string, Map<number, Buffer>>;
  /** Each request as `METHOD path?query`. */
  readonly requests: string[];
  fault: BucketFault;
  /** Before each answer waits so long. */
  delayMs: number;
  /** Stops to listen, and listens at the same port again. */
  goAway(): Promise<void>;
  comeBack(): Promise<void>;
  close(): Promise<void>;
}

export const ACCESS_KEY_ID = "AKIATESTTESTTEST";
export const SECRET_ACCESS_KEY = "test/secret+access/key";
export const REGION = "eu-test-1";
const BUCKET = "models";
const PREFIX = "claviger/files";

export interface StandInOptions {
  readonly tls?: { readonly cert: string; readonly key: string };
  /** How many objects a list has at most in one answer. */
  readonly pageSize?: number;
}

export async function startBucketStandIn({
  tls,
  pageSize = 1_000,
}: StandInOptions = {}): Promise<BucketStandIn> {
  const objects: BucketStandIn["objects"] = new Map();
  const uploads = new Map<string, Map<number, Buffer>>();
  const requests: string[] = [];
  const state = { fault: "none" as BucketFault, delayMs: 0 };

  async function answer(request: Request, body: Buffer): Promise<Response> {
    const url = new URL(request.url);
    requests.push(`${request.method} ${url.pathname}${url.search}`);
    if (state.delayMs > 0) await Bun.sleep(state.delayMs);
    if (state.fault === "silent") await new Promise(() => {});
    if (state.fault === "failing") return refuse(500, "InternalError");
    if (state.fault === "throttling") return refuse(429, "TooManyRequests");
    const wrong = findWrongSignature(request, body);
    if (wrong !== undefined) return refuse(403, wrong);
    const [, bucket, key] = /^\/([^/]+)\/?(.*)$/.exec(url.pathname) ?? [];
    if (bucket !== BUCKET) return refuse(404, "NoSuchBucket");
    if (key === "" || key === undefined) return list(url.searchParams);
    return change(request, { key, body, query: url.searchParams });
  }

  function list(query: URLSearchParams): Response {
    const prefix = query.get("prefix") ?? "";
    const after = readToken(query.get("continuation-token"));
    if (after === undefined) return refuse(400, "InvalidArgument");
    const size = Math.min(pageSize, Number(query.get("max-keys") ?? 1_000));
    const names = [...objects.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
    const page = names.slice(0, size);
    const contents = page.map((name) => {
      const object = objects.get(name);
      return (
        `<Contents><Key>${name}</Key><LastModified>${object?.changedAt.toISOString()}</LastModified>` +
        `<Size>${object?.bytes.length}</Size></Contents>`
      );
    });
    const isTruncated = names.length > page.length;
    const next = isTruncated
      ? `<NextContinuationToken>${writeToken(page.at(-1))}</NextContinuationToken>`
      : "";
    return xml(
      `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${contents.join("")}${next}</ListBucketResult>`,
    );
  }

  function change(
    request: Request,
    { key, body, query }: { key: string; body: Buffer; query: URLSearchParams },
  ): Response {
    const upload = query.get("uploadId");
    const parts = uploads.get(upload ?? "");
    const isWrite = request.method === "PUT" || request.method === "POST";
    if (isWrite && state.fault === "full") return refuse(507, "InsufficientStorage");
    if (isWrite && state.fault === "wrong bytes" && body.length > 0 && request.method === "PUT")
      body[0] = 255 - (body[0] ?? 0);
    switch (request.method) {
      case "POST": {
        if (query.has("uploads")) {
          const id = randomBytes(8).toString("hex");
          uploads.set(id, new Map());
          return xml(
            `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
          );
        }
        if (parts === undefined) return refuse(404, "NoSuchUpload");
        const named = [
          ...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"([^"]*)"<\/ETag>/g),
        ];
        const bytes: Buffer[] = [];
        for (const [, number, tag] of named) {
          const part = parts.get(Number(number));
          if (part === undefined || tagOf(part) !== `"${tag}"`) return refuse(400, "InvalidPart");
          bytes.push(part);
        }
        if (bytes.slice(0, -1).some(({ length }) => length < 5 * 1024 * 1024))
          return refuse(400, "EntityTooSmall");
        objects.set(key, { bytes: Buffer.concat(bytes), changedAt: new Date() });
        uploads.delete(upload ?? "");
        return xml("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>");
      }
      case "PUT":
        if (upload === null) objects.set(key, { bytes: body, changedAt: new Date() });
        else if (parts === undefined) return refuse(404, "NoSuchUpload");
        else parts.set(Number(query.get("partNumber")), body);
        return new Response(null, { headers: { ETag: tagOf(body) } });
      case "DELETE":
        if (upload === null) objects.delete(key);
        else uploads.delete(upload);
        return new Response(null, { status: 204 });
      default:
        return send(request, key);
    }
  }

  function send(request: Request, key: string): Response {
    const bytes = objects.get(key)?.bytes;
    if (bytes === undefined) return refuse(404, "NoSuchKey");
    const [, first = "0", last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.get("range") ?? "") ?? [];
    const part = bytes.subarray(Number(first), last === undefined ? undefined : Number(last) + 1);
    if (last !== undefined && part.length === 0) return refuse(416, "InvalidRange");
    const headers = { "Content-Length": String(part.length) };
    if (request.method === "HEAD") return new Response(null, { headers });
    return new Response(new Uint8Array(part), { status: last === undefined ? 200 : 206, headers });
  }

  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method = "", headers, url } = incoming;
    const body = Buffer.concat(await Array.fromAsync(incoming).catch(() => []));
    const request = new Request(`http://${headers.host}${url}`, {
      method,
      headers: new Headers(headers as Record<string, string>),
    });
    const response = await answer(request, body);
    const bytes = Buffer.from(await response.arrayBuffer());
    outgoing.writeHead(response.status, {
      "content-length": bytes.length,
      ...Object.fromEntries(response.headers),
    });
    if (state.fault !== "cut" || method !== "GET") outgoing.end(bytes);
    else outgoing.write(bytes.subarray(0, bytes.length / 2), () => outgoing.destroy());
  };
  const server = tls ? createSecureServer(tls, handle) : createServer(handle);
  const listen = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, "127.0.0.1", () => resolve()));
  const goAway = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    url: `${tls ? "https://localhost" : "http://127.0.0.1"}:${port}/${BUCKET}/${PREFIX}`,
    credentials: `[default]\naws_access_key_id = ${ACCESS_KEY_ID}\naws_secret_access_key = ${SECRET_ACCESS_KEY}\n`,
    objects,
    uploads,
    requests,
    get fault() {
      return state.fault;
    },
    set fault(fault) {
      state.fault = fault;
    },
    get delayMs() {
      return state.delayMs;
    },
    set delayMs(ms) {
      state.delayMs = ms;
    },
    goAway,
    comeBack: () => listen(port),
    close: goAway,
  };
}

/** Returns the name of an object in the bucket for a file with that SHA-256. */
export function objectOf(sha256: string): string {
  return `${PREFIX}/${sha256.slice(0, 2)}/${sha256}`;
}

/** In every token of a list, as in the base64 of other servers: what has another meaning in a query. */
const TOKEN_START = "a+b/c=&amp;";

function writeToken(name = ""): string {
  return TOKEN_START + Buffer.from(name).toString("base64");
}

/** Returns the name in a token, or "" without a token; undefined if it is not as {@linkcode writeToken} wrote it. */
function readToken(token: string | null): string | undefined {
  if (token === null) return "";
  const start = TOKEN_START.replace("&amp;", "&");
  return token.startsWith(start) ? Buffer.from(token.slice(start.length), "base64").toString() : undefined;
}

function tagOf(bytes: Buffer): string {
  return `"${createHash("md5").update(bytes).digest("hex")}"`;
}

function xml(text: string): Response {
  return new Response(`<?xml version="1.0" encoding="UTF-8"?>\n${text}`, {
    headers: { "Content-Type": "application/xml" },
  });
}

function refuse(status: number, code: string): Response {
  const response = xml(`<Error><Code>${code}</Code><Message>no</Message></Error>`);
  return new Response(response.body, { status, headers: response.headers });
}

/** Returns the code of the refusal; undefined if the request is signed as the specification says. */
function findWrongSignature(request: Request, body: Buffer): string | undefined {
  const pattern =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/;
  const [, id, day = "", region = "", names = "", given] =
    pattern.exec(request.headers.get("authorization") ?? "") ?? [];
  if (given === undefined) return "AccessDenied";
  if (id !== ACCESS_KEY_ID) return "InvalidAccessKeyId";
  if (region !== REGION) return "AuthorizationHeaderMalformed";
  const at = request.headers.get("x-amz-date") ?? "";
  const signedAt = Date.parse(at.replace(/^(....)(..)(..T..)(..)(..Z)$/, "$1-$2-$3:$4:$5"));
  if (!(Math.abs(Date.now() - signedAt) < 15 * 60_000)) return "RequestTimeTooSkewed";
  const sum = createHash("sha256").update(body).digest("hex");
  if (request.headers.get("x-amz-content-sha256") !== sum) return "XAmzContentSHA256Mismatch";
  for (const needed of ["host", "x-amz-content-sha256", "x-amz-date"]) {
    if (!names.split(";").includes(needed)) return "AccessDenied";
  }
  const url = new URL(request.url);
  const query = [...url.searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join("&");
  const headers = names.split(";").map((name) => `${name}:${request.headers.get(name)?.trim()}\n`);
  const canonical = [request.method, url.pathname, query, headers.join(""), names, sum].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const digest = createHash("sha256").update(canonical).digest("hex");
  const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest();
  const key = [day, region, "s3", "aws4_request"].reduce<string | Buffer>(hmac, `AWS4${SECRET_ACCESS_KEY}`);
  const right = hmac(key, ["AWS4-HMAC-SHA256", at, scope, digest].join("\n")).toString("hex");
  return right === given ? undefined : "SignatureDoesNotMatch";
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
