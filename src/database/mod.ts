/** The database: placeholder until the room is written. */
export interface DatabaseAddress {
  /** A `postgres://` address, or … */
  readonly url?: string;
  /** … the path of a unix socket, user and database of the server inside. */
  readonly socketPath?: string;
  readonly user?: string;
  readonly database?: string;
}
