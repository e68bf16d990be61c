import { toTimestamp } from "../../base/calendar.ts";
import { type CustomerOfFigures, type Figures, type LicenseOfFigures, SHOWN_FIGURES } from "./figures.ts";

/** Renders the stored figures as JSON. Metrics have the same names: `claviger_keys`, with the labels `tier` and `state`. */
export function renderFigures(figures: Figures | undefined) {
  if (figures === undefined)
    return { as_of: null, ...Object.fromEntries(SHOWN_FIGURES.map((name) => [name, null])) };
  const { keys, consumers, nearQuota, runsOut, expiring, unused, machines } = figures;
  const at = ({ asOf }: { readonly asOf: Date }) => ({ as_of: toTimestamp(asOf) });
  return {
    ...at(figures),
    keys: { ...at(keys), data: keys.rows.map(({ tier, state, count }) => ({ tier, state, keys: count })) },
    consumers: {
      ...at(consumers),
      month: consumers.month,
      data: consumers.rows.map(({ licenses, used, ...row }) => ({ ...customer(row), licenses, used })),
    },
    near_quota: {
      ...at(nearQuota),
      licenses: nearQuota.licenses,
      data: nearQuota.rows.map(({ limit, used, percent, ...row }) => ({
        ...license(row),
        monthly_limit: limit,
        used,
        percent,
      })),
    },
    runs_out: {
      ...at(runsOut),
      licenses: runsOut.licenses,
      data: runsOut.rows.map(({ limit, used, usedADay, day, ...row }) => ({
        ...license(row),
        monthly_limit: limit,
        used,
        used_a_day: usedADay,
        day,
      })),
    },
    expiring: {
      ...at(expiring),
      licenses: expiring.licenses,
      data: expiring.rows.map(({ expiresAt, ...row }) => ({
        ...license(row),
        expires_at: toTimestamp(expiresAt),
      })),
    },
    unused: { ...at(unused), data: unused.rows.map(({ days, count }) => ({ days, keys: count })) },
    machines: {
      ...at(machines),
      tiers: machines.tiers,
      data: machines.rows.map(({ limit, used, ...row }) => ({ ...license(row), max_machines: limit, used })),
    },
  };
}

function customer({ userId, email, organization }: CustomerOfFigures) {
  return { user_id: userId, email, organization };
}

function license({ licenseId, tier, ...row }: LicenseOfFigures) {
  return { license_id: licenseId, ...customer(row), tier };
}
