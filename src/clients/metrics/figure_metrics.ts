import { LISTED_STATES, TIERS } from "../../licensing/mod.ts";
import type { FigureComputer } from "../../usage/figures/mod.ts";
import type { Metrics } from "./exposition.ts";

/**
 * Returns the stored figures, and demands new ones for the next request: without a listener for operators, nobody else
 * demands them. The names are those of `GET /admin/v1/figures`. Nothing before the first figures.
 */
export function figureMetrics({ demand, latest }: Pick<FigureComputer, "demand" | "latest">): Metrics {
  demand();
  const figures = latest();
  if (figures === undefined) return {};
  const { keys, nearQuota, runsOut, expiring, unused, machines, asOf } = figures;
  const keysOf = (tier: string, state: string) =>
    keys.rows.find((row) => row.tier === tier && row.state === state)?.count ?? 0;
  const byTier = (name: "places" | "taken" | "full") =>
    machines.tiers.map(({ tier, [name]: value }) => ({ labels: { tier }, value }));
  return {
    claviger_keys: [
      "Keys by tier and state, as they were counted last",
      TIERS.flatMap((tier) =>
        LISTED_STATES.map((state) => ({ labels: { tier, state }, value: keysOf(tier, state) })),
      ),
    ],
    claviger_unused_keys: [
      "Keys that were neither used nor issued for this many days",
      unused.rows.map(({ days, count }) => ({ labels: { days: String(days) }, value: count })),
    ],
    claviger_near_quota_licenses: [
      "Licenses that used 80 % of their month's limit or more",
      nearQuota.licenses,
    ],
    claviger_running_out_licenses: [
      "Licenses whose quota is used up before the month ends, at the rate of the last seven days",
      runsOut.licenses,
    ],
    claviger_expiring_licenses: [
      "Licenses that expire within 90 days and have an active key",
      expiring.licenses,
    ],
    claviger_machine_places: ["Places for machines that licenses have, by tier", byTier("places")],
    claviger_machine_places_taken: ["Places for machines that are taken, by tier", byTier("taken")],
    claviger_full_licenses: ["Licenses whose places for machines are all taken, by tier", byTier("full")],
    claviger_figures_as_of_seconds: [
      "When the oldest of the stored figures was counted, in seconds since 1970",
      asOf.getTime() / 1_000,
    ],
  };
}
