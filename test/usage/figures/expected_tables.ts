/** The tables that the pages Overview and Usage must have, made from counts. */
import type { Tables } from "../../support/page_tables.ts";
import type { SqlCounts, UseOfDay } from "./count_by_sql.ts";
import { countsBy, sumsOf } from "./expected_activity.ts";
import type { Answers } from "./simulated_days.ts";

type Rows<Name extends keyof SqlCounts> = SqlCounts[Name] extends (...of: never[]) => Promise<infer Found>
  ? Found
  : never;

const TIERS = ["free", "research", "commercial", "enterprise"];
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const TOP = 10;

const text = (count: number) => count.toLocaleString("en-US");
const sumOf = (rows: readonly { readonly used: number }[]) => rows.reduce((sum, { used }) => sum + used, 0);
const dayOf = (atMs: number) => new Date(atMs).toISOString().slice(0, 10);

/** A row for each column of a chart, with each tier and the sum. */
function byTier(
  name: string,
  columns: readonly string[],
  use: readonly { column: string; tier: string; used: number }[],
) {
  const rows = columns.map((label, index) => {
    const ofColumn = use.filter(({ column }) => column === label);
    return [
      // The last day or month is the present one.
      index === columns.length - 1 ? `${label}, not over` : label,
      ...TIERS.map((of) => text(sumOf(ofColumn.filter(({ tier }) => tier === of)))),
      text(sumOf(ofColumn)),
    ];
  });
  return [[name, ...TIERS, "All"], ...rows.toReversed()];
}

export interface OverviewCounts {
  readonly keys: Rows<"keys">;
  readonly consumers: Rows<"consumers">;
  readonly unused: Rows<"unused">;
  readonly use: readonly UseOfDay[];
  readonly answers: readonly Answers[];
  readonly now: Date;
}

export function overviewTables({ keys, consumers, unused, use, answers, now }: OverviewCounts): Tables {
  const lastDays = Array.from({ length: 90 }, (_, index) => dayOf(now.getTime() - (89 - index) * DAY_MS));
  const states = ["active", "suspended", "revoked", "expired"];
  const keysOf = (tier: string, state: string) =>
    keys
      .filter((row) => [row.tier, "all"].includes(tier) && [row.state, "all"].includes(state))
      .reduce((sum, { count }) => sum + count, 0);
  const named = (...names: string[]) => names.filter((name) => name !== "").join(" ");
  const from = now.getTime() - 23 * HOUR_MS - (now.getTime() % HOUR_MS);
  const codes = sumsOf(countsBy("code", answers).filter(({ at }) => at.getTime() >= from));
  const refused = codes.filter(([code]) => code !== "OK").sort(([, a], [, b]) => b - a);
  const sum = (of: readonly (readonly [string, number])[]) => of.reduce((all, [, count]) => all + count, 0);
  const share = ((sum(refused) * 100) / sum(codes)).toFixed(1);
  return {
    "Inferences per day, last 90 days": byTier(
      "Day",
      lastDays,
      use.map(({ day, ...row }) => ({ column: day, ...row })),
    ),
    "Each number links to its keys": [
      ["Tier", ...states, "all"],
      ...[...TIERS, "all"].map((tier) => [
        tier,
        ...[...states, "all"].map((state) => text(keysOf(tier, state))),
      ]),
    ],
    [`In ${dayOf(now.getTime()).slice(0, 7)}`]: [
      ["Account", "Inferences"],
      ...consumers
        .slice(0, TOP)
        .map(({ email, organization, used }) => [named(email, organization), text(used)]),
    ],
    "Keys that were neither used nor issued in this time": [
      ["Unused for", "Keys"],
      ...unused.map((row) => [`${row.days} days`, text(row.keys)]),
    ],
    [`${text(sum(refused))} of ${text(sum(codes))} requests, ${share} %`]: [
      ["Cause", "Requests"],
      ...refused.slice(0, TOP).map(([code, count]) => [code, text(count)]),
    ],
  };
}

/** Cuts the words off that explain a code. */
export function cutWords(tables: Tables): Tables {
  const cut = (row: readonly string[]) => [
    (row[0] ?? "").replace(/^(?:.* )?([A-Z]+_[A-Z_]+)(?: .*)?$/, "$1"),
    ...row.slice(1),
  ];
  return Object.fromEntries(Object.entries(tables).map(([caption, rows]) => [caption, rows.map(cut)]));
}

export interface UsageCounts {
  /** `2026-11`. */
  readonly month: string;
  readonly now: Date;
  readonly use: readonly UseOfDay[];
  readonly imported: Rows<"importedByMonth">;
}

export function usageTables({ month, now, use, imported }: UsageCounts): Tables {
  const all = [
    ...use.map(({ day, ...row }) => ({ ...row, column: day.slice(0, 7), isImported: false })),
    ...imported.map((row) => ({ ...row, column: row.month, isImported: true })),
  ];
  const ofMonth = all.filter(({ column }) => column === month);
  const rows = [...TIERS, "all"].map((name) => {
    const ofTier = ofMonth.filter(({ tier }) => name === "all" || tier === name);
    const test = ofTier.filter(({ mode }) => mode === "test");
    return [
      name,
      ...[ofTier, test, ofTier.filter(({ isImported }) => isImported)].map((of) => text(sumOf(of))),
    ];
  });
  const months = Array.from({ length: 12 }, (_, index) =>
    dayOf(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 11 + index)).slice(0, 7),
  );
  return {
    "Inferences by the tier that the license had on the day": [
      ["Tier", "Inferences", "With test keys", "Imported"],
      ...rows,
    ],
    "Inferences per month, the last twelve months": byTier("Month", months, all),
  };
}

/** The licenses in the order of the page: the most used first, and of equal ones the one that was made last. */
export function mostUsedFirst(all: Rows<"licensesOf">): Rows<"licensesOf"> {
  return all.toSorted((one, other) => other.used - one.used || (one.license < other.license ? 1 : -1));
}

/** The rows of the page that begins after `skipped` of all licenses. */
export function customerTable(month: string, all: Rows<"licensesOf">, skipped = 0): Tables {
  const licenses = all.slice(skipped, skipped + 50);
  const place =
    all.length <= 50
      ? `${all.length} license${all.length === 1 ? "" : "s"}`
      : `${skipped + 1} to ${skipped + licenses.length} of ${all.length} licenses`;
  return {
    [`${place} that used anything in ${month}, most used first`]: [
      ["Customer", "License", "Tier", "Mode", "Used"],
      ...licenses.map(({ email, organization, license, tier, mode, used, limit }) => [
        ...[`${organization} ${email}`.trim(), license, tier, mode],
        limit === null ? `${text(used)}, unlimited` : usedOf(used, limit),
      ]),
    ],
  };
}

function usedOf(used: number, limit: number): string {
  const percent = Math.floor((used * 100) / limit);
  return `${text(used)} of ${text(limit)}${percent >= 80 ? ` ${percent} % used` : ""}`;
}
