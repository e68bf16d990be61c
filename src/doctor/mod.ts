/**
 * Examines an installation and lists findings: what works, what will soon fail, and what is wrong, each with a
 * remedy in one line. Changes nothing, and works beside a running service and without one.
 *
 * `examineHost` needs no database, `examineDatabase` needs an open database. A caller can pass more checks of
 * its own to each.
 */
export { type AskOptions, askHealth, type HealthAnswer, toHealthUrl } from "./ask_health.ts";
export { type DatabaseContext, examineDatabase, RELEASED_WITH_INSIDE } from "./examine_database.ts";
export { examineHost, type HostContext } from "./examine_host.ts";
export { type Check, type Finding, type FindingState, fail, ok, skip, warn } from "./finding.ts";
