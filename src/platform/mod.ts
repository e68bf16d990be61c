/**
 * What differs between Bun and Node, as one interface that the entry file fills in. Everything else in
 * the program keeps to web-standard and `node:` modules.
 */

/** Answers one request. */
export type Answer = (request: Request, peer: Peer) => Response | Promise<Response>;

/** Asked only where somebody wants to know: to find an address out costs more than most requests do. */
export interface Peer {
  /**
   * The address of the other end of the socket that the request came by, as text; empty when it is not known
   * any more: once the answer is out or its reader is gone.
   */
  address(request: Request): string;
}

export interface ListenOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** The runtime's own limit on a body: above ours, so that ours is what a client meets. */
  readonly maxBodyBytes: number;
  /** A connection on which nothing arrives or leaves for so long is closed. */
  readonly idleTimeoutSeconds: number;
  readonly answer: Answer;
  /** Serves https by this pair; plain http without it. */
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
   * Gives new connections another certificate, refusing none; those that are open keep the one they have.
   * Absent without TLS, and where the runtime cannot do it: then a restart is needed.
   */
  renewTls?(pair: TlsPair): Promise<void>;
  /**
   * Stops accepting, lets the requests in flight finish, and cuts them off at the deadline. It adds nothing to
   * answers: whoever makes them says `Connection: close` from the moment that a stop is decided.
   */
  stop(deadlineMs: number): Promise<void>;
}

/** A lock on a file that goes with the process that holds it, however that process ends. */
export interface FileLock {
  /** Replaces what the file says, so that others can read who holds it. */
  write(text: string): void;
  /** Empties the file and gives the lock back; once is enough. */
  release(): void;
}

/** The PostgreSQL that comes inside: an archive whose top folders are `bin`, `lib` and `share`. */
export interface PostgresArchive {
  /** What is inside, to name its folder by: version and digest, such as `18.4-3f2a9c1d`. */
  readonly label: string;
  /** Unpacks it into an existing empty folder, readable by every user and with its executable bits. */
  unpack(folder: string): Promise<void>;
}

/** A part of a file, from its byte `first` up to its byte `end`, which is not of it. */
export interface FilePart {
  readonly path: string;
  readonly first: number;
  readonly end: number;
}

export interface Platform {
  readonly name: "bun" | "node";
  /**
   * A part of a file as the body of a response: read while it is sent, never held as a whole, and closed when
   * nobody reads on. The file must be there, and must not change.
   */
  fileBody(part: FilePart): Blob | ReadableStream<Uint8Array>;
  /** Writes the SHA-256 of a text in UTF-8 into 32 bytes; where the runtime can, nothing is made on the way. */
  sha256(text: string, into: Uint8Array): void;
  /** Rejects with `Cannot listen on HOST:PORT: …` where the address cannot be had. */
  listen(options: ListenOptions): Promise<Listener>;
  /**
   * Takes the lock at once, creating the file if need be (mode 0600), or gives undefined where another
   * process holds it. Throws where the file cannot be opened.
   */
  tryLock(path: string): FileLock | undefined;
  /**
   * Sends a datagram to a unix socket: a path, or an abstract name that begins with `@`. Never waits; throws
   * where nobody takes it. Absent where the runtime has no such sockets.
   */
  sendDatagram?(path: string, text: string): void;
  /** The system's monotonic clock (`CLOCK_MONOTONIC`) in microseconds, as other processes read it too. */
  monotonicUsec?(): bigint;
  /** Undefined where no PostgreSQL comes inside: then an external one is needed. */
  postgresArchive(): Promise<PostgresArchive | undefined>;
}
