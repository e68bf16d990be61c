import type { FigureComputer } from "../../figures/mod.ts";
import { LISTED_STATES, TIERS } from "../../licensing/mod.ts";
import { type Family, several, single } from "./exposition.ts";

/**
 * Returns the stored figures, and demands new ones for the next request: without a listener for operators, nobody else
 * demands them. The names are those of `GET /admin/v1/figures`. Nothing before the first figures.
 */
export function figureMetrics({ demand, latest }: Pick<FigureComputer, "demand" | "latest">): Family[] {
  demand();
  const figures = latest();
  if (figures === undefined) return [];
  const { keys, nearQuota, expiring, unused, asOf } = figures;
  const keysOf = (tier: string, state: string) =>
    keys.rows.find((row) => row.tier === tier && row.state === state)?.count ?? 0;
  return [
    several("gauge", "claviger_keys", {
      help: "Keys by tier and state, as they were counted last",
      samples: TIERS.flatMap((tier) =>
        LISTED_STATES.map((state) => ({ labels: { tier, state }, value: keysOf(tier, state) })),
      ),
    }),
    several("gauge", "claviger_unused_keys", {
      help: "Keys that were neither used nor issued for this many days",
      samples: unused.rows.map(({ days, count }) => ({ labels: { days: String(days) }, value: count })),
    }),
    single("gauge", "claviger_near_quota_licenses", {
      help: "Licenses that used 80 % of their month's limit or more",
      value: nearQuota.licenses,
    }),
    single("gauge", "claviger_expiring_licenses", {
      help: "Licenses that expire within 90 days and have a key that is not revoked",
      value: expiring.licenses,
    }),
    single("gauge", "claviger_figures_as_of_seconds", {
      help: "When the oldest of the stored figures was counted, in seconds since 1970",
      value: asOf.getTime() / 1_000,
    }),
  ];
}
