/**
 * The console of `serve --demo`: a listener for operators without a setting, and the link that logs in there.
 *
 * Both exist only for the data of a demo, and on loopback. The link logs in as an admin, once and within ten minutes. So
 * it must reach no journal, which others may read, and no other machine. Without a terminal it goes where the output goes, such
 * as a file: whoever reads it there within ten minutes is an admin of the demo.
 */
import type { Actor, By } from "../../audit/mod.ts";
import { isLoopback } from "../../base/listener_url.ts";
import { isRefusal } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import type { Config, ListenAddress } from "../../installation/config/mod.ts";
import { hasKeys } from "../../licensing/keys/mod.ts";
import { deleteCodes, endSession, listSessions, loginOperator, removeOperator } from "../../operators/mod.ts";
import type { Service } from "../../service/mod.ts";
import type { Invocation } from "../invocation.ts";
import { hasDemo } from "./remove_demo.ts";

const OPERATOR = "demo";
const HOST = "127.0.0.1";
/** 0: if all others are in use, the system chooses. */
const PORTS = [8081, 8082, 8083, 8084, 8085, 8086, 8087, 8088, 8089, 0];

/**
 * Returns the addresses at which a demo may serve operators, in the order in which the service tries them. None if the
 * database has keys but no demo, or if a journal gets the output.
 */
export async function findDemoAddresses(
  invocation: Pick<Invocation, "columns" | "env">,
  { config, database }: { readonly config: Config; readonly database: Database },
): Promise<readonly ListenAddress[]> {
  if (!isPrivate(invocation, config)) return [];
  const isDemo = !(await hasKeys(database)) || (await hasDemo(database));
  const taken = [config.port, config.metricsListen?.port];
  return isDemo
    ? PORTS.filter((port) => port === 0 || !taken.includes(port)).map((port) => ({ host: HOST, port }))
    : [];
}

/** Returns a link that logs in to the console of a demo as an admin; undefined if only a command may create one. */
export async function createDemoLink(
  invocation: Invocation,
  { config, service }: { readonly config: Config; readonly service: Service },
): Promise<string | undefined> {
  const { admin, database } = service;
  if (admin === undefined || !isLoopback(admin.host) || !isPrivate(invocation, config)) return undefined;
  if (!(await hasDemo(database))) return undefined;
  const { userName, clock } = invocation;
  const actor: Actor = { kind: "command", name: userName, reason: "demo" };
  const login = await loginOperator(database, { name: OPERATOR, role: "admin" }, { actor, now: clock.now() });
  return isRefusal(login) ? undefined : `${admin.url}/console/enter#${login.code}`;
}

/** Tells whether only this machine reaches the service, and no journal gets the output. */
function isPrivate(
  { columns, env }: Pick<Invocation, "columns" | "env">,
  { host, logFormat }: Config,
): boolean {
  // Shells inherit JOURNAL_STREAM from a desktop that systemd started, so a terminal counts first. Source: systemd.exec(5).
  const isInJournal = columns === undefined && env.JOURNAL_STREAM !== undefined;
  return !isInJournal && logFormat === "text" && isLoopback(host);
}

/**
 * Removes the operator of a demo. The last admin cannot be removed: then only its sessions and links end, and the
 * result is `kept`. Undefined if there is no such operator.
 */
export async function removeDemoOperator(
  database: Database,
  by: By,
): Promise<"removed" | "kept" | undefined> {
  const removed = await removeOperator(database, OPERATOR, by);
  if (!isRefusal(removed)) return "removed";
  if (removed.code === "NOT_FOUND") return undefined;
  // The codes first, so that no printed link begins another session meanwhile.
  await deleteCodes(database, OPERATOR);
  const sessions = await listSessions(database, by);
  for (const { id, operator } of sessions) if (operator === OPERATOR) await endSession(database, id, by);
  return "kept";
}
