import { monthOf } from "../../base/calendar.ts";
import { type Database, toTextArray } from "../../database/mod.ts";
import {
  customModelsAt,
  type Entitled,
  entitlementsOf,
  type Featured,
  featuresAt,
  featuresChangeAt,
  isUnstartedSql,
  keyEnd,
  leastLimitOf,
  monthlyLimitOf,
  type Places,
  type Tier,
} from "../mod.ts";
import { parseKeyHash } from "./key_hash.ts";
import type { AccountNames, KeyRecord } from "./key_record.ts";

interface Row
  extends AccountNames,
    Featured,
    Entitled,
    Pick<Places, "maxMachines">,
    Pick<KeyRecord, "uuid" | "licenseUuid" | "accountUuid" | "state" | "tier" | "monthlyLimit"> {
  readonly hash: string;
  readonly expiresAt: Date;
  readonly updatesUntil: Date | null;
  readonly used: number;
}

/**
 * Finds keys by their hashes (64 hexadecimal digits each) in one statement, with the use of the month of
 * `nowMs`. Returns the keys that exist, by hash.
 */
export async function findKeysByHash(
  database: Database,
  hashes: readonly string[],
  nowMs: number,
): Promise<Map<string, KeyRecord>> {
  const month = monthOf(nowMs);
  const rows = await database.read<Row>(
    (sql) => sql`
      select encode(k.hash, 'hex') as hash, k.id as uuid, k.license_id as "licenseUuid",
             a.id as "accountUuid", a.email, a.name, a.organization,
             case when k.state = 'active' and ${isUnstartedSql(sql)} then 'unstarted' else k.state end as state, l.tier,
             l.monthly_limit as "monthlyLimit", ${keyEnd(sql)} as "expiresAt",
             l.updates_until as "updatesUntil", l.max_machines as "maxMachines", l.own_features as "ownFeatures",
             l.own_entitlements as "ownEntitlements", t.entitlements as "tierEntitlements",
             coalesce(u.used, 0) as used
        from keys k
        join licenses l on l.id = k.license_id
        join accounts a on a.id = l.account_id
        join tiers t on t.tier = l.tier
        left join usage u on u.license_id = l.id and u.month = ${month.firstDay}::date
       where k.hash = any(${toTextArray(hashes.map((hash) => `\\x${hash}`))}::bytea[])`,
  );
  return new Map(rows.map((row) => [row.hash, toRecord(row, month.index, nowMs)]));
}

/** Returns one shared string for equal texts: the driver creates a new string for each row. */
function intern<Text extends string>(text: Text): Text {
  const known = words.get(text);
  if (known !== undefined) return known as Text;
  words.set(text, text);
  return text;
}

/** The shared strings: the eight states and tiers, and the features of each tier. */
const words = new Map<string, string>();

/** Renders the features. Only those of a tier are shared: those beside it have no bound in number. */
function renderFeatures(row: Featured, now: Date): string {
  const features = JSON.stringify(featuresAt(row, now));
  return Object.keys(row.ownFeatures).length === 0 ? intern(features) : features;
}

/** The newest text of the values of each tier, for its licenses that have none of their own. */
const ofTiers = new Map<Tier, string>();

function renderEntitlements(row: Entitled & { readonly tier: Tier }): string {
  const text = JSON.stringify(entitlementsOf(row));
  if (text === "{}") return "";
  if (Object.keys(row.ownEntitlements).length > 0) return text;
  const known = ofTiers.get(row.tier);
  if (known === text) return known;
  ofTiers.set(row.tier, text);
  return text;
}

function toRecord(row: Row, monthIndex: number, nowMs: number): KeyRecord {
  const now = new Date(nowMs);
  const { hash0, hash1, hash2, hash3, hash4, hash5 } = parseKeyHash(row.hash);
  return {
    // The fields that every request reads come first, so that they are adjacent in memory.
    hash1,
    hash2,
    hash3,
    hash4,
    hash5,
    state: intern(row.state),
    expiresAtMs: row.expiresAt.getTime(),
    usage: { monthIndex, used: row.used },
    window: undefined,
    movedAtMs: 0,
    isUseNoted: false,
    answer: "",
    answeredUsage: undefined,
    answeredMonth: undefined,
    updatesUntilMs: row.updatesUntil?.getTime() ?? Number.POSITIVE_INFINITY,
    featuresChangeAtMs: featuresChangeAt(row, nowMs),
    hasCustomModels: customModelsAt(row, now),
    features: renderFeatures(row, now),
    entitlements: renderEntitlements(row),
    monthlyLimit: row.monthlyLimit ?? monthlyLimitOf(row.tier),
    hash0,
    leastLimit: leastLimitOf(row),
    quotaAt: 0,
    uuid: row.uuid,
    licenseUuid: row.licenseUuid,
    accountUuid: row.accountUuid,
    account: { email: row.email, name: row.name, organization: row.organization },
    tier: intern(row.tier),
  };
}
