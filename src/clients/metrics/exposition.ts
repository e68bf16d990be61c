/**
 * Renders metrics in the text format 0.0.4 of Prometheus.
 *
 * Source: https://prometheus.io/docs/instrumenting/exposition_formats/
 */
import type { HistogramCounts } from "../../base/histogram.ts";

type Labels = Readonly<Record<string, string>>;

type Value = number | HistogramCounts;

export interface Sample {
  readonly labels: Labels;
  readonly value: Value;
}

/**
 * Metrics by name, in the order of the page. Each has one sentence without a period, and its value now or a sample for
 * each set of labels; undefined if it has no value now.
 *
 * A name ends with the unit, which is a base unit (seconds, bytes). The name of a counter ends in `_total`; all other
 * numbers are gauges.
 */
export type Metrics = Readonly<
  Record<string, readonly [help: string, value: Value | readonly Sample[] | undefined]>
>;

export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Returns a sample for each value of a label. */
export function samplesBy(label: string, values: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }));
}

/** Renders metrics; a metric without a value is left out. */
export function renderExposition(metrics: Metrics): string {
  let text = "";
  for (const [name, [help, shown]] of Object.entries(metrics)) {
    const samples = toSamples(shown);
    const [first] = samples;
    if (first === undefined) continue;
    text += `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${typeOf(name, first.value)}\n`;
    for (const { labels, value } of samples)
      text += typeof value === "number" ? line(name, labels, value) : histogramLines(name, labels, value);
  }
  return text;
}

function toSamples(shown: Metrics[string][1]): readonly Sample[] {
  if (shown === undefined) return [];
  return typeof shown === "number" || "counts" in shown ? [{ labels: {}, value: shown }] : shown;
}

function typeOf(name: string, value: Value): "counter" | "gauge" | "histogram" {
  if (typeof value !== "number") return "histogram";
  return name.endsWith("_total") ? "counter" : "gauge";
}

/** Renders a histogram. In the format, buckets are cumulative, and the last bucket counts all values. */
function histogramLines(name: string, labels: Labels, histogram: HistogramCounts): string {
  let text = "";
  let total = 0;
  for (const [i, count] of histogram.counts.entries()) {
    total += count;
    text += line(
      `${name}_bucket`,
      { ...labels, le: number(histogram.bounds[i] ?? Number.POSITIVE_INFINITY) },
      total,
    );
  }
  return `${text}${line(`${name}_sum`, labels, histogram.sum)}${line(`${name}_count`, labels, total)}`;
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${quoted(text)}"`);
  return `${name}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${number(value)}\n`;
}

function number(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
}

const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const quoted = (text: string) => escaped(text).replaceAll('"', '\\"');
