import { monthOf } from "../base/calendar.ts";
import { newUuid } from "../base/ids.ts";
import { createLimiter } from "../base/rate_limits/mod.ts";
import { createRequestMetrics } from "../clients/mod.ts";
import { createSharedWindows, sharedWindowsUpkeep } from "../clients/shared_windows/mod.ts";
import { createUpkeep } from "../database/upkeep/mod.ts";
import { createKeyDirectory } from "../licensing/keys/mod.ts";
import { machinesUpkeep, noteEndsUpkeep } from "../licensing/machines/mod.ts";
import { createLicenseChanges } from "../licensing/mod.ts";
import { createGitHubAppSource, createTokenSource } from "../models/repository_token/mod.ts";
import { createNoticesUpkeep } from "../notices/mod.ts";
import { createFailedLogins, operatorsUpkeep } from "../operators/mod.ts";
import { activityUpkeep, createActivityWriter } from "../usage/activity/mod.ts";
import { createFigureComputer } from "../usage/figures/mod.ts";
import { createLatencyWriter, latencyUpkeep } from "../usage/latency/mod.ts";
import { createEventWriter, createUsageUpkeep, watchWrites } from "../usage/mod.ts";
import { GROWING_ENDPOINTS } from "../wire/mod.ts";
import { findInstallationState } from "./find_installation_state.ts";
import type { Stores } from "./open_stores.ts";
import type { ServiceOptions } from "./service.ts";
import type { StopOrder } from "./stop_order.ts";
import { warmUp } from "./warm_up.ts";

/** For how long a stop waits for a last write: of the last use of keys, of activity, of failed logins, and of presence. */
export const LAST_WRITE_MS = 1_000;

export type Parts = Awaited<ReturnType<typeof startParts>>;

/** Creates the parts, and starts the parts that run in the background. */
export async function startParts(
  { config, clock, log, eventGathering }: ServiceOptions,
  { stores, order }: { readonly stores: Stores; readonly order: StopOrder },
) {
  const processUuid = newUuid();
  const { app, pool, pulseDatabase, secrets } = stores;
  const writes = watchWrites({ database: pool, clock, log, processUuid });
  const { database } = writes;
  order.add(writes);
  const { cacheKeys: maxKeys } = config;
  const directory = createKeyDirectory({ database, pulseDatabase, clock, log, processUuid, maxKeys });
  await order.start(directory, LAST_WRITE_MS);
  const requestMetrics = createRequestMetrics();
  // Started before the listeners, so they write their last minute after the last request is answered.
  await order.start(createActivityWriter({ database, clock, read: requestMetrics.answers }), LAST_WRITE_MS);
  const latency = createLatencyWriter({ database, clock, processUuid, read: requestMetrics.latencies });
  await order.start(latency, LAST_WRITE_MS);
  const failedLogins = createFailedLogins(database, clock);
  await order.start(failedLogins, LAST_WRITE_MS);
  const { address } = stores.installation;
  const figures = createFigureComputer({ address, clock, log });
  order.add(figures);
  const certificate = { expiresAt: () => stores.tls?.expiresAt };
  const usageUpkeep = createUsageUpkeep({ keptMonths: config.eventsKeptMonths });
  const tasks = [
    ...usageUpkeep.tasks,
    operatorsUpkeep,
    activityUpkeep,
    latencyUpkeep,
    sharedWindowsUpkeep,
    machinesUpkeep,
    noteEndsUpkeep,
    createNoticesUpkeep({
      processUuid,
      settings: config.notices,
      findInstallation: (context) =>
        findInstallationState(context, { config, certificateExpiresAt: () => certificate.expiresAt() }),
      demandFigures: figures.demand,
    }),
  ];
  // The files of another server cannot be read, and its memory is not ours to fill.
  if (config.databaseUrl === undefined) tasks.push(warmUp);
  const upkeep = createUpkeep({ address, clock, log, tasks });
  await order.start(upkeep);
  const events = createEventWriter({
    database,
    clock,
    log,
    processUuid,
    textBounds: config.textBounds,
    // The cached keys get the new counts before the events are answered.
    onCharged: ({ licenseUuid, used }, receivedAtMs) =>
      directory.updateUsedCount(licenseUuid, { monthIndex: monthOf(receivedAtMs).index, used }),
    onUnknown: directory.distrustLicense,
    ...eventGathering,
  });
  const minted = app && createGitHubAppSource({ app, clock, log });
  if (minted !== undefined) order.add(minted);
  return {
    processUuid,
    upkeep,
    usageUpkeep,
    figures,
    /** When the certificate that is used now ends; the listeners replace the function. */
    certificate,
    writes,
    database,
    directory,
    licenseChanges: createLicenseChanges(database, directory),
    events,
    minted,
    servedFiles: stores.servedFiles,
    failedLogins,
    tokens: minted ?? createTokenSource({ database, secrets, clock }),
    limiter: createLimiter(config.limits, {
      growing: GROWING_ENDPOINTS,
      sharedWindowsOf: config.rateLimits === "shared" ? createSharedWindows(database, clock) : undefined,
    }),
    requestMetrics,
  };
}
