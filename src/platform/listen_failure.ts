/** Why an address cannot be listened on, in the words that both runtimes use. */
import { bracketedHost } from "../endpoints.ts";
import { type Reasons, reasonOf } from "../system_error.ts";

const REASONS: Reasons = {
  EADDRINUSE: "the port is in use; stop what listens there or choose another port",
  EADDRNOTAVAIL: "this machine has no such address",
  EACCES: "not allowed; ports below 1024 need root or CAP_NET_BIND_SERVICE",
};

/** Makes the error that says `Cannot listen on HOST:PORT: …`. */
export function listenFailure(cause: unknown, at: { readonly host: string; readonly port: number }): Error {
  return new Error(`Cannot listen on ${bracketedHost(at.host)}:${at.port}: ${reasonOf(cause, REASONS)}`, {
    cause,
  });
}
