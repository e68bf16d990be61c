/**
 * The differences between Bun and Node, as one interface. Each entry file passes the implementation for its runtime.
 * The rest of the program uses only web standards and `node:` modules.
 */
import type { PostgresOrigin } from "../version.ts";

export { BODY_NOT_SENT } from "./body_not_sent.ts";

/** Answers one request. */
export type Answer = (request: Request, peer: Peer) => Response | Promise<Response>;

/** Finds the address only when the caller needs it: to find an address costs more than most requests do. */
export interface Peer {
  /**
   * Returns the address of the other end of the request's socket, as text. Empty after the answer was sent or the
   * client closed the connection, because the address is then unknown.
   */
  address(request: Request): string;
}

export interface ListenOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** The runtime's own limit on a body. It must be above our limit, so that clients get our refusal. */
  readonly maxBodyBytes: number;
  /** A connection without any traffic for this time is closed. */
  readonly idleTimeoutSeconds: number;
  readonly answer: Answer;
  /** True if a request may take longer than a minute to arrive: then the caller bounds the time of large bodies. */
  readonly takesUploads?: boolean;
  /** Serves https with this pair; without it, plain http. */
  readonly tls?: TlsPair;
}

/** A certificate with its chain, and its key, both as PEM. */
export interface TlsPair {
  readonly certificate: string;
  readonly privateKey: string;
}

export interface Listener {
  readonly host: string;
  readonly port: number;
  /**
   * Uses another certificate for new connections and refuses no connection meanwhile. Open connections keep their
   * certificate. Absent without TLS, and if the runtime cannot do it: then a restart is needed.
   */
  renewTls?(pair: TlsPair): Promise<void>;
  /**
   * Stops accepting connections, lets the requests in progress finish, and cuts them off at the deadline. It does not
   * change answers: from the start of a stop the caller must answer with `Connection: close`.
   */
  stop(deadlineMs: number): Promise<void>;
}

/** A lock on a file. The kernel releases it when the process that holds it ends, also after a crash. */
export interface FileLock {
  /** Replaces the text of the file, so that other processes can read which process holds the lock. */
  write(text: string): void;
  /** Empties the file and releases the lock. Further calls do nothing. */
  release(): void;
}

/** The PostgreSQL inside: an archive whose top folders are `bin`, `lib` and `share`. */
export interface PostgresArchive {
  /** Version and digest of the content, such as `18.4-3f2a9c1d`, for the name of its folder. */
  readonly label: string;
  /** Unpacks the archive into an existing empty folder, readable by every user and with its executable bits. */
  unpack(folder: string): Promise<void>;
}

export interface PostgresInside {
  /** Such as `18.6`. */
  readonly version: string;
  readonly origin: PostgresOrigin;
}

/** A part of a file, from byte `first` (included) to byte `end` (excluded). */
export interface FilePart {
  readonly path: string;
  readonly first: number;
  readonly end: number;
}

export interface Platform {
  readonly name: "bun" | "node";
  /**
   * Returns a part of a file as the body of a response. It is read while it is sent, never held in memory as a whole,
   * and closed when the reader stops. The file must exist and must not change.
   */
  fileBody(part: FilePart): Blob | ReadableStream<Uint8Array>;
  /** Writes the SHA-256 of a text in UTF-8 into 32 bytes, without allocating memory if the runtime can. */
  sha256(text: string, into: Uint8Array): void;
  /** Starts to serve. Rejects with `Cannot listen on HOST:PORT: …` if the address is not available. */
  listen(options: ListenOptions): Promise<Listener>;
  /**
   * Takes the lock without waiting; undefined if another process holds it. Creates the file if needed (mode 0600).
   * Throws if the file cannot be opened.
   */
  tryLock(path: string): FileLock | undefined;
  /**
   * Locks an open file until it is closed. Returns false if another process has locked it, or if this runtime has no such
   * locks.
   */
  lockOpenFile(fd: number): boolean;
  /**
   * Sends a datagram to a unix socket: a path, or an abstract name that begins with `@`. Never waits; throws if no
   * process receives it. Absent if the runtime has no such sockets.
   */
  sendDatagram?(path: string, text: string): void;
  /** Returns the system's monotonic clock (`CLOCK_MONOTONIC`) in microseconds, the same in every process. */
  monotonicUsec?(): bigint;
  /** Begins to collect garbage, without waiting for it. Absent if the runtime has no such function. */
  collectGarbage?(): void;
  /** Finds the archive; undefined if this build has no PostgreSQL inside and needs an external one. */
  postgresArchive(): Promise<PostgresArchive | undefined>;
  /** Tells which PostgreSQL that is, without packing or unpacking it. */
  postgresInside(): PostgresInside | undefined;
}
