/** Compares the stored figures, and the use by day, by month and by customer, with counts by SQL. */
import { expect } from "bun:test";
import { until } from "../../support/until.ts";
import { customerTable, cutWords, mostUsedFirst, overviewTables, usageTables } from "./expected_tables.ts";
import type { Shown } from "./shown_figures.ts";

/** Compares the stored figures: on the overview, in the API and in the metrics of both services. */
export async function compareFigures(shown: Shown): Promise<void> {
  const { days, counts } = shown;
  const { figures, page, metrics, sql } = await readFigures(shown);
  for (const { length } of [sql.keys, sql.consumers, sql.expiring, sql.unused])
    expect(length).toBeGreaterThan(0);
  const use = await counts.useByDay();
  const expected = overviewTables({ ...sql, use, answers: days.answers(), now: days.clock.now() });
  expect(cutWords(page)).toEqual(expected);
  expect(figures.keys.data).toEqual(sql.keys.map(({ count: keys, ...row }) => ({ ...row, keys })));
  expect(figures.consumers.data).toEqual(sql.consumers);
  for (const [name, rows] of [
    ["near_quota", sql.nearQuota],
    ["runs_out", sql.runsOut],
    ["expiring", sql.expiring],
  ] as const)
    expect(figures[name]).toMatchObject({ licenses: rows.length, data: rows.slice(0, 100) });
  expect(figures.unused.data).toEqual(sql.unused);
  for (const samples of metrics) {
    const found = [...samples].filter(([name]) =>
      /^claviger_(keys|unused_keys|near_quota|running_out|expiring)/.test(name),
    );
    const expectedSamples: [string, number][] = [
      ...sql.keys.map((row): [string, number] => [
        `claviger_keys{state="${row.state}",tier="${row.tier}"}`,
        row.count,
      ]),
      ...sql.unused.map((row): [string, number] => [`claviger_unused_keys{days="${row.days}"}`, row.keys]),
      ["claviger_near_quota_licenses{}", sql.nearQuota.length],
      ["claviger_running_out_licenses{}", sql.runsOut.length],
      ["claviger_expiring_licenses{}", sql.expiring.length],
    ];
    const counted = (all: [string, number][]) => all.filter(([, value]) => value > 0).sort();
    expect(counted(found)).toEqual(counted(expectedSamples));
  }
}

/** Reads new figures, and what SQL counts for the same instants. */
async function readFigures({ days, counts, readPage, callApi, readMetrics }: Shown) {
  for (;;) {
    const before = await counts.fingerprint();
    await days.advance(70_000);
    const askedMs = days.clock.nowMs();
    const figures = await until(async () => {
      const found = await callApi("/figures");
      return Date.parse(found.as_of) >= askedMs - 1_000 && found;
    });
    const asOf = (name: string) => new Date(figures[name].as_of);
    const sql = {
      keys: await counts.keys(asOf("keys")),
      consumers: await counts.consumers(asOf("consumers")),
      nearQuota: await counts.nearQuota(asOf("near_quota")),
      runsOut: await counts.runsOut(asOf("runs_out")),
      expiring: await counts.expiring(asOf("expiring")),
      unused: await counts.unused(asOf("unused")),
    };
    const page = await readPage("/overview");
    const metrics = await until(async () => {
      const found = await readMetrics();
      const isNew = (samples: ReadonlyMap<string, number>) =>
        (samples.get("claviger_figures_as_of_seconds{}") ?? 0) * 1_000 >= askedMs - 1_000;
      return found.every(isNew) && found;
    });
    // A service may have written meanwhile when a key was used last.
    if ((await counts.fingerprint()) === before) return { figures, page, metrics, sql };
  }
}

/** Compares a month by tier and by customer, twelve months, and the export for accounting. */
export async function compareUsage({ days, counts, commands, readPage, callApi }: Shown): Promise<void> {
  const now = days.clock.now();
  const [use, imported] = [await counts.useByDay(), await counts.importedByMonth()];
  for (const month of new Set(use.map(({ day }) => day.slice(0, 7)))) {
    const licenses = await counts.licensesOf(month);
    const byUse = mostUsedFirst(licenses);
    expect(await readPage(`/usage?month=${month}`)).toEqual({
      ...usageTables({ month, now, use, imported }),
      ...customerTable(month, byUse),
    });
    if (byUse.length > 50)
      expect(await readPage(`/usage?month=${month}&after=${byUse[49]?.license}`)).toEqual(
        customerTable(month, byUse, 50),
      );
    const exported: { license_id: string; mode: string; used: number }[] = await commands.json([
      ...["usage", "export", "--month", month],
    ]);
    expect(exported.map(({ license_id, mode, used }) => ({ license: license_id, mode, used }))).toEqual(
      licenses.map(({ license, mode, used }) => ({ license, mode, used })),
    );
    const [year = 0, number = 0] = month.split("-").map(Number);
    const lastDay = new Date(Date.UTC(year, number, 0)).toISOString().slice(0, 10);
    const daily = await callApi(`/usage/daily?from=${month}-01&to=${lastDay}`);
    expect([month, sumOf(daily.data) + sumOf(daily.imported)]).toEqual([month, sumOf(exported)]);
  }
}

/** Compares the use by day and by month of import, for each tier and for each mode. */
export async function compareDays({ counts, callApi }: Shown): Promise<void> {
  const [use, imported] = [await counts.useByDay(), await counts.importedByMonth()];
  for (const by of ["tier", "mode"] as const) {
    const found = await callApi(`/usage/daily?from=2026-10-01&to=2026-12-31&by=${by}`);
    const sumBy = (rows: readonly { at: string; tier: string; mode: string; used: number }[]) =>
      [...Map.groupBy(rows, (row) => `${row.at} ${row[by]}`)].map(([name, of]) => [name, sumOf(of)]).sort();
    const shown = (rows: readonly Record<string, string>[], at: string) =>
      rows.map((row) => [`${row[at]} ${row[by]}`, row.used]).sort();
    expect(shown(found.data, "day")).toEqual(
      sumBy(use.map(({ day, ...row }) => ({ at: day, ...row }))) as never,
    );
    expect(shown(found.imported, "month")).toEqual(
      sumBy(imported.map(({ month, ...row }) => ({ at: month, ...row }))) as never,
    );
  }
}

const sumOf = (rows: readonly { readonly used: number }[]) => rows.reduce((sum, { used }) => sum + used, 0);
