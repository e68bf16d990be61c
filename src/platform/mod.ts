/**
 * What differs between Bun and Node, as one interface that the entry file fills in. Everything else in
 * the program keeps to web-standard and `node:` modules.
 */

/** Answers one request; `peerAddress` is read only when somebody asks for it. */
export type Answer = (request: Request, peer: Peer) => Response | Promise<Response>;

export interface Peer {
  /** The address of the socket's other end, as text; empty when it is not known any more. */
  address(): string;
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
}

export interface Listener {
  readonly host: string;
  readonly port: number;
  /** Stops accepting, lets the requests in flight finish, and cuts them off at the deadline. */
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

export interface Platform {
  readonly name: "bun" | "node";
  /** Rejects with `Cannot listen on HOST:PORT: …` where the address cannot be had. */
  listen(options: ListenOptions): Promise<Listener>;
  /**
   * Takes the lock at once, creating the file if need be (mode 0600), or gives undefined where another
   * process holds it. Throws where the file cannot be opened.
   */
  tryLock(path: string): FileLock | undefined;
  /** Undefined where no PostgreSQL comes inside: then an external one is needed. */
  postgresArchive(): Promise<PostgresArchive | undefined>;
}
