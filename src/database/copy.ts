/**
 * `copy` in and out, as bytes with back-pressure, on a session of its own.
 *
 * The driver's streams (postgres 3.4.9) have three gaps, which are closed here. A socket that was paused when
 * the last row came stays paused, and the next statement waits forever. A `copy … to stdout` that fails with
 * its first rows throws where nobody can catch. And a `copy … from stdin` that the server refuses after its
 * last byte, as a foreign key does, never settles: so what the driver calls at a query's end is ours.
 *
 * After a failure or an early end of either the session must be closed: the server still sends, or still
 * waits for rows.
 */
import { Readable, type Writable } from "node:stream";
import type { Sql } from "./sql.ts";

/** A row at a time, as the driver gives them, would cost whoever handles them more than the server's work. */
const CHUNK_BYTES = 256 * 1024;

/** Gives what `copy … to stdout` writes, in chunks of whole rows. */
export async function* copyOut(sql: Sql, statement: string): AsyncGenerator<Buffer> {
  const query = sql.unsafe(statement);
  const opened = Promise.withResolvers<Readable>();
  Object.assign(query, {
    resolve(result: unknown) {
      // Called again at the end, with what is no stream.
      if (!(result instanceof Readable)) return;
      // Listened to at once: it may fail in the same breath, and nobody could catch that.
      result.on("error", () => {});
      opened.resolve(result);
    },
    reject: opened.reject,
  });
  query.readable().catch(() => {});
  const stream = await opened.promise;
  let rows: Buffer[] = [];
  let bytes = 0;
  for await (const row of stream) {
    rows.push(row);
    bytes += row.length;
    if (bytes < CHUNK_BYTES) continue;
    yield Buffer.concat(rows, bytes);
    rows = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(rows, bytes);
  // What the driver gave the stream to ask for more with: it lets the socket flow again.
  stream._read(0);
}

export interface CopyIn {
  /** Resolves when more may come. */
  write(chunk: Uint8Array): Promise<void>;
  /** Resolves when the server has taken it all, and rejects with why it did not. */
  end(): Promise<void>;
}

/** Begins `copy … from stdin`. */
export async function copyIn(sql: Sql, statement: string): Promise<CopyIn> {
  const query = sql.unsafe(statement);
  const stream: Writable = await query.writable();
  const ended = Promise.withResolvers<unknown>();
  ended.promise.catch(() => {});
  // The promise of the query has settled with the stream; what the driver calls at its end has not.
  Object.assign(query, ended);
  stream.on("error", ended.reject);
  return {
    async write(chunk) {
      const taken = new Promise((resolve) => stream.write(chunk, resolve));
      await Promise.race([taken, ended.promise]);
    },
    async end() {
      stream.end();
      await ended.promise;
    },
  };
}
