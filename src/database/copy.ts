/**
 * `copy` in both directions, as bytes with back-pressure, on a session of its own.
 *
 * The driver's streams (postgres 3.4.9) have three faults, which this file works around:
 *
 * - A socket that was paused when the last row arrived stays paused, and the next statement waits forever.
 * - A `copy … to stdout` that fails with its first rows throws an error that no caller can catch.
 * - A `copy … from stdin` that the server refuses after the last byte, because of a foreign key for example,
 *   never settles. So this file replaces the `resolve` and `reject` that the driver calls at the end of a query.
 *
 * After a failure or an early end the caller must close the session: the server still sends rows, or still
 * waits for rows.
 */
import { Readable, type Writable } from "node:stream";
import type { Sql } from "./sql.ts";

/** The driver gives single rows. To handle them one by one would cost the caller more than the server's work. */
const CHUNK_BYTES = 256 * 1024;

/** Yields the output of `copy … to stdout`, in chunks of whole rows. */
export async function* copyOut(sql: Sql, statement: string): AsyncGenerator<Buffer> {
  const query = sql.unsafe(statement);
  const opened = Promise.withResolvers<Readable>();
  Object.assign(query, {
    resolve(result: unknown) {
      // The driver calls this again at the end, with a result that is not a stream.
      if (!(result instanceof Readable)) return;
      // Added at once: the stream may fail in the same turn, and no caller could catch that error.
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
  // The driver's `_read` resumes the paused socket.
  stream._read(0);
}

/** Begins `copy … from stdin`. */
export async function copyIn(sql: Sql, statement: string) {
  const query = sql.unsafe(statement);
  const stream: Writable = await query.writable();
  const ended = Promise.withResolvers<unknown>();
  ended.promise.catch(() => {});
  // The query's own promise has already settled with the stream, so it cannot tell how the copy ended.
  Object.assign(query, ended);
  stream.on("error", ended.reject);
  return {
    /** Resolves when the caller may write more. */
    async write(chunk: Uint8Array): Promise<void> {
      const taken = new Promise((resolve) => stream.write(chunk, resolve));
      await Promise.race([taken, ended.promise]);
    },
    /** Resolves when the server has stored all rows; rejects with the server's error. */
    async end(): Promise<void> {
      stream.end();
      await ended.promise;
    },
  };
}
