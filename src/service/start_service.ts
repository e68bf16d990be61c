import { originOf } from "../base/listener_url.ts";
import { isRefusal, type Refusal } from "../base/refusal.ts";
import { NO_DATA_FAULT } from "../database/embedded/mod.ts";
import { listen } from "./listen.ts";
import { openStores } from "./open_stores.ts";
import type { Service, ServiceOptions } from "./service.ts";
import { startParts } from "./start_parts.ts";
import { createStopOrder, type StopOrder } from "./stop_order.ts";

/** The limit for stopping parts after a failed start. No request is in flight, so the database may use most of it. */
const ABANDON_MS = 9_000;

/** Starts the service. Refuses, with a sentence for the operator, if something must be fixed first. */
export async function startService(options: ServiceOptions): Promise<Service | Refusal> {
  const order = createStopOrder(options);
  const abandon = () =>
    order
      .stop(ABANDON_MS)
      .catch((error) => options.log.warn("A part did not close", { reason: String(error) }));
  try {
    const service = await startStages(options, order);
    if (isRefusal(service)) await abandon();
    return service;
  } catch (error) {
    await abandon();
    throw error;
  }
}

async function startStages(options: ServiceOptions, order: StopOrder): Promise<Service | Refusal> {
  const stores = await openStores(options, order);
  if (isRefusal(stores)) return stores;
  const parts = await startParts(options, { stores, order });
  const listeners = await listen(options, { stores, parts, order });
  if (isRefusal(listeners)) return listeners;
  const { listener, admin, metrics, certificate } = listeners;
  // Begun now, so that the first request for figures finds some.
  if (admin !== undefined || metrics !== undefined) parts.figures.demand();
  return {
    host: listener.host,
    port: listener.port,
    url: originOf(listener, stores.tls !== undefined),
    admin: admin && {
      host: admin.host,
      port: admin.port,
      origin: admin.origin,
      url: options.config.adminUrl ?? admin.origin,
    },
    metrics: metrics && { host: metrics.host, port: metrics.port },
    place: stores.installation.place,
    database: parts.database,
    directory: parts.directory,
    reload: certificate?.reload,
    ending: (stores.installation.dataFault ?? NO_DATA_FAULT).ending,
    isAlive: parts.directory.isAlive,
    stop: order.stop,
  };
}
