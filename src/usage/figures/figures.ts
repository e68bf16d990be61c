/** The stored figures: their types, and how they are read. `compute_figures.ts` computes them. */

import { toId } from "../../base/ids.ts";
import type { Database } from "../../database/mod.ts";
import type { ListedState, Tier } from "../../licensing/mod.ts";

/** For how many days keys are unused in the stored figures. */
export const UNUSED_DAYS = [30, 90, 180, 365] as const;
/** The stored figures have the licenses that used at least this percentage of their month's quota. */
export const NEAR_QUOTA_PERCENT = 80;
/** The stored figures have the licenses that expire within this number of days. */
export const EXPIRING_DAYS = 90;

/** The most days until a quota is used up that will not last: those of a month. */
export const MOST_DAYS_LEFT = 31;

/** A figure is exact for one instant, in which the database counted it. */
interface AsOf {
  readonly asOf: Date;
}

export interface Figures {
  /** The instant of the oldest of the figures. */
  readonly asOf: Date;
  readonly keys: AsOf & {
    /** Every tier and state that has keys. */
    readonly rows: readonly {
      readonly tier: Tier;
      readonly state: ListedState;
      readonly count: number;
    }[];
  };
  /** The accounts that used most in a month: at most a hundred, the largest one first. */
  readonly consumers: AsOf & {
    /** `2026-11`. */
    readonly month: string;
    readonly rows: readonly (CustomerOfFigures & {
      /** How many of its licenses used anything. */
      readonly licenses: number;
      readonly used: number;
    })[];
  };
  /** The licenses that used 80 % of their quota or more. */
  readonly nearQuota: AsOf & {
    /** How many keys the licenses have. */
    readonly keys: number;
    readonly licenses: number;
    /** At most a hundred: enterprise first, and then those with the highest percentage. */
    readonly rows: readonly (LicenseOfFigures & {
      readonly limit: number;
      readonly used: number;
      /** The whole part; 999 for any higher percentage. */
      readonly percent: number;
    })[];
  };
  /**
   * The licenses that will have used up their quota before the month ends, at their rate of the last seven days that are
   * over (UTC). A license counts from its seventh such day on after its first use, and while it has a key that is not
   * revoked, and has not expired.
   */
  readonly runsOut: AsOf & {
    /** How many keys the list of keys has: those of the licenses, and those whose quota is used up. */
    readonly keys: number;
    readonly licenses: number;
    /** At most a hundred: enterprise first, and then those that run out first. */
    readonly rows: readonly (LicenseOfFigures & {
      readonly limit: number;
      readonly used: number;
      /** The mean of the seven days. */
      readonly usedADay: number;
      /** `2026-11-27`, UTC. */
      readonly day: string;
    })[];
  };
  /** The licenses that expire within 90 days and have an active key. */
  readonly expiring: AsOf & {
    readonly licenses: number;
    /** At most a hundred, those that expire first. */
    readonly rows: readonly (LicenseOfFigures & { readonly expiresAt: Date })[];
  };
  /**
   * The number of keys that were neither used nor issued within this number of days. A key that is unused for 90 days
   * also counts for 30.
   */
  readonly unused: AsOf & {
    readonly rows: readonly { readonly days: (typeof UNUSED_DAYS)[number]; readonly count: number }[];
  };
  /** The licenses that count machines. */
  readonly machines: AsOf & {
    /** How many keys the licenses have whose places are all taken. */
    readonly keys: number;
    /** Every tier that has such licenses. */
    readonly tiers: readonly {
      readonly tier: Tier;
      readonly licenses: number;
      readonly places: number;
      readonly taken: number;
      /** The licenses whose places are all taken, and that have a key that is not revoked. */
      readonly full: number;
    }[];
    /** The licenses whose places are all taken: at most a hundred, the oldest first. */
    readonly rows: readonly (LicenseOfFigures & { readonly limit: number; readonly used: number })[];
  };
}

/** An account with its present names. */
export interface CustomerOfFigures {
  readonly userId: string;
  readonly email: string;
  readonly organization: string;
}

export interface LicenseOfFigures extends CustomerOfFigures {
  readonly licenseId: string;
  readonly tier: Tier;
}

/** The names of the figures that are shown. */
export const SHOWN_FIGURES = [
  "keys",
  "consumers",
  "near_quota",
  "runs_out",
  "expiring",
  "unused",
  "machines",
] as const;
/** The names of all stored figures: the others are orders of the list of keys. */
export const FIGURES = [...SHOWN_FIGURES, "most_used", "latest_used"] as const;

export type FigureName = (typeof FIGURES)[number];

/** Reads the last stored figures; undefined before all of them were computed for the first time. */
export async function readFigures(database: Database): Promise<Figures | undefined> {
  const stored = await database.read<StoredFigure>(
    (sql) => sql`
      select name, as_of as "asOf", value,
             (select json_agg(json_build_object('uuid', a.id, 'email', a.email, 'organization', a.organization))
                from accounts a
               where a.id in (select (row ->> 'account')::uuid from jsonb_array_elements(value -> 'rows') as row)
             ) as accounts
        from figures`,
  );
  const named = new Map(stored.map((figure) => [figure.name, figure]));
  const [keys, consumers, nearQuota, runsOut, expiring, unused, machines] = SHOWN_FIGURES.map((name) =>
    named.get(name),
  );
  if (!keys || !consumers || !nearQuota || !runsOut || !expiring || !unused || !machines) return undefined;
  return {
    asOf: new Date(Math.min(...stored.map(({ asOf }) => asOf.getTime()))),
    keys: toFigure(keys),
    consumers: toFigure(consumers),
    nearQuota: toFigure(nearQuota),
    runsOut: toFigure(runsOut),
    expiring: toFigure(expiring),
    unused: toFigure(unused),
    machines: toFigure(machines),
  };
}

interface StoredFigure {
  readonly name: FigureName;
  readonly asOf: Date;
  readonly value: { readonly rows: readonly StoredRow[] };
  readonly accounts: readonly { uuid: string; email: string; organization: string }[] | null;
}

interface StoredRow {
  readonly account?: string;
  readonly license?: string;
  readonly expiresAt?: string;
}

function toFigure<Figure extends AsOf>({ asOf, value, accounts }: StoredFigure): Figure {
  const known = new Map((accounts ?? []).map(({ uuid, ...names }) => [uuid, names]));
  const rows = value.rows.map(({ account, license, expiresAt, ...rest }) => ({
    ...rest,
    ...(account !== undefined && { userId: toId("usr", account), ...known.get(account) }),
    ...(license !== undefined && { licenseId: toId("lic", license) }),
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
  }));
  // The statements of `_figure_statements.ts` make values of this form.
  return { ...value, asOf, rows } as unknown as Figure;
}
