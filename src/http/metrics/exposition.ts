/**
 * Renders metrics in the text format 0.0.4 of Prometheus.
 *
 * Source: https://prometheus.io/docs/instrumenting/exposition_formats/
 */
import type { HistogramCounts } from "../../histogram.ts";

export type Labels = Readonly<Record<string, string>>;

interface About {
  /** The name ends with the unit, which is a base unit (seconds, bytes); the name of a counter ends in `_total`. */
  readonly name: string;
  /** One sentence without a period. */
  readonly help: string;
}

export interface PlainFamily extends About {
  readonly type: "counter" | "gauge";
  readonly samples: readonly { readonly labels?: Labels; readonly value: number }[];
}

export interface HistogramFamily extends About {
  readonly type: "histogram";
  readonly samples: readonly { readonly labels?: Labels; readonly histogram: HistogramCounts }[];
}

export type Family = PlainFamily | HistogramFamily;

export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Returns a family of numbers with labels. */
export function several(
  type: PlainFamily["type"],
  name: string,
  about: Pick<PlainFamily, "help" | "samples">,
): Family {
  return { type, name, ...about };
}

/** Returns a family of one number without labels. */
export function single(
  type: PlainFamily["type"],
  name: string,
  { help, value }: { help: string; value: number },
): Family {
  return several(type, name, { help, samples: [{ value }] });
}

/** Renders families in the given order; a family without samples is left out. */
export function renderExposition(families: readonly Family[]): string {
  let text = "";
  for (const family of families) {
    if (family.samples.length === 0) continue;
    text += `# HELP ${family.name} ${escaped(family.help)}\n# TYPE ${family.name} ${family.type}\n`;
    if (family.type === "histogram") {
      for (const { labels, histogram } of family.samples)
        text += histogramLines(family.name, labels, histogram);
    } else {
      for (const { labels, value } of family.samples) text += line(family.name, labels, value);
    }
  }
  return text;
}

/** Renders a histogram. In the format, buckets are cumulative, and the last bucket counts all values. */
function histogramLines(name: string, labels: Labels | undefined, histogram: HistogramCounts): string {
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

function line(name: string, labels: Labels | undefined, value: number): string {
  const pairs = Object.entries(labels ?? {}).map(([label, text]) => `${label}="${quoted(text)}"`);
  return `${name}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${number(value)}\n`;
}

function number(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
}

const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const quoted = (text: string) => escaped(text).replaceAll('"', '\\"');
