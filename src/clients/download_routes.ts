/**
 * Sends the files of hosted models. A client needs a signed link from the list, or a key in `X-API-Key`.
 *
 * The registry maps a name and a version to a file; a client's text never becomes a path on the disk. The bytes at
 * an address never change, so the file's SHA-256 is its strong tag, and a client that lost its connection continues
 * with `Range`.
 *
 * An answer with all bytes of a file counts against the rate limit each time, also when the client asked for the
 * range from 0. All other answers for a file, except refusals, count once in 15 minutes: a client that lost its
 * connection, or that loads a file in pieces, pays for one download. Refusals count each time.
 *
 * The number of downloads in progress is bounded for each key and for all keys together. Each download holds a
 * connection and an open file for as long as the client keeps reading.
 */

import { LRUCache } from "lru-cache";
import { toDay } from "../base/calendar.ts";
import type { FilePart } from "../base/platform/mod.ts";
import { InFlight } from "../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import type { LookUpOptions } from "../database/mod.ts";
import type { KeyRecord } from "../licensing/keys/mod.ts";
import { includesTier, isWithinUpdates } from "../licensing/mod.ts";
import { type FileProblem, type FoundVersion, type HostedFile, isHosted, toFileName } from "../models/mod.ts";
import { checkTag, type Eventually, readQuery } from "../wire/mod.ts";
import { isRangeWanted, parseRange } from "./byte_ranges.ts";
import type { CountOnce } from "./count_request.ts";
import { LINK_SECONDS, readLink } from "./download_link.ts";
import type { Exchange, Reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";

const NOT_FOUND = refuse("NOT_FOUND", "There is no such model and version");
const ELSEWHERE = refuse("NOT_FOUND", "The file is hosted elsewhere: use the download_url of the model list");
const DAMAGED = refuse("SERVER_ERROR", "The file of this model is damaged on the server");
const CANNOT_SEND = {
  coming: notNow("is being fetched", 5),
  unreachable: notNow("cannot be fetched now", 10),
  missing: notNow("is missing on this host", 60),
  unreadable: DAMAGED,
  changed: DAMAGED,
};
const OUT_OF_RANGE = refuse("RANGE_NOT_SATISFIABLE", "The file ends before the range begins");

const ALL_FULL = refuse(
  "SERVICE_UNAVAILABLE",
  "The service has reached its limit of downloads at once: try again in a moment",
);
const KEY_CROWDS_OTHERS = refuse(
  "RATE_LIMIT_EXCEEDED",
  "The service is nearly full, and this key has 16 or more downloads in progress: continue when one has ended",
);
/** A short time, because the end of a download cannot be predicted. */
const FULL_RETRY_SECONDS = 1;

/** The most bundles that are remembered. When there are more, requests of the oldest bundle count again. */
const MAX_LINKS = 50_000;

/**
 * Creates the handler that sends a model's file, or a range of it.
 *
 * One long function, because each step depends on whether the request was counted and must put the count right.
 */
export function download(deps: HandlerDeps): Handler {
  const { authenticator, clock, files, links } = deps;
  /**
   * The bundles that were counted, or wait to be counted. With `max` in place of `maxSize`, memory for all of them would
   * be taken at once.
   */
  const counted = new LRUCache<string, Eventually<boolean>>({
    maxSize: MAX_LINKS,
    sizeCalculation: () => 1,
    ttl: LINK_SECONDS * 1_000,
    perf: { now: () => clock.monotonicMs() },
  });
  const { downloadsPerKey, downloadsAtOnce } = deps;
  const keyFull = refuse(
    "RATE_LIMIT_EXCEEDED",
    `This key has ${downloadsPerKey} downloads in progress: continue when one of them has ended`,
  );
  const inFlight = new InFlight({ perSender: downloadsPerKey, inAll: downloadsAtOnce });

  return async (exchange, body) => {
    const { name = "", version = "", file: fileName } = exchange.context.req.param();
    const findFile = async (how?: LookUpOptions) => {
      const found = await files.find({ name, version }, authenticator.addressOf(exchange), how);
      return found === null || fileName === undefined || fileName === toFileName(found) ? found : null;
    };
    const query = readQuery(exchange.request);
    // If the request has a key in the header, the link's parameters are ignored.
    const link = exchange.request.headers.get("x-api-key") ? undefined : readLink(query);
    // Requests with the same text are one bundle: they load the same file with the same key and link.
    const bundleOf = ({ uuid }: KeyRecord) => `${uuid} ${name}/${version} ${link?.expires ?? ""}`;
    // True if this request was not counted, because an earlier request of its bundle was.
    let isCovered = false;
    const once: CountOnce = {
      wasCounted(record) {
        const wasCounted = counted.get(bundleOf(record)) ?? false;
        isCovered = wasCounted === true;
        return wasCounted;
      },
      // Added before the file is found, so that ranges that arrive at the same time count once.
      note(record, isCounted) {
        const bundle = bundleOf(record);
        if (isCounted === false) counted.delete(bundle);
        else counted.set(bundle, isCounted);
        if (!(isCounted instanceof Promise)) return;
        void isCounted.then((later) => counted.get(bundle) === isCounted && once.note(record, later));
      },
    };

    let record: KeyRecord | Refusal;
    let found: FoundVersion | null = null;
    if (link === undefined) {
      record = await authenticator.authenticate(exchange, "downloads", body, once);
    } else {
      // A request with a made-up link gets here before it is counted, so its look-up must be cheap.
      const isGathered = authenticator.isAddressFull(exchange, "downloads");
      found = link && (await findFile({ isGathered }));
      // A link to a missing file cannot have been signed by us: it is refused like every unsigned link.
      const isGood = link !== null && found !== null && isHosted(found) && links.isGood(link, found);
      const keyUuid = isGood ? link.keyUuid : null;
      record = await authenticator.authenticateLink(exchange, "downloads", keyUuid, once);
    }
    if (isRefusal(record)) return record;
    // A request that failed on our side is not counted, so the others of its bundle are not free.
    const forget = () => isCovered || counted.delete(bundleOf(record));
    try {
      found ??= await findFile();
    } catch (error) {
      forget();
      throw error;
    }
    const outcome = await choose(exchange, { record, found }, deps);
    if (isRefusal(outcome)) {
      forget();
      // A file that cannot be sent now is not counted: after the wait for it, no time to count may be left.
      if (!isCovered || outcome.code === "SERVICE_UNAVAILABLE") return outcome;
      return (await authenticator.countAfterAll(exchange, "downloads")) ?? outcome;
    }
    const { part, isWhole, ...head } = outcome;
    if (part === undefined || exchange.request.method === "HEAD") return outcome;
    let isRefused = false;
    const isOver = () => isRefused || exchange.isOver();
    const begun = inFlight.begin(record.uuid, { nowMs: clock.monotonicMs(), isOver });
    if (begun === "begun") {
      const refusal = isCovered && isWhole && (await authenticator.countAfterAll(exchange, "downloads"));
      if (!refusal) {
        return { ...head, body: { sizeBytes: part.end - part.first, content: deps.fileBody(part) } };
      }
      isRefused = true;
      return refusal;
    }
    if (begun === "all full") {
      forget();
      return ALL_FULL;
    }
    if (exchange.verdict !== undefined) {
      exchange.verdict = { ...exchange.verdict, retryAfterSeconds: FULL_RETRY_SECONDS };
    }
    return begun === "sender full" ? keyFull : KEY_CROWDS_OTHERS;
  };
}

/** An answer. If it has a file, `part` is the part to send; it is not open yet. */
interface Chosen extends Reply {
  readonly part?: FilePart;
  /** True if the part is the whole file. */
  readonly isWhole?: boolean;
}

interface Wanted {
  readonly record: KeyRecord;
  readonly found: FoundVersion | null;
}

function notNow(why: string, retryAfterSeconds: number): Refusal {
  return refuse(
    "SERVICE_UNAVAILABLE",
    `The file of this model ${why}: try again after the seconds in Retry-After`,
    { retryAfterSeconds },
  );
}

/** Chooses the answer for a request with a valid key: a refusal, a 304, the whole file or a range. */
async function choose(
  exchange: Exchange,
  { record, found }: Wanted,
  deps: HandlerDeps,
): Promise<Chosen | Refusal> {
  if (found === null) return NOT_FOUND;
  // Another customer's model gets the same answer as an unknown model: the answer must not show that it exists.
  if (found.ownerUuid !== null && found.ownerUuid !== record.accountUuid) return NOT_FOUND;
  const isCustom = found.ownerUuid !== null && record.hasCustomModels !== undefined;
  if (isCustom && !record.hasCustomModels) {
    return refuse(
      "LICENSE_REQUIRED",
      "The license does not have the feature custom_models, which this model requires",
    );
  }
  if (!isCustom && !includesTier(record.tier, found.requiresLicense)) {
    return refuse("LICENSE_REQUIRED", `The model requires the tier ${found.requiresLicense} or a higher one`);
  }
  if (!isWithinUpdates(found.registeredAt.getTime(), record.updatesUntilMs)) {
    const day = toDay(new Date(record.updatesUntilMs));
    return refuse(
      "LICENSE_REQUIRED",
      `The license has updates until ${day}, and this version was registered later; earlier versions stay available`,
    );
  }
  if (!isHosted(found)) return ELSEWHERE;
  const file = found;
  const { request } = exchange;
  const etag = `"${file.sha256}"`;
  const headers = { ETag: etag, "Accept-Ranges": "bytes" };
  const checked = checkTag(request.headers, etag);
  if (isRefusal(checked)) return checked;
  if (checked === "known") return { status: 304, body: "", headers };
  // A range is defined for GET only.
  const isPart = request.method === "GET" && isRangeWanted(request.headers.get("if-range"), etag);
  const range = isPart ? parseRange(request.headers.get("range"), file.sizeBytes) : "all";
  if (range === "none") {
    exchange.contentRange = `bytes */${file.sizeBytes}`;
    return OUT_OF_RANGE;
  }
  const [first, end] = range === "all" ? [0, file.sizeBytes] : [range.first, range.last + 1];
  const sizeBytes = end - first;
  const stored = await deps.servedFiles.locate(file, {
    holder: deps.holderSigner.sign([record.licenseUuid]),
    bytes: request.method === "HEAD" ? 0 : sizeBytes,
    isOver: () => exchange.isOver(),
  });
  if (isRefusal(stored)) return stored;
  if (typeof stored === "string") {
    if (stored !== "coming" && stored !== "unreachable") reportDamage(file, stored, deps);
    return CANNOT_SEND[stored];
  }
  const partHeaders = { "Content-Range": `bytes ${first}-${end - 1}/${file.sizeBytes}` };
  return {
    status: range === "all" ? 200 : 206,
    part: { path: stored.path, first, end },
    isWhole: sizeBytes === file.sizeBytes,
    body: { sizeBytes, content: null },
    headers: {
      ...headers,
      "Content-Type": "application/octet-stream",
      "Content-Disposition": toDisposition(toFileName(file)),
      ...(range !== "all" && partHeaders),
    },
  };
}

/**
 * Returns the `Content-Disposition` of a file. Clients read `"`, `%` and characters beyond ASCII in different ways, so
 * a name with one of these is also given in the encoded form. Source: RFC 6266.
 */
function toDisposition(fileName: string): string {
  const plain = fileName.replaceAll(/[^\x20-\x7e]|["%]/gu, "_");
  const encoded = encodeURIComponent(fileName).replaceAll(
    /['()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  const extended = plain === fileName ? "" : `; filename*=UTF-8''${encoded}`;
  return `attachment; filename="${plain}"${extended}`;
}

function reportDamage(
  { name, version, sha256 }: HostedFile,
  problem: FileProblem,
  { log }: HandlerDeps,
): void {
  const [why, mend] =
    problem === "missing"
      ? [
          "the file is missing on this host",
          "with several hosts, give all of them one folder (CLAVIGER_MODELS_DIR), or copy the file from a host that has it; " +
            "otherwise put it back from a backup",
        ]
      : [
          "the file is damaged",
          "put the same file back from a backup, or add it again with `claviger models add --file`, as a new version",
        ];
  log.error(
    `Cannot send the file of a model: ${why}; \`claviger models verify\` finds others`,
    { model: name, version, problem, sha256, mend },
    { kind: { model: name, version } },
  );
}
