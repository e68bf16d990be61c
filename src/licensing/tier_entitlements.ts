/** The values that every license of a tier has, unless it has its own; see `entitlements.ts`. */
import * as v from "valibot";
import { auditCte, type By } from "../audit/mod.ts";
import { count, fieldsOf, renderFields } from "../base/answer_fields.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { constraintOf, type Database, type Sql } from "../database/mod.ts";
import {
  areTooMany,
  type EntitlementChanges,
  type Entitlements,
  entitlementsOf,
  refuseTooManyEntitlements,
  valuesSchema,
} from "./entitlements.ts";
import type { LicenseChanges } from "./license_changes.ts";
import { isRestricted, type Reading, UNRESTRICTED } from "./restriction.ts";
import { featuresOf, monthlyLimitOf, TIERS, type Tier } from "./tiers.ts";

export interface TierSummary {
  readonly tier: Tier;
  readonly entitlements: Entitlements;
  /** The licenses of the tier that have not expired; null for a restricted reader, who may not see all of them. */
  readonly licenses: number | null;
}

const field = fieldsOf<TierSummary>();

/** The fields of a tier in answers to operators. */
export const TIER_FIELDS = {
  tier: field(v.picklist(TIERS), ({ tier }) => tier),
  monthly_limit: field(
    v.nullable(count()),
    ({ tier }) => monthlyLimitOf(tier),
    "Inferences a month; null means unlimited",
  ),
  features: field(v.array(v.string()), ({ tier }) => featuresOf(tier)),
  entitlements: field(
    valuesSchema,
    ({ entitlements }) => entitlementsOf({ tierEntitlements: entitlements, ownEntitlements: {} }),
    "The values of its licenses that have no others of their own",
  ),
  licenses: field(
    v.nullable(count()),
    ({ licenses }) => licenses,
    "Its licenses that have not expired; null for a restricted token, which may not see all of them",
  ),
} as const;

/** Renders a tier as JSON, for `--json` of the commands and for the API. */
export function renderTier(tier: TierSummary) {
  return renderFields(TIER_FIELDS, tier);
}

/** Lists the tiers, the lowest first; only those that the restriction allows. */
export async function listTiers(
  database: Database,
  { now, restriction = UNRESTRICTED }: Reading,
): Promise<TierSummary[]> {
  const rows = await database.read<TierSummary>(
    (sql) => sql`
      select tier, entitlements, coalesce(counted.licenses, 0) as licenses
        from tiers
        left join (select tier, count(*) as licenses from licenses where expires_at > ${now}::timestamptz group by tier) as counted
             using (tier)`,
  );
  const seen = isRestricted(restriction)
    ? rows
        .filter(({ tier }) => restriction.tiers?.includes(tier) ?? true)
        .map((row) => ({ ...row, licenses: null }))
    : rows;
  return seen.toSorted((one, other) => TIERS.indexOf(one.tier) - TIERS.indexOf(other.tier));
}

/** The values of each tier. */
export type TierEntitlements = ReadonlyMap<Tier, Entitlements>;

/** Finds the values of all tiers, without counting their licenses. */
export async function findTierEntitlements(database: Database): Promise<TierEntitlements> {
  const rows = await database.read<Pick<TierSummary, "tier" | "entitlements">>(
    (sql) => sql`select tier, entitlements from tiers`,
  );
  return new Map(rows.map(({ tier, entitlements }) => [tier, entitlements]));
}

interface Options extends By {
  readonly tier: Tier;
  readonly change: EntitlementChanges;
  /** The values that were shown before the change: it is refused if the tier has others by now. */
  readonly seen?: Entitlements | undefined;
  /** Only says what would be changed, and for how many licenses. */
  readonly isDryRun?: boolean;
}

export interface ChangedTier {
  readonly tier: Tier;
  readonly before: Entitlements;
  readonly after: Entitlements;
  /** How many licenses of the tier that have not expired get another value by it. */
  readonly licenses: number;
  /** False in a dry run, too. */
  readonly isChanged: boolean;
  /** Whether the tier already had these values. */
  readonly isSame: boolean;
}

/** Renders a change of a tier as JSON, for `--json` of the command and for the API. */
export function renderChangedTier({ tier, before, after, licenses, isChanged }: ChangedTier) {
  const { of } = TIER_FIELDS.entitlements;
  const [was, is] = [before, after].map((entitlements) => of({ tier, entitlements, licenses }));
  return { tier, before: was ?? {}, entitlements: is ?? {}, licenses, changed: isChanged };
}

interface Row extends ChangedTier {
  readonly isAsSeen: boolean;
}

const WHAT = "change values of tier";

/**
 * Changes values of a tier, for all its licenses that have no value of that name of their own. Every process applies it
 * within a second. Refuses too many values, and values that changed since they were `seen`.
 */
export async function changeTier(changes: LicenseChanges, options: Options): Promise<ChangedTier | Refusal> {
  let row: Row | undefined;
  try {
    const build = (sql: Sql) => changeStatement(sql, options);
    // What is only foreseen leaves the cache as it is.
    [row] = await (options.isDryRun ? changes.database.query<Row>(build) : changes.changeAll<Row>(build));
  } catch (error) {
    if (constraintOf(error) !== "entitlements_bounded") throw error;
    return refuseTooManyEntitlements(WHAT, "tier", "entitlements");
  }
  if (row === undefined) throw new Error(`There is no row of the tier ${options.tier}`);
  // A change that is only foreseen is refused like one that is made.
  if (areTooMany(row.after)) return refuseTooManyEntitlements(WHAT, "tier", "entitlements");
  if (!row.isAsSeen)
    return refuse(
      "CONFLICT",
      `Cannot ${WHAT}: it was changed after these values were shown; look at it again`,
    );
  return row;
}

function changeStatement(sql: Sql, { tier, change, seen, isDryRun = false, actor, now }: Options) {
  return sql`
    with old as (
      select tier, entitlements, jsonb_strip_nulls(entitlements || ${JSON.stringify(change)}::text::jsonb) as new_entitlements,
             ${seen === undefined ? sql`true` : sql`entitlements = ${JSON.stringify(seen)}::text::jsonb`} as is_as_seen
        from tiers where tier = ${tier} for update
    ),
    differing as (
      select array_agg(name) as names
        from old, jsonb_object_keys(entitlements || new_entitlements) as name
       where entitlements->name is distinct from new_entitlements->name
    ),
    changed as (
      update tiers t set entitlements = new_entitlements
        from old
       where t.tier = old.tier and is_as_seen and old.entitlements <> new_entitlements and not ${isDryRun}::boolean
      returning jsonb_build_object('tier', t.tier, 'entitlements', old.entitlements) as before,
                jsonb_build_object('tier', t.tier, 'entitlements', t.entitlements) as after
    ),
    logged as (${auditCte(sql, { action: "tier.values", actor, at: now, from: sql`changed` })})
    select tier, entitlements as before, new_entitlements as after, is_as_seen as "isAsSeen",
           (select count(*) from licenses l
             where l.tier = old.tier and l.expires_at > ${now}::timestamptz and names is not null
               and not l.own_entitlements ?& names) as licenses,
           exists (select from changed) as "isChanged", entitlements = new_entitlements as "isSame"
      from old, differing`;
}
