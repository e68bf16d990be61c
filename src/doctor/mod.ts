/**
 * Examines an installation: what is well, what will soon not be, and what is wrong, each with the line that
 * mends it. Changes nothing, and works beside a running service and without one.
 *
 * `examineHost` needs no database, `examineDatabase` an open one. Another part adds its own `Check` to the
 * list that it gives to either.
 */
export { type AskOptions, askHealth, type HealthAnswer, toHealthUrl } from "./ask_health.ts";
export { type DatabaseContext, examineDatabase, RELEASED_WITH_INSIDE } from "./examine_database.ts";
export { examineHost, type HostContext } from "./examine_host.ts";
export { type Check, type Finding, type FindingState, fail, ok, skip, warn } from "./finding.ts";
