/** Compares the activity, and the counters of the metrics, with the answers that the clients got. */
import { expect } from "bun:test";
import { activityTables, beginOfPage, countsBy } from "./expected_activity.ts";
import type { Shown } from "./shown_figures.ts";

/**
 * Compares the activity by name and by step, on the latest page and on those before. Returns how many hours were marked as
 * unusual.
 */
export async function compareActivity({ days, readPage, callApi }: Shown): Promise<number> {
  const now = days.clock.now();
  const answers = days.answers();
  let unusual = 0;
  const pages = { hour: 6, day: 2, month: 1 } as const;
  for (const by of ["code", "endpoint", "reason"] as const)
    for (const step of ["hour", "day", "month"] as const) {
      let end = now;
      for (let page = 0; page < pages[step]; page++) {
        const query = `by=${by}&step=${step}${page === 0 ? "" : `&to=${end.toISOString()}`}`;
        const expected = activityTables({ by, step, to: end, now, answers });
        unusual += expected["Unusual hours, the latest first"]?.length ?? 0;
        expect({ query, ...(await readPage(`/activity?${query}`)) }).toEqual({ query, ...expected });
        const from = beginOfPage(end, step);
        const span = `from=${from.toISOString()}&to=${end.toISOString()}`;
        const { data } = await callApi(`/activity?by=${by}&step=${step}&${span}`);
        expect(data).toEqual(
          countsBy(by, answers, step)
            .filter(({ at }) => at >= from && at < end)
            .map((row) => ({
              at: row.at.toISOString().replace(".000", ""),
              [by]: row.name,
              http_requests: row.count,
            })),
        );
        end = from;
      }
    }
  return unusual;
}

/** Compares what both services counted since their start with the answers that the clients got. */
export async function compareCounters({ days, readMetrics }: Shown): Promise<void> {
  const answers = days.answers();
  const services = await readMetrics();
  const sumBy = (name: string, labels: readonly string[]) => {
    const sums = new Map<string, number>();
    for (const [sample, value] of services.flatMap((samples) => [...samples])) {
      if (value === 0 || !sample.startsWith(`${name}{`)) continue;
      const id = labels
        .map((label) => new RegExp(`[{,]${label}="([^"]*)"`).exec(sample)?.[1] ?? "")
        .join(" ");
      sums.set(id, (sums.get(id) ?? 0) + value);
    }
    return [...sums].sort();
  };
  const answeredBy = (
    labels: readonly ("endpoint" | "code" | "reason")[],
    isOf: (code: string) => boolean,
  ) => {
    const of = Map.groupBy(
      answers.filter(({ code }) => isOf(code)),
      (answer) => labels.map((label) => answer[label]).join(" "),
    );
    return [...of].map(([id, rows]) => [id, rows.reduce((sum, row) => sum + row.count, 0)]).sort();
  };
  const all = ["endpoint", "code", "reason"] as const;
  for (const [name, labels, isOf] of [
    ["http_requests_total", all, () => true],
    ["quota_exhausted_total", ["endpoint"], (code) => code === "QUOTA_EXCEEDED"],
    ["rate_limit_refusals_total", ["endpoint"], (code) => code === "RATE_LIMIT_EXCEEDED"],
  ] as readonly (readonly [string, readonly (typeof all)[number][], (code: string) => boolean])[])
    expect({ name, sums: sumBy(`claviger_${name}`, labels) }).toEqual({
      name,
      sums: answeredBy(labels, isOf) as never,
    });
}
