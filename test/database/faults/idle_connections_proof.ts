/** Promise 6: a dead idle connection costs no request. */
import { test } from "bun:test";
import { proveIdleConnections } from "./idle_connections.ts";

// Takes over a minute.

test.concurrent.each(["resets_idle", "mutes_idle"] as const)(
  "A connection that died while it was idle costs no request in twenty pauses (%s)",
  (fault) => proveIdleConnections(fault, 20),
  120_000,
);
