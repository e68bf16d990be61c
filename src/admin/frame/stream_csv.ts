import { type Actor, nameOfActor } from "../../audit/mod.ts";
import { InFlight } from "../../limits/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import { reasonOf } from "../../system_error.ts";
import type { AdminOptions } from "./options.ts";

/** The most rows of one statement. */
const ROWS = 1_000;
/** The most rows of the first statement: few, so that the answer begins soon. */
const FIRST_ROWS = 100;
/** The most answers at once: each holds rows in memory until its client has received them. */
const AT_ONCE = 8;
/** One operator or token cannot take all of them. */
const AT_ONCE_EACH = 3;

const TOO_MANY = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many lists are being downloaded as CSV: wait as Retry-After says",
  {
    retryAfterSeconds: 5,
  },
);

/** Creates the bound of the answers in progress. */
export function createCsvInFlight(): InFlight {
  return new InFlight({ perSender: AT_ONCE_EACH, inAll: AT_ONCE });
}

interface CsvSource<Row> {
  /** The name of the file, without its ending. */
  readonly name: string;
  /** The first line. */
  readonly heading: string;
  /** Reads the rows after a position; the first rows without one. */
  read(afterUuid: string | undefined, limit: number): Promise<readonly Row[]>;
  positionOf(row: Row): string;
  render(rows: readonly Row[]): string;
}

/** Who downloads a list. */
export interface CsvReader {
  readonly options: Pick<AdminOptions, "log" | "clock" | "csvInFlight">;
  readonly actor: Actor;
}

/**
 * Answers a list as comma-separated values. The next part is read after the client has received the previous part, so
 * neither a long list nor a slow client uses much memory. A client that disconnects ends the reading.
 */
export async function streamCsv<Row>(
  { name, read, positionOf, render, ...rest }: CsvSource<Row>,
  { options, actor }: CsvReader,
): Promise<Response | Refusal> {
  const { log, clock, csvInFlight } = options;
  let isOver = false;
  const begun = csvInFlight.begin(nameOfActor(actor), { nowMs: clock.monotonicMs(), isOver: () => isOver });
  if (begun !== "begun") return TOO_MANY;
  const end = () => {
    isOver = true;
  };
  const encoder = new TextEncoder();
  let limit = FIRST_ROWS;
  // Read before the answer begins, so that a failure still gets its own status.
  let rows = await read(undefined, limit).catch((error) => {
    end();
    throw error;
  });
  let { heading } = rest;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(encoder.encode(heading + render(rows)));
      heading = "";
      const last = rows.at(-1);
      if (last === undefined || rows.length < limit) {
        end();
        return controller.close();
      }
      try {
        limit = ROWS;
        rows = await read(positionOf(last), limit);
      } catch (error) {
        end();
        // The status is sent already: the client sees that the connection is closed too early.
        log.warn("A CSV ended too early", { name, reason: reasonOf(error) });
        throw error;
      }
    },
    cancel: end,
  });
  return new Response(stream, {
    headers: {
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": `attachment; filename="${name}.csv"`,
    },
  });
}
