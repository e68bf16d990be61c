import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { Config, ListenAddress } from "../config/mod.ts";
import { findServing } from "../installation/mod.ts";
import type { Listener, ListenOptions, Platform } from "../platform/mod.ts";
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
  { host, port, metricsListen, adminListen, dataDir }: Config,
  platform: Platform,
): Promise<Refusal | undefined> {
  if (findServing(dataDir) !== undefined) return undefined;
  const addresses = [{ host, port, hint: "" }];
  for (const [address, flag] of [
    [metricsListen, "--metrics-listen"],
    [adminListen, "--admin-listen"],
  ] as const) {
    if (address !== undefined) addresses.push({ ...address, hint: `; choose another with ${flag}` });
  }
  // All at the same time, so that two settings with one address are refused.
  const listeners: Listener[] = [];
  try {
    for (const { hint, ...address } of addresses) {
      const taken = await tryToListen(address, { platform, listeners });
      if (taken !== undefined) return refuse("INVALID_REQUEST", `${taken}${hint}`);
    }
    return undefined;
  } finally {
    for (const listener of listeners) await listener.stop(0);
  }
}

/**
 * Listens and adds the listener, or returns the reason why it cannot listen. A port that the system chooses is always
 * free.
 */
async function tryToListen(
  address: ListenAddress,
  { platform, listeners }: { readonly platform: Platform; readonly listeners: Listener[] },
): Promise<string | undefined> {
  const { host, port } = address;
  if (!(await hasAddress(host))) return `Cannot listen on ${host}:${port}: there is no host of that name`;
  if (port === 0) return undefined;
  try {
    listeners.push(await platform.listen({ ...address, ...REFUSE_ALL }));
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
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
