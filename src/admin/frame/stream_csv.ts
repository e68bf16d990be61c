import { type Actor, isHeld, nameOfActor, type Right } from "../../audit/mod.ts";
import { InFlight } from "../../base/rate_limits/mod.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { renderFailureCause } from "../../database/mod.ts";
import type { AdminOptions } from "./options.ts";

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

/**
 * Answers a list as comma-separated values. The next part is read after the client has received the previous part, so
 * neither a long list nor a slow client uses much memory. A client that disconnects ends the reading, and so does the loss of
 * the right to the list.
 */
export async function streamCsv(
  { name, parts, hasMark = false }: CsvSource,
  { options, actor, right }: CsvReader,
): Promise<Response | Refusal> {
  const { log, clock, database, csvInFlight, collectGarbage } = options;
  let isOver = false;
  const begun = csvInFlight.begin(nameOfActor(actor), { nowMs: clock.monotonicMs(), isOver: () => isOver });
  if (begun !== "begun") return TOO_MANY;
  async function* encodeParts() {
    const encoder = new TextEncoder();
    let sent = 0;
    let mark = hasMark ? "\ufeff" : "";
    try {
      for await (const part of parts) {
        if (sent > 0 && !(await isHeld(database, right, clock.now()))) throw new Error(right.lost.why);
        yield encoder.encode(mark + part);
        mark = "";
        if (++sent % PARTS_BETWEEN_COLLECTIONS === 0) collectGarbage?.();
      }
    } finally {
      isOver = true;
    }
  }
  const encoded = encodeParts();
  // Read before the answer begins, so that a failure still gets its own status.
  let part = await encoded.next();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (part.done) return controller.close();
      controller.enqueue(part.value);
      part = await encoded.next().catch((error) => {
        // The status is sent already: the client sees that the connection is closed too early.
        log.warn("A CSV ended too early", { name, reason: renderFailureCause(error) });
        throw error;
      });
    },
    cancel: () => encoded.return().then(() => {}),
  });
  return new Response(stream, {
    headers: {
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": `attachment; filename="${name}.csv"`,
    },
  });
}
