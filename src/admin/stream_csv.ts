import type { Log } from "../log.ts";
import { reasonOf } from "../system_error.ts";

/** The rows of one statement. */
const ROWS = 1_000;

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

/**
 * Answers a list as comma-separated values. The next part is read after the client has received the previous part, so
 * neither a long list nor a slow client uses much memory. A client that disconnects ends the reading.
 */
export async function streamCsv<Row>(
  { name, read, positionOf, render, ...rest }: CsvSource<Row>,
  { log }: { readonly log: Log },
): Promise<Response> {
  const encoder = new TextEncoder();
  // Read before the answer begins, so that a failure still gets its own status.
  let rows = await read(undefined, ROWS);
  let { heading } = rest;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(encoder.encode(heading + render(rows)));
      heading = "";
      const last = rows.at(-1);
      if (last === undefined || rows.length < ROWS) return controller.close();
      try {
        rows = await read(positionOf(last), ROWS);
      } catch (error) {
        // The status is sent already: the client sees that the connection is closed too early.
        log.warn("A CSV ended too early", { name, reason: reasonOf(error) });
        throw error;
      }
    },
  });
  return new Response(stream, {
    headers: {
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": `attachment; filename="${name}.csv"`,
    },
  });
}
