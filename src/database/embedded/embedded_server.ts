/** What a caller says to open the data folder, and what it gets. */
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import type { Platform } from "../../base/platform/mod.ts";
import type { DataFault } from "./_data_fault.ts";
import type { HolderKind } from "./_holder.ts";
import type { EmbeddedAddress } from "./_socket.ts";
import type { RestoreNote } from "./_traces.ts";

export interface EmbeddedOptions {
  readonly dataDir: string;
  /** A `serve` holds the folder for as long as it runs; a `command` ends soon, or uses the server of a `serve`. */
  readonly holder: HolderKind;
  /** Whether a folder without data is initialised (true) or refused (false). One that has lost its data never is. */
  readonly create: boolean;
  /**
   * Whether the caller restores a backup. Then a folder that has lost its database is initialised, too, and what an
   * interrupted restore has left is removed. Goes with `create`.
   */
  readonly restores?: boolean;
  /**
   * Whether the caller only uses the server of a running service. Without one it is refused at once, so that a command
   * that runs for long never keeps a service from the folder.
   */
  readonly joins?: boolean;
  readonly platform: Platform;
  /** A real clock: opening waits for other processes. */
  readonly clock: Clock;
  readonly log: Log;
  /** True by default. False is for tests: it is faster, but a power cut can destroy data. */
  readonly fsync?: boolean;
  /** PostgreSQL's settings; they override our own. */
  readonly settings?: Readonly<Record<string, string>>;
  /** How long to wait for another process that holds the folder, 10 s by default. */
  readonly waitMs?: number;
  /** How long PostgreSQL may take until it accepts connections, 120 s by default. */
  readonly startMs?: number;
  /** Called during each wait for another process or for PostgreSQL; true ends the wait. */
  readonly isInterrupted?: () => boolean;
  /** The folder where PostgreSQL is unpacked, the data folder by default. In another folder it is shared, and stays. */
  readonly binariesParent?: string;
  /** The operator's folder with `postgres` and `initdb`, to run in place of the programs inside. */
  readonly postgresBin?: string | undefined;
}

export interface EmbeddedServer {
  readonly address: EmbeddedAddress;
  /** Whether this process runs the server; otherwise a running service does. */
  readonly owned: boolean;
  readonly restoreNote: RestoreNote;
  /** What is wrong with the data while this process runs the server. */
  readonly dataFault: DataFault;
  /**
   * Stops the server if this process runs it, and releases the folder. The server stops in order until the deadline,
   * then by force, which takes up to 4 s more and loses no committed data. Call this once, after the end of all
   * connections.
   */
  stop(deadlineMs: number): Promise<void>;
}
