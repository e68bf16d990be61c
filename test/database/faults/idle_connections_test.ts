/** A short form with two pauses; `idle_connections_proof.ts` makes twenty. */
import { test } from "bun:test";
import { proveIdleConnections } from "./idle_connections.ts";

test.concurrent.each(["resets_idle", "mutes_idle"] as const)(
  "A connection that died while it was idle costs no request (%s)",
  (fault) => proveIdleConnections(fault, 2),
);
