/**
 * The metrics of the parts, each with its name and a sentence.
 *
 * Read when somebody asks, so that counting costs the parts an addition and no more. No key, no address, no
 * e-mail: every label is one of a few words that the program knows itself.
 */
import { statfsSync } from "node:fs";
import type { Database } from "../../database/mod.ts";
import type { LimitedEndpoint } from "../../endpoints.ts";
import type { KeyDirectory } from "../../keys/mod.ts";
import type { Limiter } from "../../limits/mod.ts";
import type { GitHubAppStats } from "../../repository_token/mod.ts";
import type { EventWriter, Upkeep, WriteWatch } from "../../usage/mod.ts";
import { type Family, type PlainFamily, single } from "./exposition.ts";
import { processMetrics } from "./process_metrics.ts";
import type { RequestMetrics } from "./request_metrics.ts";

export interface MetricsSources {
  readonly requestMetrics: RequestMetrics;
  readonly limiter: Limiter<LimitedEndpoint>;
  readonly directory: KeyDirectory;
  readonly events: EventWriter;
  readonly upkeep: Upkeep;
  readonly database: Database;
  /** Absent where the repository token is stored, not minted. */
  readonly tokens?: { stats(): GitHubAppStats } | undefined;
  readonly writes: Pick<WriteWatch, "isWritable">;
  readonly dataDir: string;
  readonly isStopping: () => boolean;
}

export function collectMetrics(sources: MetricsSources): Family[] {
  return [
    ...ofRequests(sources),
    ...ofLimits(sources),
    ...ofKeys(sources),
    ...ofEvents(sources),
    ...ofDatabase(sources),
    ...ofTokens(sources),
    ...processMetrics(sources),
  ];
}

function ofRequests({ requestMetrics: requests }: MetricsSources): Family[] {
  const entries = requests.entries();
  const quota = (["validate", "analytics"] as const).map((endpoint) => ({
    labels: { endpoint },
    value:
      requests
        .endpoint(endpoint)
        .outcomes()
        .find(({ code }) => code === "QUOTA_EXCEEDED")?.count ?? 0,
  }));
  return [
    {
      type: "counter",
      name: "claviger_http_requests_total",
      help: "Requests answered, by endpoint, HTTP status and code (OK for a success)",
      samples: entries.flatMap(([endpoint, metrics]) =>
        metrics.outcomes().map(({ status, code, count }) => ({
          labels: { endpoint, status: String(status), code },
          value: count,
        })),
      ),
    },
    {
      type: "histogram",
      name: "claviger_http_request_duration_seconds",
      help: "Time from a request's arrival until its answer was made; for a file, until its first byte",
      samples: entries.map(([endpoint, metrics]) => ({
        labels: { endpoint },
        histogram: metrics.durations(),
      })),
    },
    {
      type: "counter",
      name: "claviger_quota_exhausted_total",
      help: "Requests refused because the month's quota of their license was used up, by endpoint",
      samples: quota,
    },
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
    {
      type: "counter",
      name: "claviger_rate_limit_refusals_total",
      help: "Requests refused for their rate, by endpoint and by what was counted, key or client address",
      samples: samples(({ refused }) => refused),
    },
    {
      type: "gauge",
      name: "claviger_rate_limit_windows",
      help: "Senders whose requests of the last minute are remembered",
      samples: samples(({ windows }) => windows),
    },
    {
      type: "counter",
      name: "claviger_rate_limit_overflow_total",
      help: "Requests that were counted in the window shared by those for whom there was no room",
      samples: samples(({ overflowHits }) => overflowHits),
    },
  ];
}

function ofKeys({ directory }: MetricsSources): Family[] {
  const stats = directory.stats();
  return [
    {
      type: "counter",
      name: "claviger_key_cache_requests_total",
      help: "Keys that were asked of the cache, by whether it held an issued key",
      samples: [
        { labels: { result: "hit" }, value: stats.hits },
        { labels: { result: "miss" }, value: stats.misses },
      ],
    },
    {
      type: "gauge",
      name: "claviger_key_cache_entries",
      help: "What the cache holds: keys, and for a second those that were not found",
      samples: [
        { labels: { kind: "known" }, value: stats.keys },
        { labels: { kind: "unknown" }, value: stats.unknownKeys },
      ],
    },
    single("gauge", "claviger_key_lookups_waiting", {
      help: "Requests that wait for the database to look their key up",
      value: stats.waiting,
    }),
    single("counter", "claviger_key_lookups_refused_total", {
      help: "Look-ups turned away because too many waited, or one for too long",
      value: stats.turnedAway,
    }),
  ];
}

function ofEvents({ events, upkeep }: MetricsSources): Family[] {
  const stats = events.stats();
  const { kept, dropped, failures } = upkeep.stats();
  return [
    single("gauge", "claviger_event_queue_length", {
      help: "Usage events that wait for their commit",
      value: stats.queued,
    }),
    single("gauge", "claviger_event_queue_bytes", {
      help: "What the waiting events take, estimated",
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
      help: "How many events one commit carried",
      samples: [{ histogram: stats.batches }],
    },
    single("gauge", "claviger_event_retention_months", {
      help: "For how many months events are kept; 0 is forever",
      value: kept,
    }),
    single("counter", "claviger_event_partitions_dropped_total", {
      help: "Partitions of events that were older than that, and dropped",
      value: dropped,
    }),
    {
      type: "counter",
      name: "claviger_upkeep_failures_total",
      help: "Times that an upkeep task failed, by task; it is tried again, and the log has the reason",
      samples: Object.entries(failures).map(([task, value]) => ({ labels: { task }, value })),
    },
  ];
}

function ofDatabase({ database, directory, writes, dataDir }: MetricsSources): Family[] {
  const stats = database.stats();
  const { outages, failures } = directory.stats();
  return [
    single("gauge", "claviger_database_up", {
      help: "1 while the database answers, so that requests are answered too",
      value: Number(directory.isTrusted()),
    }),
    single("gauge", "claviger_database_writable", {
      help: "0 while the database answers and refuses writes, as on a full disk: events are answered with 503",
      value: Number(writes.isWritable()),
    }),
    ...ofDisk(dataDir),
    single("counter", "claviger_database_outages_total", {
      help: "Times that the database stopped answering",
      value: outages,
    }),
    single("counter", "claviger_database_pulse_failures_total", {
      help: "Pulses, of four a second, that the database did not answer",
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
      help: "Times that all connections were made anew after a missed deadline",
      value: stats.poolsReplaced,
    }),
  ];
}

/** Nothing where there is no data folder, as beside an external database. */
function ofDisk(dataDir: string): Family[] {
  try {
    const { bavail, bsize } = statfsSync(dataDir);
    return [
      single("gauge", "claviger_disk_free_bytes", {
        help: "What is free where the data folder lies",
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
    {
      type: "counter",
      name: "claviger_installer_token_mints_total",
      help: "Repository tokens asked of their host, by what came of it",
      samples: [
        { labels: { result: "ok" }, value: minted },
        { labels: { result: "failed" }, value: failed },
      ],
    },
  ];
}
