/** The download of a bundle, for the API and the console: planned, compared, exported and sent while it is read. */

import { isHeld } from "../../audit/mod.ts";
import { InFlight } from "../../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { KeySummary } from "../../licensing/keys/mod.ts";
import type { ExportRequest } from "../../licensing/signed_licenses/mod.ts";
import { compareModels, nameBundle, planBundle, refuseNow, sealBundle } from "../../models/bundles/mod.ts";
import type { AdminOptions } from "../frame/options.ts";
import { type Downloader, streamDownload } from "../frame/stream_download.ts";

/** The most bundles at once: each holds a connection, an open file and some parts of it in memory. */
const AT_ONCE = 4;
/** One operator or token cannot take all of them. */
const AT_ONCE_EACH = 2;

const TOO_MANY = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many bundles are being downloaded: wait as Retry-After says",
  { retryAfterSeconds: 10 },
);

/** Creates the bound of the bundles in progress. */
export function createBundlesInFlight(): InFlight {
  return new InFlight({ perSender: AT_ONCE_EACH, inAll: AT_ONCE });
}

/** The connection is silent while the models are compared, so this is less than `IDLE_TIMEOUT_SECONDS`. */
const MOST_COMPARING_SECONDS = 20;
const TOO_SLOW = refuseNow(
  `its models could not be read within ${MOST_COMPARING_SECONDS} seconds; name fewer models, or use \`claviger bundle make\``,
);
const NOBODY_WAITS = refuseNow("its client has disconnected");

/** So large that few parts ask for the right of the reader. Each leaves twice as much garbage. */
const PART_BYTES = 1024 * 1024;
const PARTS_BETWEEN_COLLECTIONS = 4;

interface BundleRequest extends Omit<ExportRequest, "nonce" | "licenseUuid"> {
  /** The names of the models; by default all that the license may load and that are hosted here. */
  readonly models?: readonly string[] | undefined;
  readonly key: KeySummary;
}

/**
 * Exports the license of a key and answers its bundle. What is refused changes nothing: the models are read and compared before
 * the license is signed, and read once more while they are sent.
 */
export async function downloadBundle(
  { models, key, ...request }: BundleRequest,
  downloader: Downloader & {
    readonly options: Pick<AdminOptions, "modelsPlace" | "bundlesInFlight" | "licenseSigner">;
    readonly request: Request;
  },
): Promise<Response | Refusal> {
  const {
    database,
    clock,
    modelsPlace: place,
    bundlesInFlight: inFlight,
    licenseSigner,
  } = downloader.options;
  const { right, request: sent } = downloader;
  const { keyUuid, fingerprint, now } = request;
  // Taken before the work: a signal that is asked for later does not tell of a client that has left.
  const { signal } = sent;
  const open = async () => {
    // Before the models are read, which takes longer.
    const fingerprints = fingerprint === undefined ? [] : [fingerprint];
    const foreseen = await licenseSigner.foresee(key, { ...request, fingerprints });
    if (isRefusal(foreseen)) return foreseen;
    const plan = await planBundle(database, { place, keyUuid, models, now });
    if (isRefusal(plan)) return plan;
    const untilMs = clock.monotonicMs() + MOST_COMPARING_SECONDS * 1_000;
    const stop = () => {
      if (signal.aborted) return NOBODY_WAITS;
      return clock.monotonicMs() >= untilMs ? TOO_SLOW : undefined;
    };
    const wrong = (await compareModels(plan, { stop })) ?? stop();
    if (wrong !== undefined) return wrong;
    if (!(await isHeld(database, right, clock.now())))
      return refuse(right.lost.code, `Cannot make bundle: ${right.lost.why}`);
    const sealed = await sealBundle(licenseSigner, plan, request);
    return isRefusal(sealed) ? sealed : inParts(sealed.read());
  };
  const name = nameBundle({ ...key, fingerprint, now }).replace(/\.tar$/, "");
  const download = {
    ...{ what: "A bundle", name, ending: "tar", contentType: "application/x-tar" },
    ...{ inFlight, tooMany: TOO_MANY, partsBetweenCollections: PARTS_BETWEEN_COLLECTIONS, open },
  };
  return await streamDownload(download, downloader);
}

/** Copies chunks, which are valid until the next one, into parts of one size. */
async function* inParts(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, undefined> {
  let part = new Uint8Array(PART_BYTES);
  let size = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + PART_BYTES - size);
      part.set(piece, size);
      size += piece.length;
      at += piece.length;
      if (size < PART_BYTES) continue;
      yield part;
      part = new Uint8Array(PART_BYTES);
      size = 0;
    }
  }
  if (size > 0) yield part.subarray(0, size);
  return undefined;
}
