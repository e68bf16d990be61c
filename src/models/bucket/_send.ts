/** Sends a request to the server of a bucket. */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { AwsV4Signer } from "aws4fetch";
import { requestBounded } from "../../base/request_bounded.ts";
import { reasonOf } from "../../base/system_error.ts";
import { BucketFailure, REASONS } from "./_failure.ts";

export interface Connection {
  /** `https://HOST/BUCKET[/PREFIX]`, without a slash at its end. */
  readonly url: string;
  /** Who asks, as the server of the bucket knows it. */
  readonly access: {
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
    readonly region: string;
  };
  /** The certificates to trust, as PEM; by default those of the system. */
  readonly ca?: string | undefined;
  /** How long a request may take; by default so long that a part comes at 0.1 MB/s at least. */
  readonly limitMs?: number | undefined;
  /** Ends every request, which then throws the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

export interface BucketRequest {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/** The most bytes of an answer. A list of 1,000 objects takes half a megabyte. */
export const ANSWER_LIMIT_BYTES = 5 * 1024 * 1024;
const LIMIT_MS = 60_000;
/** The pauses before a request is sent again. */
const PAUSES_MS = [200, 1_000];

/** Sends a request, again after a failure that may pass. Returns a 404, too. Throws a {@linkcode BucketFailure}. */
export async function send(to: Connection, asked: BucketRequest): ReturnType<typeof exchange> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await sendOnce(to, asked);
    } catch (error) {
      if (!(error instanceof BucketFailure && error.isPassing)) throw error;
    }
    await sleep(pauseMs);
  }
  return await sendOnce(to, asked);
}

async function sendOnce(to: Connection, asked: BucketRequest): ReturnType<typeof exchange> {
  const answer = await exchange(to, asked);
  const { status, body } = answer;
  const code = status < 300 ? "" : (/<Code>(\w{1,100})<\/Code>/.exec(body.toString())?.[1] ?? "");
  if (status < 300 || (status === 404 && code !== "NoSuchBucket")) return answer;
  const known = REASONS[code] ?? REASONS[status];
  const isPassing = known === undefined && (status >= 500 || status === 429);
  throw new BucketFailure(to.url, known ?? `it answered ${status} ${code}`.trim(), { isPassing });
}

async function exchange(
  { url: bucketUrl, access, ca, limitMs = LIMIT_MS, signal }: Connection,
  asked: BucketRequest,
) {
  const { method, url, body = new Uint8Array() } = asked;
  const headers = await sign(access, asked);
  // A server that joins many parts sends nothing meanwhile.
  const limit = AbortSignal.timeout(method === "POST" ? 6 * limitMs : limitMs);
  const ended = signal ? AbortSignal.any([signal, limit]) : limit;
  try {
    const bounds = { ca, signal: ended, limitBytes: ANSWER_LIMIT_BYTES };
    return await requestBounded(url, { method, headers, body, ...bounds });
  } catch (error) {
    signal?.throwIfAborted();
    const why = limit.aborted ? "it does not answer in time" : reasonOf(error, REASONS);
    throw new BucketFailure(bucketUrl, why, { isPassing: true });
  }
}

/**
 * Returns the headers of a request with its signature, version 4. Every given header is signed, and the SHA-256 of the
 * body: the server refuses a body that arrives with another one.
 */
export async function sign(
  access: Connection["access"],
  { method, url, headers, body = new Uint8Array() }: BucketRequest,
  at = new Date(),
): Promise<Record<string, string>> {
  const bodySha256 = createHash("sha256").update(body).digest("hex");
  const signer = new AwsV4Signer({
    ...access,
    service: "s3",
    method,
    url,
    headers: { ...headers, "x-amz-content-sha256": bodySha256 },
    allHeaders: true,
    datetime: at.toISOString().replaceAll(/[:-]|\.\d{3}/g, ""),
  });
  return Object.fromEntries((await signer.sign()).headers);
}
