import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { bracketedHost } from "../base/listener_url.ts";
import type { Listener, ListenOptions, Platform } from "../base/platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import type { Config } from "../installation/config/mod.ts";
import { findServing } from "../installation/mod.ts";
import { listenOrRefuse } from "../wire/mod.ts";

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
  const addresses = [
    { address: { host, port }, remedy: "; choose another with --host or --port" },
    { address: metricsListen, remedy: "; choose another with --metrics-listen" },
    { address: adminListen, remedy: "; choose another with --admin-listen" },
  ].flatMap(({ address, remedy }) => (address === undefined ? [] : { ...address, remedy }));
  // All at the same time, so that two settings with one address are refused.
  const listeners: Listener[] = [];
  const stopAll = async () => {
    for (const listener of listeners.splice(0)) await listener.stop(0);
  };
  try {
    for (const address of addresses) {
      const { host, port, remedy } = address;
      if (!(await hasAddress(host))) {
        const sentence = `Cannot listen on ${host}:${port}: there is no host of that name${remedy}`;
        return refuse("SERVICE_UNAVAILABLE", sentence);
      }
      // A port that the system chooses is always free.
      if (port === 0) continue;
      const listen = () => listenOrRefuse(platform, { ...address, ...REFUSE_ALL });
      const listener = await listen();
      if (isRefusal(listener)) {
        await stopAll();
        const alone = await listen();
        if (isRefusal(alone)) return alone;
        await alone.stop(0);
        const why = "another setting names the same address";
        return refuse("INVALID_REQUEST", `Cannot listen on ${bracketedHost(host)}:${port}: ${why}${remedy}`);
      }
      listeners.push(listener);
    }
    return undefined;
  } finally {
    await stopAll();
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
