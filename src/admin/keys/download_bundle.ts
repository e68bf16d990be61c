/** The download of a bundle, for the API and the console: planned, exported and sent while it is read. */

import { InFlight } from "../../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { ExportRequest } from "../../licensing/signed_licenses/mod.ts";
import { nameBundle, planBundle, sealBundle } from "../../models/bundles/mod.ts";
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

/** So large that few parts ask for the right of the reader. Each leaves twice as much garbage. */
const PART_BYTES = 1024 * 1024;
const PARTS_BETWEEN_COLLECTIONS = 4;

interface BundleRequest extends Omit<ExportRequest, "nonce" | "licenseUuid"> {
  /** The names of the models; by default all that the license may load and that are hosted here. */
  readonly models?: readonly string[] | undefined;
  /** Whose license it is, for the name of the file. */
  readonly customer: { readonly email: string; readonly organization: string };
}

/** Exports the license of a key and answers its bundle. What is refused changes nothing. */
export async function downloadBundle(
  { models, customer, ...request }: BundleRequest,
  downloader: Downloader & {
    readonly options: Pick<AdminOptions, "modelsPlace" | "bundlesInFlight" | "licenseSigner">;
  },
): Promise<Response | Refusal> {
  const { database, modelsPlace: place, bundlesInFlight: inFlight, licenseSigner } = downloader.options;
  const { keyUuid, fingerprint, now } = request;
  const open = async () => {
    const plan = await planBundle(database, { place, keyUuid, models, now });
    if (isRefusal(plan)) return plan;
    const sealed = await sealBundle(licenseSigner, plan, request);
    return isRefusal(sealed) ? sealed : inParts(sealed.read());
  };
  const name = nameBundle({ ...customer, fingerprint, now }).replace(/\.tar$/, "");
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
