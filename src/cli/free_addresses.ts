import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { Config } from "../config/mod.ts";
import { findServing } from "../installation/mod.ts";
import type { ListenOptions, Platform } from "../platform/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { reasonOf } from "../system_error.ts";

/**
 * Takes the addresses of a service for a moment, before anything is made for it: a first start whose port is
 * in use leaves no database behind. Gives the refusal of the first that cannot be had.
 *
 * Where a service holds the data folder already, its port is the same as a rule: that refusal is the better
 * one, and comes later.
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
      const listener = await platform.listen({ ...address, ...NOBODY });
      await listener.stop(0);
    } catch (error) {
      const reason = reasonOf(error);
      return refuse("INVALID_REQUEST", `${reason}${hint}`);
    }
  }
  return undefined;
}

/** Asked before: of a name that leads nowhere, Bun 1.4.5 reports whatever error the system had last. */
async function hasAddress(host: string): Promise<boolean> {
  if (isIP(host) !== 0) return true;
  return await lookup(host).then(
    () => true,
    () => false,
  );
}

/** Whoever comes in that moment comes too early. */
const NOBODY: Pick<ListenOptions, "answer" | "maxBodyBytes" | "idleTimeoutSeconds"> = {
  answer: () => new Response(null, { status: 503, headers: { "Retry-After": "1" } }),
  maxBodyBytes: 1_024,
  idleTimeoutSeconds: 1,
};
