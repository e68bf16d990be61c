/**
 * Reads the text format 0.0.4 of Prometheus strictly: throws at the first violation of its rules.
 *
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export interface ParsedFamily {
  readonly type: string;
  readonly help: string;
  /** Keyed by the sample's name and labels: `name{a="b"}`, with labels sorted by name. */
  readonly samples: Map<string, number>;
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)/y;

export function parseExposition(text: string): Map<string, ParsedFamily> {
  if (!text.endsWith("\n")) throw new Error("The last line has no end");
  const families = new Map<string, ParsedFamily>();
  let current: { name: string; family: ParsedFamily } | undefined;
  let help: { name: string; text: string } | undefined;
  for (const line of text.slice(0, -1).split("\n")) {
    const [, word, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (word === "HELP") {
      if (families.has(name) || !NAME.test(name)) throw new Error(`A family twice, or misnamed: ${line}`);
      help = { name, text: rest };
    } else if (word === "TYPE") {
      if (help?.name !== name) throw new Error(`No HELP before: ${line}`);
      if (!["counter", "gauge", "histogram"].includes(rest)) throw new Error(`No such type: ${line}`);
      if ((rest === "counter") !== name.endsWith("_total")) throw new Error(`Misnamed counter: ${line}`);
      current = { name, family: { type: rest, help: help.text, samples: new Map() } };
      families.set(name, current.family);
    } else {
      readSample(line, current);
    }
  }
  for (const [name, { type, samples }] of families) {
    if (samples.size === 0) throw new Error(`No samples of ${name}`);
    if (type === "histogram") checkHistogram(name, samples);
  }
  return families;
}

function readSample(line: string, current: { name: string; family: ParsedFamily } | undefined): void {
  const [, name = "", labels, value = ""] = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  const suffixes = current?.family.type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
  if (current === undefined || !suffixes.some((suffix) => name === current.name + suffix)) {
    throw new Error(`A sample of no family: ${line}`);
  }
  const number = value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value);
  if (value === "" || Number.isNaN(number)) throw new Error(`No number: ${line}`);
  const key = `${name}{${readLabels(labels ?? "", line)}}`;
  if (current.family.samples.has(key)) throw new Error(`A sample twice: ${line}`);
  current.family.samples.set(key, number);
}

function readLabels(text: string, line: string): string {
  const pairs: string[] = [];
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < text.length) {
    const match = LABEL.exec(text);
    if (match === null) throw new Error(`Bad labels: ${line}`);
    pairs.push(`${match[1]}="${match[2]}"`);
  }
  if (new Set(pairs.map((pair) => pair.split("=")[0])).size < pairs.length) throw new Error(`Twice: ${line}`);
  return pairs.toSorted().join(",");
}

/** Checks that the buckets ascend and end with `+Inf`, and that this last one equals the count. */
function checkHistogram(name: string, samples: Map<string, number>): void {
  const series = new Map<string, { le: number; value: number }[]>();
  for (const [key, value] of samples) {
    if (!key.startsWith(`${name}_bucket{`)) continue;
    const le = /le="([^"]*)"/.exec(key)?.[1] ?? "";
    const rest = key
      .slice(name.length + 7)
      .replace(/,?le="[^"]*"/, "")
      .replace("{,", "{");
    const buckets = series.get(rest) ?? [];
    buckets.push({ le: le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le), value });
    series.set(rest, buckets);
  }
  if (series.size === 0) throw new Error(`No buckets of ${name}`);
  for (const [labels, buckets] of series) {
    for (const [i, { le, value }] of buckets.entries()) {
      const before = buckets[i - 1];
      if (before !== undefined && (before.le >= le || before.value > value)) {
        throw new Error(`Buckets of ${name}${labels} do not ascend`);
      }
    }
    const last = buckets.at(-1);
    if (last?.le !== Number.POSITIVE_INFINITY || last.value !== samples.get(`${name}_count${labels}`)) {
      throw new Error(`The buckets of ${name}${labels} do not end in its count`);
    }
    if (!samples.has(`${name}_sum${labels}`)) throw new Error(`No sum of ${name}${labels}`);
  }
}
