import type { Actor, Right } from "../../audit/mod.ts";
import { InFlight } from "../../base/rate_limits/mod.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { AdminOptions } from "./options.ts";
import { streamDownload } from "./stream_download.ts";

/** The most answers at once: each holds rows in memory until its client has received them. */
const AT_ONCE = 8;
/** One operator or token cannot take all of them. */
const AT_ONCE_EACH = 3;

/** Each part leaves about 2 MB of garbage, which would grow to 100 MB without a collection. */
const PARTS_BETWEEN_COLLECTIONS = 3;

const TOO_MANY = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many lists are being downloaded as CSV: wait as Retry-After says",
  { retryAfterSeconds: 5 },
);

/** Creates the bound of the answers in progress. */
export function createCsvInFlight(): InFlight {
  return new InFlight({ perSender: AT_ONCE_EACH, inAll: AT_ONCE });
}

interface CsvSource {
  /** The name of the file, without its ending. */
  readonly name: string;
  /** The text in parts, at least one; each is rendered when it is asked for. */
  readonly parts: AsyncGenerator<string, undefined>;
  /** Begins the file with the byte order mark by which Excel recognises UTF-8. */
  readonly hasMark?: boolean;
}

/** Takes `bom=1`, which asks for a byte order mark, out of a query: the rest are conditions of the list. */
export function splitMark(query: URLSearchParams) {
  const conditions = new URLSearchParams(query);
  conditions.delete("bom");
  return { conditions, hasMark: query.has("bom") };
}

/** Who downloads a list. */
interface CsvReader {
  readonly options: Pick<AdminOptions, "log" | "clock" | "database" | "csvInFlight" | "collectGarbage">;
  readonly actor: Actor;
  /** Asked before each part but the first: a list can take hours. */
  readonly right: Right;
}

/** Answers a list as comma-separated values, as {@linkcode streamDownload} answers a file. */
export async function streamCsv(
  { name, parts, hasMark = false }: CsvSource,
  reader: CsvReader,
): Promise<Response | Refusal> {
  async function* encodeParts() {
    const encoder = new TextEncoder();
    let mark = hasMark ? "\ufeff" : "";
    for await (const part of parts) {
      yield encoder.encode(mark + part);
      mark = "";
    }
    return undefined;
  }
  const download = {
    ...{ what: "A CSV", name, ending: "csv", contentType: "text/csv; charset=utf-8" },
    inFlight: reader.options.csvInFlight,
    tooMany: TOO_MANY,
    partsBetweenCollections: PARTS_BETWEEN_COLLECTIONS,
    open: async () => encodeParts(),
  };
  return await streamDownload(download, reader);
}
