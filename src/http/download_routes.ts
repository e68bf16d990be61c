/**
 * The files of hosted models: by a signed link of the list, or with a key in `X-API-Key`.
 *
 * A name and a version lead to a file through the registry alone. The bytes under an address never change,
 * so the file's SHA-256 is its strong tag, and whoever was cut off goes on by `Range`.
 *
 * An answer with all bytes of a file counts against the limit each time, also when the client asked for the
 * range from 0. All other answers on a file, except refusals, count once in 15 minutes: a client that was cut
 * off, or that loads a file in pieces, pays for one download. Refusals count each time.
 * How many answers are on their way at once is bounded for each key and in all, since each holds a connection
 * and an open file for as long as its reader likes.
 */
import type { KeyRecord } from "../keys/mod.ts";
import { includesTier } from "../licensing/mod.ts";
import { CountedOnce, InFlight } from "../limits/mod.ts";
import {
  type FileProblem,
  type FindOptions,
  type FoundVersion,
  type HostedFile,
  isHosted,
  locateFile,
  toFileName,
} from "../models/mod.ts";
import type { FilePart } from "../platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import type { CountOnce } from "./authenticate.ts";
import { isKnown, isRangeWanted, parseRange } from "./byte_ranges.ts";
import { LINK_SECONDS, readLink } from "./download_link.ts";
import type { Exchange, Reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { readQuery } from "./target.ts";

const NOT_FOUND = refuse("NOT_FOUND", "There is no such model and version");
const ELSEWHERE = refuse("NOT_FOUND", "The file is hosted elsewhere: use the download_url of the model list");
const DAMAGED = refuse("SERVER_ERROR", "The file of this model is damaged on the server");
const OUT_OF_RANGE = refuse("RANGE_NOT_SATISFIABLE", "The file ends before the range begins");

const ALL_FULL = refuse(
  "SERVICE_UNAVAILABLE",
  "As many downloads are under way as the service may have at once: try again in a moment",
);
const KEY_CROWDS_OTHERS = refuse(
  "RATE_LIMIT_EXCEEDED",
  "The service is nearly full, and this key has 16 downloads or more under way: go on when one of them has ended",
);
/** Nobody knows when a download will end. */
const FULL_RETRY_SECONDS = 1;

/** Links whose ranges are remembered: beyond so many the oldest ones' count again. */
const MAX_LINKS = 50_000;

export function download(deps: HandlerDeps): Handler {
  const { authenticator, clock, files, links } = deps;
  const counted = new CountedOnce({ ageMs: LINK_SECONDS * 1_000, capacity: MAX_LINKS });
  const { downloadsPerKey, downloadsAtOnce } = deps;
  const keyFull = refuse(
    "RATE_LIMIT_EXCEEDED",
    `This key has ${downloadsPerKey} downloads under way: go on when one of them has ended`,
  );
  const inFlight = new InFlight({ perSender: downloadsPerKey, inAll: downloadsAtOnce });

  return async (exchange, body) => {
    const { name = "", version = "", file: fileName } = exchange.context.req.param();
    const findFile = async (how?: FindOptions) => {
      const found = await files.find(name, version, how);
      return found === null || fileName === undefined || fileName === toFileName(found) ? found : null;
    };
    const query = readQuery(exchange.request);
    // A key in the header is what counts where both are: then the rest of the address says nothing.
    const link = exchange.request.headers.get("x-api-key") ? undefined : readLink(query);
    // What the ranges of one file have in common, for one key.
    const bundleOf = ({ uuid }: KeyRecord) => `${uuid} ${name}/${version} ${link?.expires ?? ""}`;
    // Whether this request was not counted, because an earlier one of its bundle was.
    let isCovered = false;
    const once: CountOnce = {
      wasCounted(record) {
        isCovered = counted.has(bundleOf(record), clock.monotonicMs());
        return isCovered;
      },
      // Noted before the file is found: ranges that arrive at the same time count once.
      note: (record) => counted.add(bundleOf(record), clock.monotonicMs()),
    };

    let record: KeyRecord | Refusal;
    let found: FoundVersion | null = null;
    if (link === undefined) {
      record = await authenticator.authenticate(exchange, "downloads", body, once);
    } else {
      // A stranger with a made-up link gets here before anything is counted.
      const isGathered = authenticator.isAddressFull(exchange, "downloads");
      found = link && (await findFile({ isGathered }));
      // A link to what is not there cannot have been signed: it is refused as any other that was not.
      const isGood = link !== null && found !== null && isHosted(found) && links.isGood(link, found);
      const keyUuid = isGood ? link.keyUuid : null;
      record = await authenticator.authenticateLink(exchange, "downloads", keyUuid, once);
    }
    if (isRefusal(record)) return record;
    // What failed on our side is not counted, and so stands for nothing.
    const forget = () => isCovered || counted.forget(bundleOf(record));
    try {
      found ??= await findFile();
    } catch (error) {
      forget();
      throw error;
    }
    const outcome = await choose(exchange, { record, found }, deps);
    if (isRefusal(outcome)) {
      if (isCovered) return authenticator.countAfterAll(exchange, "downloads") ?? outcome;
      counted.forget(bundleOf(record));
      return outcome;
    }
    const { part, isWhole, ...head } = outcome;
    if (part === undefined || exchange.request.method === "HEAD") return outcome;
    let isRefused = false;
    const begun = inFlight.begin(record.uuid, {
      nowMs: clock.monotonicMs(),
      // The other end is known for as long as the answer is on its way.
      isOver: () => isRefused || exchange.peerAddress() === "",
    });
    if (begun === "begun") {
      const refusal = isCovered && isWhole && authenticator.countAfterAll(exchange, "downloads");
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

/** An answer, and of a file the part that it has, which is not open yet. */
interface Chosen extends Reply {
  readonly part?: FilePart;
  /** Whether the part is the whole file. */
  readonly isWhole?: boolean;
}

interface Wanted {
  readonly record: KeyRecord;
  readonly found: FoundVersion | null;
}

async function choose(
  exchange: Exchange,
  { record, found }: Wanted,
  deps: HandlerDeps,
): Promise<Chosen | Refusal> {
  if (found === null) return NOT_FOUND;
  // Another customer's model is answered as an unknown one: otherwise strangers could find out its name.
  if (found.ownerUuid !== null && found.ownerUuid !== record.accountUuid) return NOT_FOUND;
  if (!includesTier(record.tier, found.requiresLicense)) {
    return refuse("LICENSE_REQUIRED", `The model asks for the tier ${found.requiresLicense} or a higher one`);
  }
  if (!isHosted(found)) return ELSEWHERE;
  const file = found;
  const { request } = exchange;
  const etag = `"${file.sha256}"`;
  const headers = { ETag: etag, "Accept-Ranges": "bytes" };
  if (isKnown(request.headers.get("if-none-match"), etag)) return { status: 304, body: "", headers };
  const stored = await locateFile(deps.modelsFolder, file);
  if (typeof stored === "string") {
    reportDamage(file, stored, deps);
    return DAMAGED;
  }
  const bytes = (first: number, end: number) => ({
    part: { path: stored.path, first, end },
    isWhole: end - first === file.sizeBytes,
    body: { sizeBytes: end - first, content: null },
  });
  const whole: Chosen = {
    status: 200,
    ...bytes(0, file.sizeBytes),
    headers: {
      ...headers,
      "Content-Type": "application/octet-stream",
      "Content-Disposition": toDisposition(toFileName(file)),
    },
  };
  // A range is defined for GET alone.
  if (request.method !== "GET" || !isRangeWanted(request.headers.get("if-range"), etag)) return whole;
  const range = parseRange(request.headers.get("range"), file.sizeBytes);
  if (range === "all") return whole;
  if (range === "none") {
    exchange.contentRange = `bytes */${file.sizeBytes}`;
    return OUT_OF_RANGE;
  }
  const { first, last } = range;
  return {
    status: 206,
    ...bytes(first, last + 1),
    headers: { ...whole.headers, "Content-Range": `bytes ${first}-${last}/${file.sizeBytes}` },
  };
}

/** Source: RFC 6266. What some clients read otherwise (`"`, `%`, all beyond ASCII) is given in the second form. */
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
  log.error(
    "The file of a model cannot be sent: `claviger models verify` tells which others",
    {
      model: name,
      version,
      problem,
      sha256,
      mend: "put the same file back by `claviger models add --file` under a new version, or from a backup",
    },
    { kind: { model: name, version } },
  );
}
