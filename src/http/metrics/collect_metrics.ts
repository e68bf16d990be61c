/**
 * Collects the metrics of all parts of the service, each with its name and a sentence.
 *
 * The values are read only when `/metrics` is requested, so counting costs each part only an addition. No metric
 * holds a key, an address or an e-mail: every label is one of a few words that the program defines.
 */
import { statfsSync } from "node:fs";
import { findLastBackup, type LastBackup } from "../../backup/mod.ts";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../database/mod.ts";
import type { LimitedEndpoint } from "../../endpoints.ts";
import type { FigureComputer } from "../../figures/mod.ts";
import type { KeyDirectory } from "../../keys/mod.ts";
import type { Limiter } from "../../limits/mod.ts";
import type { GitHubAppSource } from "../../repository_token/mod.ts";
import type { Upkeep } from "../../upkeep/mod.ts";
import type { EventWriter, UsageUpkeep, WriteWatch } from "../../usage/mod.ts";
import { type Family, type PlainFamily, several, single } from "./exposition.ts";
import { figureMetrics } from "./figure_metrics.ts";
import { processMetrics } from "./process_metrics.ts";
import type { RequestMetrics } from "./request_metrics.ts";

export interface MetricsSources {
  readonly requestMetrics: RequestMetrics;
  readonly limiter: Limiter<LimitedEndpoint>;
  readonly directory: KeyDirectory;
  readonly events: EventWriter;
  readonly upkeep: Pick<Upkeep, "stats">;
  readonly usageUpkeep: Pick<UsageUpkeep, "stats">;
  readonly figures: Pick<FigureComputer, "demand" | "latest">;
  readonly clock: Clock;
  /** When the certificate ends; undefined without TLS. */
  readonly certificateExpiresAt: () => Date | undefined;
  readonly database: Database;
  /** Absent if the repository token is stored and not minted. */
  readonly tokens?: Pick<GitHubAppSource, "stats"> | undefined;
  readonly writes: Pick<WriteWatch, "isWritable">;
  readonly dataDir: string;
  readonly isStopping: () => boolean;
}

/** Returns all metrics as they are now; without the last backup if the database does not answer. */
export async function collectMetrics(sources: MetricsSources): Promise<Family[]> {
  const { database, directory, clock } = sources;
  const lastBackup = directory.isTrusted()
    ? await findLastBackup(database, clock.now()).catch(() => undefined)
    : undefined;
  return [
    ...ofRequests(sources),
    ...ofLimits(sources),
    ...ofKeys(sources),
    ...ofEvents(sources),
    ...ofDatabase(sources),
    ...ofTokens(sources),
    ...ofTimes(sources, lastBackup),
    ...figureMetrics(sources.figures),
    ...processMetrics(sources),
  ];
}

function ofRequests({ requestMetrics: requests }: MetricsSources): Family[] {
  const entries = requests.entries();
  const exhausted = (endpoint: "validate" | "analytics") => {
    const outcomes = requests.endpoint(endpoint).outcomes();
    return outcomes.find(({ code }) => code === "QUOTA_EXCEEDED")?.count ?? 0;
  };
  return [
    several("counter", "claviger_http_requests_total", {
      help: "Requests answered, by endpoint, HTTP status, code (OK for a success) and the reason why a key was refused",
      samples: entries.flatMap(([endpoint, metrics]) =>
        metrics.outcomes().map(({ status, code, reason, count }) => ({
          labels: { endpoint, status: String(status), code, ...(reason !== "" && { reason }) },
          value: count,
        })),
      ),
    }),
    {
      type: "histogram",
      name: "claviger_http_request_duration_seconds",
      help: "Time from a request's arrival until its answer was ready; for a file, until its first byte",
      samples: entries.map(([endpoint, metrics]) => ({
        labels: { endpoint },
        histogram: metrics.durations(),
      })),
    },
    several("counter", "claviger_quota_exhausted_total", {
      help: "Requests refused because the month's quota of their license was used up, by endpoint",
      samples: samplesBy("endpoint", { validate: exhausted("validate"), analytics: exhausted("analytics") }),
    }),
  ];
}

function ofLimits({ limiter }: MetricsSources): Family[] {
  const tables = Object.entries(limiter.stats()).flatMap(([endpoint, { byKey, byAddress }]) => [
    { labels: { endpoint, by: "key" }, stats: byKey },
    { labels: { endpoint, by: "address" }, stats: byAddress },
  ]);
  const samples = (value: (stats: (typeof tables)[number]["stats"]) => number): PlainFamily["samples"] =>
    tables.map(({ labels, stats }) => ({ labels, value: value(stats) }));
  return [
    several("counter", "claviger_rate_limit_refusals_total", {
      help: "Requests refused by the rate limit, by endpoint and by what was counted, key or client address",
      samples: samples(({ refused }) => refused),
    }),
    several("gauge", "claviger_rate_limit_windows", {
      help: "Senders whose requests of the last minute are remembered",
      samples: samples(({ windows }) => windows),
    }),
    several("counter", "claviger_rate_limit_overflow_total", {
      help: "Requests that were counted in the shared window, because the table of windows was full",
      samples: samples(({ overflowHits }) => overflowHits),
    }),
  ];
}

/** Returns a sample for each value of a label. */
function samplesBy(label: string, values: Readonly<Record<string, number>>): PlainFamily["samples"] {
  return Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }));
}

function ofKeys({ directory }: MetricsSources): Family[] {
  const stats = directory.stats();
  return [
    several("counter", "claviger_key_cache_requests_total", {
      help: "Look-ups of keys in the cache, by whether it held an issued key",
      samples: samplesBy("result", { hit: stats.hits, miss: stats.misses }),
    }),
    several("gauge", "claviger_key_cache_entries", {
      help: "Entries of the cache: issued keys, and for one second keys that were not found",
      samples: samplesBy("kind", { known: stats.keys, unknown: stats.unknownKeys }),
    }),
    single("gauge", "claviger_key_lookups_waiting", {
      help: "Requests that wait until the database has looked up their key",
      value: stats.waiting,
    }),
    single("counter", "claviger_key_lookups_refused_total", {
      help: "Look-ups refused because too many were waiting, or one waited too long",
      value: stats.turnedAway,
    }),
  ];
}

function ofEvents({ events, upkeep, usageUpkeep }: MetricsSources): Family[] {
  const stats = events.stats();
  const { kept, dropped } = usageUpkeep.stats();
  return [
    single("gauge", "claviger_event_queue_length", {
      help: "Usage events that wait for their commit",
      value: stats.queued,
    }),
    single("gauge", "claviger_event_queue_bytes", {
      help: "Memory of the waiting events, estimated",
      value: stats.queuedBytes,
    }),
    single("counter", "claviger_events_committed_total", {
      help: "Usage events that were committed and acknowledged",
      value: stats.committed,
    }),
    single("counter", "claviger_events_turned_away_total", {
      help: "Usage events refused because the queue was full, too slow or closed",
      value: stats.turnedAway,
    }),
    {
      type: "histogram",
      name: "claviger_event_batch_size",
      help: "Number of events in one commit",
      samples: [{ histogram: stats.batches }],
    },
    single("gauge", "claviger_event_retention_months", {
      help: "For how many months events are kept; 0 means forever",
      value: kept,
    }),
    single("counter", "claviger_event_partitions_dropped_total", {
      help: "Partitions dropped because their events were older than the retention",
      value: dropped,
    }),
    several("counter", "claviger_upkeep_failures_total", {
      help: "Failures of upkeep tasks, by task; a failed task is tried again, and the log has the reason",
      samples: samplesBy("task", upkeep.stats().failures),
    }),
  ];
}

function ofDatabase({ database, directory, writes, dataDir }: MetricsSources): Family[] {
  const stats = database.stats();
  const { outages, failures } = directory.stats();
  return [
    single("gauge", "claviger_database_up", {
      help: "1 while the database answers; otherwise requests with a key get 503",
      value: Number(directory.isTrusted()),
    }),
    single("gauge", "claviger_database_writable", {
      help: "0 while the database answers but refuses writes, as on a full disk: events get 503",
      value: Number(writes.isWritable()),
    }),
    ...ofDisk(dataDir),
    single("counter", "claviger_database_outages_total", {
      help: "Times that the database stopped answering",
      value: outages,
    }),
    single("counter", "claviger_database_pulse_failures_total", {
      help: "Pulses (queries for changes, four a second) that the database did not answer",
      value: failures,
    }),
    single("gauge", "claviger_database_connections_max", {
      help: "Connections that the pool may have",
      value: stats.connections,
    }),
    single("gauge", "claviger_database_statements_running", {
      help: "Statements that run or wait for a connection",
      value: stats.running,
    }),
    single("counter", "claviger_database_statements_total", {
      help: "Statements sent to the database",
      value: stats.statements,
    }),
    single("counter", "claviger_database_deadlines_missed_total", {
      help: "Statements that were not answered before their deadline",
      value: stats.deadlinesMissed,
    }),
    single("counter", "claviger_database_pools_replaced_total", {
      help: "Times that all connections were replaced after a missed deadline",
      value: stats.poolsReplaced,
    }),
  ];
}

/** Returns the free space of the data folder's disk; nothing if there is no folder, as with an external database. */
function ofDisk(dataDir: string): Family[] {
  try {
    const { bavail, bsize } = statfsSync(dataDir);
    return [
      single("gauge", "claviger_disk_free_bytes", {
        help: "Free space on the disk of the data folder",
        value: bavail * bsize,
      }),
    ];
  } catch {
    return [];
  }
}

function ofTokens({ tokens }: MetricsSources): Family[] {
  if (tokens === undefined) return [];
  const { minted, failed } = tokens.stats();
  return [
    several("counter", "claviger_installer_token_mints_total", {
      help: "Requests to the host for a repository token, by result",
      samples: samplesBy("result", { ok: minted, failed }),
    }),
  ];
}

/** Returns the times that alerts compare with now. */
function ofTimes({ certificateExpiresAt }: MetricsSources, lastBackup: LastBackup | undefined): Family[] {
  const times = [
    [
      "claviger_last_backup_timestamp_seconds",
      "When the last backup was taken, as Unix time; before the first one, when the database was made",
      lastBackup?.since,
    ],
    [
      "claviger_tls_not_after_timestamp_seconds",
      "When the certificate ends, as Unix time",
      certificateExpiresAt(),
    ],
  ] as const;
  return times.flatMap(([name, help, at]) =>
    at ? single("gauge", name, { help, value: at.getTime() / 1_000 }) : [],
  );
}
