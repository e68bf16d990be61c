/** Compares the answers that clients got with the rows in the database, while no request is open. */
import { systemClock } from "../../src/base/clock.ts";
import { parseId } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { type Database, openDatabase, toTextArray } from "../../src/database/mod.ts";
import { hashApiKey } from "../../src/licensing/keys/mod.ts";
import type { Ledger, Tally } from "./ledger.ts";
import type { LoadKeys } from "./load.ts";
import { addressOf, type Cluster } from "./postgres_process.ts";

/** Enough for a scan of all events on a busy machine. */
const DEADLINE_MS = 60_000;

interface Row {
  readonly hash: string;
  readonly monthlyLimit: number | null;
  readonly used: number;
  readonly byDay: number;
  readonly units: number;
  readonly others: number;
  readonly claims: number;
}

/** The use of each license by its counter, keyed by API key, to compare with the answers to clients. */
export type Used = ReadonlyMap<string, number>;

/**
 * Checks that every acknowledged event of the round (with `all`: of the whole run) is stored exactly once, and that
 * the counts of every license match its events. Returns the counts.
 */
export async function auditDatabase(
  cluster: Cluster,
  { ledger, keys, all = false }: { readonly ledger: Ledger; readonly keys: LoadKeys; readonly all?: boolean },
): Promise<Used> {
  return await withDatabase(cluster, async (database) => {
    await auditIdentifiers(database, ledger, all);
    return await auditCounts(database, ledger, keys);
  });
}

export async function withDatabase<Result>(
  cluster: Cluster,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  const database = openDatabase(addressOf(cluster), {
    ...{ clock: systemClock, log: silentLog, maxConnections: 1, deadlineMs: DEADLINE_MS },
  });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function auditIdentifiers(database: Database, ledger: Ledger, all: boolean): Promise<void> {
  const told = all ? [...ledger.acknowledgedAll] : ledger.acknowledgedNow;
  const uuids = told.map((id) => parseId("evt", id) ?? "");
  const rows = await database.query<{ id: string; times: number }>(
    (sql) => sql`
      select id::text, count(*)::integer as times from events
       where id = any(${toTextArray(uuids)}::uuid[]) group by id`,
  );
  const times = new Map(rows.map((row) => [row.id, row.times]));
  const lost = uuids.filter((uuid) => !times.has(uuid));
  const doubled = rows.filter((row) => row.times > 1).map(({ id }) => id);
  if (lost.length > 0) ledger.violate("Nothing acknowledged is lost", { events: lost });
  if (doubled.length > 0) ledger.violate("Nothing acknowledged is stored twice", { events: doubled });
}

async function auditCounts(database: Database, ledger: Ledger, keys: LoadKeys): Promise<Used> {
  // One statement reads one moment: an event with an unknown result may still be committed at the same time.
  const rows = await database.query<Row>(
    (sql) => sql`
      select encode(k.hash, 'hex') as hash, l.monthly_limit as "monthlyLimit",
             coalesce(u.used, 0)::bigint as used, coalesce(u.by_day, 0)::bigint as "byDay",
             coalesce(e.units, 0)::bigint as units, coalesce(e.others, 0)::bigint as others,
             coalesce(c.claims, 0)::bigint as claims
        from keys k
        join licenses l on l.id = k.license_id
        left join (select license_id, sum(used) as used,
                          sum((select sum(day) from unnest(by_day) as day)) as by_day
                     from usage group by license_id) as u on u.license_id = l.id
        left join (select license_id, count(*) filter (where event_type = 'inference') as units,
                          count(*) filter (where event_type <> 'inference') as others
                     from events group by license_id) as e on e.license_id = l.id
        left join (select key_id, count(*) as claims from claims group by key_id) as c on c.key_id = l.id`,
  );
  const byHash = new Map(rows.map((row) => [row.hash, row]));
  const used = new Map<string, number>();
  for (const apiKey of [...keys.plain, ...keys.claimed, keys.limited]) {
    const row = byHash.get(hashApiKey(apiKey));
    const tally = ledger.tallyOf(apiKey);
    if (row === undefined) {
      ledger.violate("Issued keys stay in the database", { tally });
      continue;
    }
    used.set(apiKey, row.used);
    const broken = brokenCount(row, tally, keys.claimed.includes(apiKey));
    if (broken !== undefined) ledger.violate(broken, { tally: { ...tally }, row });
  }
  return used;
}

function brokenCount(row: Row, tally: Tally, isClaimed: boolean): string | undefined {
  if (row.used !== row.units || row.used !== row.byDay) return "What is used is what is stored";
  if (row.monthlyLimit !== null && row.used > row.monthlyLimit) return "No unit past the month's quota";
  if (isClaimed) {
    if (row.units !== tally.acknowledged || row.others !== tally.otherAcknowledged) {
      return "An event with an Idempotency-Key counts once";
    }
    if (row.claims !== row.units + row.others) return "Every event of an Idempotency-Key has its claim";
    return undefined;
  }
  const isBetween = (count: number, least: number, unknown: number) =>
    count >= least && count <= least + unknown;
  if (!isBetween(row.units, tally.acknowledged, tally.unknown)) return "Units are the acknowledged ones";
  if (!isBetween(row.others, tally.otherAcknowledged, tally.otherUnknown)) {
    return "Events without quota are the acknowledged ones";
  }
  return undefined;
}
