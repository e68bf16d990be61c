/**
 * The dashboard for Grafana: every metric of the service is in one of its panels. A test compares the names with those
 * that a service exports.
 *
 * Source: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
 */

interface Panel {
  readonly title: string;
  /** A unit of Grafana, such as `s`, `bytes` or `reqps`. */
  readonly unit: string;
  /** Each expression with the legend of its lines. */
  readonly lines: readonly (readonly [expression: string, legend: string])[];
  readonly description?: string;
}

interface Section {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const RATE = "[$__rate_interval]";
const REQUESTS = "claviger_http_requests_total";
const SECONDS = "claviger_http_request_duration_seconds_bucket";

const SECTIONS: readonly Section[] = [
  {
    title: "Requests",
    panels: [
      {
        title: "Requests by endpoint",
        unit: "reqps",
        lines: [[`sum by (endpoint) (rate(${REQUESTS}${RATE}))`, "{{endpoint}}"]],
      },
      {
        title: "Refusals by code and reason",
        unit: "reqps",
        description: "The page Activity of the console and `claviger activity` show the same counts by hour.",
        lines: [
          [`sum by (code, reason) (rate(${REQUESTS}{status=~"4.."}${RATE})) > 0`, "{{code}} {{reason}}"],
        ],
      },
      {
        title: "Failures of the service",
        unit: "reqps",
        lines: [
          [`sum by (endpoint, code) (rate(${REQUESTS}{status=~"5.."}${RATE})) > 0`, "{{endpoint}} {{code}}"],
        ],
      },
      {
        title: "Duration: slowest hundredth and median",
        unit: "s",
        lines: [
          [`histogram_quantile(0.99, sum by (le, endpoint) (rate(${SECONDS}${RATE})))`, "99 % {{endpoint}}"],
          [`histogram_quantile(0.5, sum by (le) (rate(${SECONDS}${RATE})))`, "50 % of all"],
        ],
      },
      {
        title: "Refused by a rate limit",
        unit: "reqps",
        lines: [
          [
            `sum by (endpoint, by) (rate(claviger_rate_limit_refusals_total${RATE})) > 0`,
            "{{endpoint}} by {{by}}",
          ],
          [
            `sum by (endpoint) (rate(claviger_rate_limit_overflow_total${RATE})) > 0`,
            "{{endpoint}} table full",
          ],
        ],
      },
      {
        title: "Refused because the quota is used up",
        unit: "reqps",
        lines: [[`sum by (endpoint) (rate(claviger_quota_exhausted_total${RATE}))`, "{{endpoint}}"]],
      },
    ],
  },
  {
    title: "Keys and events",
    panels: [
      {
        title: "Keys answered from memory",
        unit: "percentunit",
        lines: [
          [
            `sum(rate(claviger_key_cache_requests_total{result="hit"}${RATE})) / ` +
              `sum(rate(claviger_key_cache_requests_total${RATE}))`,
            "from memory",
          ],
        ],
      },
      {
        title: "Look-ups of keys",
        unit: "short",
        lines: [
          ["sum by (instance) (claviger_key_lookups_waiting)", "waiting {{instance}}"],
          [
            `sum by (instance) (rate(claviger_key_lookups_refused_total${RATE}))`,
            "refused a second {{instance}}",
          ],
        ],
      },
      {
        title: "Events",
        unit: "reqps",
        lines: [
          [`sum by (instance) (rate(claviger_events_committed_total${RATE}))`, "committed {{instance}}"],
          [`sum by (instance) (rate(claviger_events_turned_away_total${RATE}))`, "turned away {{instance}}"],
        ],
      },
      {
        title: "Events of one commit",
        unit: "short",
        lines: [
          [
            `sum(rate(claviger_event_batch_size_sum${RATE})) / sum(rate(claviger_event_batch_size_count${RATE}))`,
            "average",
          ],
          ["sum by (instance) (claviger_event_queue_length)", "waiting {{instance}}"],
        ],
      },
      {
        title: "Entries in memory",
        unit: "short",
        lines: [
          ["sum by (kind) (claviger_key_cache_entries)", "keys: {{kind}}"],
          ["sum by (endpoint) (claviger_rate_limit_windows)", "windows: {{endpoint}}"],
        ],
      },
      {
        title: "Keys and licenses, as they were counted last",
        unit: "short",
        lines: [
          ["max by (tier, state) (claviger_keys)", "{{state}} {{tier}}"],
          ["max by (days) (claviger_unused_keys)", "unused for {{days}} days"],
          ["max(claviger_near_quota_licenses)", "licenses near their quota"],
          ["max(claviger_expiring_licenses)", "licenses that expire within 90 days"],
        ],
      },
      {
        title: "Installer tokens from the host",
        unit: "short",
        description: "Only with a GitHub App.",
        lines: [["sum by (result) (increase(claviger_installer_token_mints_total[1h]))", "{{result}}"]],
      },
    ],
  },
  {
    title: "Database",
    panels: [
      {
        title: "Database answers, and takes writes",
        unit: "short",
        lines: [
          ["claviger_database_up", "answers {{instance}}"],
          ["claviger_database_writable", "takes writes {{instance}}"],
        ],
      },
      {
        title: "Faults of the database in an hour",
        unit: "short",
        lines: [
          ["sum(increase(claviger_database_outages_total[1h]))", "outages"],
          [
            "sum(increase(claviger_database_pulse_failures_total[1h]))",
            "queries for changes without an answer",
          ],
          ["sum(increase(claviger_database_deadlines_missed_total[1h]))", "statements without an answer"],
          ["sum(increase(claviger_database_pools_replaced_total[1h]))", "pools replaced"],
        ],
      },
      {
        title: "Statements",
        unit: "reqps",
        lines: [[`sum by (instance) (rate(claviger_database_statements_total${RATE}))`, "{{instance}}"]],
      },
      {
        title: "Statements in progress",
        unit: "short",
        lines: [
          ["claviger_database_statements_running", "{{instance}}"],
          ["claviger_database_connections_max", "connections of {{instance}}"],
        ],
      },
      {
        title: "Upkeep in an hour",
        unit: "short",
        lines: [
          ["sum by (task) (increase(claviger_upkeep_failures_total[1h]))", "failures of {{task}}"],
          ["sum(increase(claviger_event_partitions_dropped_total[1h]))", "months of events dropped"],
          ["max(claviger_event_retention_months)", "months kept; 0 is forever"],
        ],
      },
      {
        title: "Free space on the disk of the data folder",
        unit: "bytes",
        lines: [["claviger_disk_free_bytes", "{{instance}}"]],
      },
    ],
  },
  {
    title: "Process",
    panels: [
      {
        title: "Memory",
        unit: "bytes",
        lines: [
          ["process_resident_memory_bytes", "resident {{instance}}"],
          ["claviger_heap_used_bytes", "heap {{instance}}"],
          ["claviger_event_queue_bytes", "waiting events {{instance}}"],
        ],
      },
      {
        title: "Processors in use",
        unit: "short",
        lines: [[`rate(process_cpu_seconds_total${RATE})`, "{{instance}}"]],
      },
      {
        title: "Open files",
        unit: "short",
        lines: [["process_open_fds", "{{instance}}"]],
      },
      {
        title: "Time since the start, and version",
        unit: "s",
        lines: [
          [
            "(time() - process_start_time_seconds) * on (instance) group_left (version) claviger_build_info",
            "{{version}} {{instance}}",
          ],
          ["claviger_stopping", "stopping {{instance}}"],
          ["time() - max(claviger_figures_as_of_seconds)", "age of the figures"],
        ],
      },
      {
        title: "Age of the last backup, and time until the certificate ends",
        unit: "s",
        lines: [
          ["time() - claviger_last_backup_timestamp_seconds", "backup {{instance}}"],
          ["claviger_tls_not_after_timestamp_seconds - time()", "certificate {{instance}}"],
        ],
      },
    ],
  },
];

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana replaces it by the chosen data source.
const SOURCE = { type: "prometheus", uid: "${datasource}" };
/** Grafana's grid has 24 columns; three panels stand beside each other. */
const PANEL = { w: 8, h: 8 };
const PANELS_A_ROW = 3;

/** Renders the dashboard as JSON, for Grafana's import. */
export function renderDashboard(): string {
  const dashboard = {
    title: "Claviger",
    uid: "claviger",
    tags: ["claviger"],
    schemaVersion: 39,
    editable: true,
    timezone: "utc",
    refresh: "1m",
    time: { from: "now-24h", to: "now" },
    templating: {
      list: [{ name: "datasource", label: "Data source", type: "datasource", query: "prometheus" }],
    },
    panels: renderPanels(),
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

function renderPanels(): object[] {
  const panels: object[] = [];
  let y = 0;
  const add = (panel: object) => panels.push({ id: panels.length + 1, ...panel });
  for (const section of SECTIONS) {
    add({
      type: "row",
      title: section.title,
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y, w: 24, h: 1 },
    });
    y++;
    for (const [index, { title, unit, lines, description }] of section.panels.entries()) {
      const row = Math.floor(index / PANELS_A_ROW);
      add({
        type: "timeseries",
        title,
        ...(description !== undefined && { description }),
        datasource: SOURCE,
        gridPos: { x: (index % PANELS_A_ROW) * PANEL.w, y: y + row * PANEL.h, ...PANEL },
        fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
        targets: lines.map(([expr, legendFormat], line) => ({
          refId: "ABCD"[line],
          datasource: SOURCE,
          expr,
          legendFormat,
        })),
      });
    }
    y += Math.ceil(section.panels.length / PANELS_A_ROW) * PANEL.h;
  }
  return panels;
}
