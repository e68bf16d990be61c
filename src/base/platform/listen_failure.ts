/** The error of an address that cannot be listened on, with the same words on both runtimes. */
import { bracketedHost } from "../listener_url.ts";
import { type Reasons, reasonOf } from "../system_error.ts";

const REASONS: Reasons = {
  EADDRINUSE: "the port is in use",
  EADDRNOTAVAIL: "this machine has no such address",
  EACCES: "not allowed; ports below 1024 need root or CAP_NET_BIND_SERVICE",
};

/** Returns the error that says `Cannot listen on HOST:PORT: …`. */
export function listenFailure(cause: unknown, at: { readonly host: string; readonly port: number }): Error {
  return new Error(`Cannot listen on ${bracketedHost(at.host)}:${at.port}: ${reasonOf(cause, REASONS)}`, {
    cause,
  });
}
