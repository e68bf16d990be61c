import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { Config } from "../config/mod.ts";
import { findServing } from "../installation/mod.ts";
import type { ListenOptions, Platform } from "../platform/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { reasonOf } from "../system_error.ts";

/**
 * Listens on the addresses of a service for a moment, before the service creates anything: so a first start whose port
 * is in use leaves no database behind. Returns the refusal of the first address that cannot be used.
 *
 * Does nothing if a service already holds the data folder: it usually has the same port, and the refusal because of the
 * data folder, which comes later, says more.
 */
export async function refuseTakenAddress(
  { host, port, metricsListen, dataDir }: Config,
  platform: Platform,
): Promise<Refusal | undefined> {
  if (findServing(dataDir) !== undefined) return undefined;
  const addresses = [{ host, port, hint: "" }];
  if (metricsListen !== undefined)
    addresses.push({ ...metricsListen, hint: "; choose another with --metrics-listen" });
  for (const { hint, ...address } of addresses) {
    if (!(await hasAddress(address.host))) {
      const where = `${address.host}:${address.port}`;
      return refuse("INVALID_REQUEST", `Cannot listen on ${where}: there is no host of that name${hint}`);
    }
    if (address.port === 0) continue;
    try {
      const listener = await platform.listen({ ...address, ...REFUSE_ALL });
      await listener.stop(0);
    } catch (error) {
      const reason = reasonOf(error);
      return refuse("INVALID_REQUEST", `${reason}${hint}`);
    }
  }
  return undefined;
}

/** Looks the name up before listening: for an unknown name, Bun 1.4.5 reports the last error of the system instead. */
async function hasAddress(host: string): Promise<boolean> {
  if (isIP(host) !== 0) return true;
  return await lookup(host).then(
    () => true,
    () => false,
  );
}

/** The listener refuses every client that connects in that moment, because the service has not started. */
const REFUSE_ALL: Pick<ListenOptions, "answer" | "maxBodyBytes" | "idleTimeoutSeconds"> = {
  answer: () => new Response(null, { status: 503, headers: { "Retry-After": "1" } }),
  maxBodyBytes: 1_024,
  idleTimeoutSeconds: 1,
};
