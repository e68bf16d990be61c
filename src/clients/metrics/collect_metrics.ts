/**
 * Collects the metrics of all parts of the service, each with its name and a sentence.
 *
 * The values are read only when `/metrics` is requested, so counting costs each part only an addition. No metric
 * holds a key, an address or an e-mail: every label is one of a few words that the program defines.
 */
import { statfsSync } from "node:fs";
import { type AuditWaits, MOST_WAITING } from "../../audit/mod.ts";
import type { Clock } from "../../base/clock.ts";
import type { Limiter, WindowStats } from "../../base/rate_limits/mod.ts";
import type { Database } from "../../database/mod.ts";
import type { Upkeep } from "../../database/upkeep/mod.ts";
import { findLastBackup, type LastBackup } from "../../installation/backup/mod.ts";
import type { KeyDirectory } from "../../licensing/keys/mod.ts";
import type { ServedFiles } from "../../models/mod.ts";
import type { GitHubAppSource } from "../../models/repository_token/mod.ts";
import { countOpenNotices, type NoticeKind } from "../../notices/mod.ts";
import type { FigureComputer } from "../../usage/figures/mod.ts";
import type { EventWriter, UsageUpkeep, WriteWatch } from "../../usage/mod.ts";
import type { LimitedEndpoint } from "../../wire/mod.ts";
import { type Metrics, type Sample, samplesBy } from "./exposition.ts";
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
  readonly backupOverdueHours: number;
  readonly servedFiles: Pick<ServedFiles, "stats">;
  /** Absent without a listener for operators. */
  readonly auditWaits?: Pick<AuditWaits, "count"> | undefined;
  readonly isStopping: () => boolean;
}

/** Returns all metrics as they are now; without the last backup and the notices if the database does not answer. */
export async function collectMetrics(sources: MetricsSources): Promise<Metrics> {
  const { database, directory, clock, backupOverdueHours } = sources;
  const now = clock.now();
  const isThere = directory.isTrusted();
  const [lastBackup, notices] = await Promise.all([
    isThere
      ? findLastBackup(database, { now, overdueHours: backupOverdueHours }).catch(() => undefined)
      : undefined,
    isThere ? countOpenNotices(database, now).catch(() => undefined) : undefined,
  ]);
  return {
    ...ofRequests(sources),
    ...ofLimits(sources),
    ...ofKeys(sources),
    ...ofEvents(sources),
    ...ofDatabase(sources),
    ...ofTokens(sources),
    ...ofModelFiles(sources),
    ...ofTimes(sources, lastBackup),
    ...ofNotices(notices),
    ...ofFollowers(sources),
    ...figureMetrics(sources.figures),
    ...processMetrics(sources),
  };
}

function ofRequests({ requestMetrics: requests }: MetricsSources): Metrics {
  const entries = requests.entries();
  const exhausted = (endpoint: "validate" | "analytics") => {
    const outcomes = requests.endpoint(endpoint).outcomes();
    return outcomes.find(({ code }) => code === "QUOTA_EXCEEDED")?.count ?? 0;
  };
  return {
    claviger_http_requests_total: [
      "Requests answered, by endpoint, HTTP status, code (OK for a success) and the reason why a key was refused",
      entries.flatMap(([endpoint, metrics]) =>
        metrics.outcomes().map(({ status, code, reason, count }) => ({
          labels: { endpoint, status: String(status), code, ...(reason !== "" && { reason }) },
          value: count,
        })),
      ),
    ],
    claviger_http_request_duration_seconds: [
      "Time from a request's arrival until its answer was ready; for a file, until its first byte",
      entries.map(([endpoint, metrics]) => ({ labels: { endpoint }, value: metrics.durations() })),
    ],
    claviger_quota_exhausted_total: [
      "Requests, and events of batches, refused because the month's quota of their license was used up, by endpoint",
      samplesBy("endpoint", {
        validate: exhausted("validate"),
        analytics: exhausted("analytics"),
        analytics_batch: requests.endpoint("analytics_batch").eventsOverQuota,
      }),
    ],
  };
}

function ofLimits({ limiter }: MetricsSources): Metrics {
  const tables = Object.entries(limiter.stats()).flatMap(([endpoint, { byKey, byAddress }]) => [
    { labels: { endpoint, by: "key" }, stats: byKey },
    { labels: { endpoint, by: "address" }, stats: byAddress },
  ]);
  const samples = (name: keyof WindowStats): Sample[] =>
    tables.flatMap(({ labels, stats: { [name]: value } }) =>
      value === undefined ? [] : [{ labels, value }],
    );
  return {
    claviger_rate_limit_refusals_total: [
      "Requests refused by the rate limit, by endpoint and by what was counted, key or client address",
      samples("refused"),
    ],
    claviger_rate_limit_windows: [
      "Senders whose requests of the last minute this process remembers",
      samples("windows"),
    ],
    claviger_rate_limit_overflow_total: [
      "Requests that were counted in the overflow window, because the table of windows was full",
      samples("overflowHits"),
    ],
    claviger_rate_limit_waiting: [
      "Requests that wait until the database has counted them, with CLAVIGER_RATE_LIMITS=shared",
      samples("waiting"),
    ],
  };
}

function ofKeys({ directory }: MetricsSources): Metrics {
  const stats = directory.stats();
  return {
    claviger_key_cache_requests_total: [
      "Look-ups of keys in the cache, by whether it held an issued key",
      samplesBy("result", { hit: stats.hits, miss: stats.misses }),
    ],
    claviger_key_cache_entries: [
      "Entries of the cache: issued keys, and for one second keys that were not found",
      samplesBy("kind", { known: stats.keys, unknown: stats.unknownKeys }),
    ],
    claviger_key_lookups_waiting: [
      "Requests that wait until the database has looked up their key",
      stats.waiting,
    ],
    claviger_key_lookups_refused_total: [
      "Look-ups refused because too many were waiting, or one waited too long",
      stats.turnedAway,
    ],
  };
}

function ofEvents({ events, upkeep, usageUpkeep }: MetricsSources): Metrics {
  const stats = events.stats();
  const { kept, dropped } = usageUpkeep.stats();
  return {
    claviger_event_queue_length: ["Usage events that wait for their commit", stats.queued],
    claviger_event_queue_bytes: ["Memory of the waiting events, estimated", stats.queuedBytes],
    claviger_events_committed_total: ["Usage events that were committed and acknowledged", stats.committed],
    claviger_events_truncated_total: [
      "Usage events that were stored without their texts, because the license or the installation had no room for them",
      stats.truncated,
    ],
    claviger_events_turned_away_total: [
      "Usage events refused because the queue was full, too slow or closed",
      stats.turnedAway,
    ],
    claviger_event_batch_size: ["Number of events in one commit", stats.batches],
    claviger_event_retention_months: ["For how many months events are kept; 0 means forever", kept],
    claviger_event_partitions_dropped_total: [
      "Partitions dropped because their events were older than the retention",
      dropped,
    ],
    claviger_upkeep_failures_total: [
      "Failures of upkeep tasks, by task; a failed task is tried again, and the log has the reason",
      samplesBy("task", upkeep.stats().failures),
    ],
  };
}

function ofDatabase({ database, directory, writes, dataDir }: MetricsSources): Metrics {
  const stats = database.stats();
  const { outages, failures } = directory.stats();
  return {
    claviger_database_up: [
      "1 while the database answers; otherwise requests with a key get 503",
      Number(directory.isTrusted()),
    ],
    claviger_database_writable: [
      "0 while the database answers but refuses writes, as on a full disk: events get 503",
      Number(writes.isWritable()),
    ],
    claviger_disk_free_bytes: ["Free space on the disk of the data folder", findFreeBytes(dataDir)],
    claviger_database_outages_total: ["Times that the database stopped answering", outages],
    claviger_database_pulse_failures_total: [
      "Pulses (queries for changes, four a second) that the database did not answer",
      failures,
    ],
    claviger_database_connections_max: ["Connections that the pool may have", stats.connections],
    claviger_database_statements_running: ["Statements that run or wait for a connection", stats.running],
    claviger_database_statements_total: ["Statements sent to the database", stats.statements],
    claviger_database_deadlines_missed_total: [
      "Statements that were not answered before their deadline",
      stats.deadlinesMissed,
    ],
    claviger_database_pools_replaced_total: [
      "Times that all connections were replaced after a missed deadline",
      stats.poolsReplaced,
    ],
  };
}

/** Returns the free space of the data folder's disk; undefined if there is no folder, as with an external database. */
function findFreeBytes(dataDir: string): number | undefined {
  try {
    const { bavail, bsize } = statfsSync(dataDir);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}

function ofTokens({ tokens }: MetricsSources): Metrics {
  if (tokens === undefined) return {};
  const { minted, failed } = tokens.stats();
  return {
    claviger_installer_token_mints_total: [
      "Requests to the host for a repository token, by result",
      samplesBy("result", { ok: minted, failed }),
    ],
  };
}

function ofModelFiles({ servedFiles }: MetricsSources): Metrics {
  const text =
    "Model files found in the folder, fetched from the bucket, not to be had, and refused to a license beyond its share";
  const stats = servedFiles.stats();
  return stats ? { claviger_model_cache_files_total: [text, samplesBy("result", stats)] } : {};
}

function ofNotices(counts: Readonly<Record<NoticeKind, number>> | undefined): Metrics {
  if (counts === undefined) return {};
  return { claviger_open_notices: ["Notices that are open, by kind", samplesBy("kind", counts)] };
}

function ofFollowers({ auditWaits }: MetricsSources): Metrics {
  if (auditWaits === undefined) return {};
  return {
    claviger_audit_followers_waiting: [
      `Requests of followers that wait for rows of the audit log in this process, at most ${MOST_WAITING}`,
      auditWaits.count(),
    ],
  };
}

/** Returns the times that alerts compare with now. */
function ofTimes({ certificateExpiresAt }: MetricsSources, lastBackup: LastBackup | undefined): Metrics {
  const toSeconds = (at: Date | undefined) => at && at.getTime() / 1_000;
  return {
    claviger_last_backup_timestamp_seconds: [
      "When the last backup was taken, as Unix time; before the first one, when the database was made",
      toSeconds(lastBackup?.since),
    ],
    claviger_backup_due_timestamp_seconds: [
      "When the next backup is overdue, as Unix time: CLAVIGER_BACKUP_OVERDUE_HOURS after the last one",
      toSeconds(lastBackup?.dueAt),
    ],
    claviger_backup_missing_model_files: [
      "How many model files the last backup with model files could not save",
      lastBackup && (lastBackup.missingModels ?? 0),
    ],
    claviger_tls_not_after_timestamp_seconds: [
      "When the certificate ends, as Unix time",
      toSeconds(certificateExpiresAt()),
    ],
  };
}
