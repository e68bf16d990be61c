/**
 * Where a machine stands: how far its reports were imported, and what its license has used. Decides whether a report is the
 * next one, and says what it would change. The statement of the import checks the same once more.
 */
import { DAY_MS, type Month, monthOf, toTimestamp } from "../../base/calendar.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Database, Fragment, Sql } from "../../database/mod.ts";
import { effectiveLimit, refuseUnknownLicense } from "../../licensing/mod.ts";
import type { UsageReport } from "./parse_report.ts";

/** What a month has: the units that its quota counts, and those beyond the limit. */
export interface MonthCounts {
  readonly used: number;
  readonly over: number;
}

/** What a report changes in a month, as it is stored and answered. */
export interface ChangedMonth {
  /** `2026-11`. */
  readonly month: string;
  /** The units of the report. */
  readonly units: number;
  /** Those of them that are beyond the limit. */
  readonly over: number;
  readonly before: MonthCounts;
  readonly after: MonthCounts;
}

/** What is unusual about a report: its license is not active, or it begins another journal. */
export const MARKS = ["suspended", "expired", "revoked", "new_journal"] as const;

/** A report that was imported before. */
export interface KnownReport {
  readonly importedAt: Date;
  readonly months: readonly ChangedMonth[];
  readonly marks: readonly string[];
}

/** The journal of a machine, as far as its reports were imported. */
export interface OpenJournal {
  readonly uuid: string;
  readonly journal: string;
  readonly number: number;
  readonly digest: string;
  readonly reportedAt: Date;
}

export interface Standing {
  readonly known: KnownReport | null;
  /** Null before the first report of the machine. */
  readonly open: OpenJournal | null;
  /** The limit that each month of the license has now; null means unlimited. */
  readonly limit: number | null;
  readonly marks: readonly string[];
  /** By the first day of the month; months without use are left out. */
  readonly used: ReadonlyMap<string, MonthCounts>;
}

const WHAT = "import report";

/** Returns the marks of the license of the row `l`, as SQL. */
export function marksOf(sql: Sql, now: Date): Fragment {
  return sql`
    array_remove(array[
      case when not exists (select from keys k where k.license_id = l.id and k.state = 'active')
             and exists (select from keys k where k.license_id = l.id and k.state = 'suspended') then 'suspended' end,
      case when l.expires_at <= ${now}::timestamptz then 'expired' end,
      case when not exists (select from keys k where k.license_id = l.id and k.state <> 'revoked') then 'revoked' end
    ], null)`;
}

/** Reads where the machine of a report stands. Refuses an unknown license. */
export async function findStanding(
  database: Database,
  { licenseUuid, machine, digest, months }: UsageReport,
  now: Date,
): Promise<Standing | Refusal> {
  const first = months[0]?.firstDay ?? null;
  const last = months.at(-1)?.firstDay ?? null;
  const [row] = await database.read<Row>(
    (sql) => sql`
      select ${effectiveLimit(sql)} as "limit", to_json(${marksOf(sql, now)}) as marks,
             (select json_build_object('importedAt', floor(extract(epoch from imported_at) * 1000), 'months', months,
                                       'marks', marks)
                from usage_reports where digest = decode(${digest}, 'hex')) as known,
             (select json_build_object('uuid', id, 'journal', encode(journal, 'hex'), 'number', last_number,
                                       'digest', encode(last_digest, 'hex'),
                                       'reportedAt', floor(extract(epoch from reported_at) * 1000))
                from usage_journals
               where license_id = l.id and machine = decode(${machine}, 'hex') and ended_at is null) as open,
             (select coalesce(json_agg(json_build_array(to_char(month, 'YYYY-MM-DD'), used, over)), '[]')
                from usage where license_id = l.id and month between ${first}::date and ${last}::date) as used
        from licenses l where l.id = ${licenseUuid}::uuid`,
  );
  if (row === undefined) return refuseUnknownLicense(WHAT, licenseUuid);
  const { known, open, used, ...rest } = row;
  return {
    ...rest,
    known: known && { ...known, importedAt: new Date(known.importedAt) },
    open: open && { ...open, reportedAt: new Date(open.reportedAt) },
    used: new Map(used.map(([month, units, over]) => [month, { used: units, over }])),
  };
}

/** Times are Unix milliseconds. */
interface Row extends Pick<Standing, "limit" | "marks"> {
  readonly known: (Omit<KnownReport, "importedAt"> & { readonly importedAt: number }) | null;
  readonly open: (Omit<OpenJournal, "reportedAt"> & { readonly reportedAt: number }) | null;
  readonly used: readonly (readonly [month: string, used: number, over: number])[];
}

/**
 * Returns why a report is not the next one of its machine; undefined if it is, or if an operator lets it begin another
 * journal.
 */
export function refuseOutOfTurn(
  { journal, number, previous, madeAt }: UsageReport,
  { open }: Pick<Standing, "open">,
  { now, newJournal }: { readonly now: Date; readonly newJournal: boolean },
): Refusal | undefined {
  const cannot = (why: string, details?: { readonly remedy: { readonly name: "begin_journal" } }) =>
    refuse("CONFLICT", `Cannot ${WHAT} ${number}: ${why}`, details);
  if (madeAt.getTime() > now.getTime() + DAY_MS)
    return cannot(
      `it was made at ${toTimestamp(madeAt)}, which is to come: the clock of the machine is ahead`,
    );
  if (newJournal) return undefined;
  const lacks = (missing: number) =>
    cannot(`report ${missing} of this machine is missing; import it first: the machine can write it again`);
  if (open === null) return number === 1 ? undefined : lacks(1);
  const fork = (why: string) => cannot(why, { remedy: { name: "begin_journal" } });
  const at = toTimestamp(open.reportedAt);
  if (journal !== open.journal)
    return fork(
      `it is of another journal than the reports of this machine until now, of which the last one, ${open.number}, was imported at ${at}`,
    );
  if (number <= open.number)
    return fork(`reports up to ${open.number} were imported until ${at}, and this one is none of them`);
  if (number > open.number + 1) return lacks(open.number + 1);
  return previous === open.digest
    ? undefined
    : fork(`it does not follow the report ${open.number} that was imported at ${at}, but another one`);
}

/** Returns what a report changes in each month under a limit; null means unlimited. */
export function planMonths(
  { months }: UsageReport,
  { limit, used }: Pick<Standing, "limit" | "used">,
): ChangedMonth[] {
  return months.map(({ firstDay, units }) => {
    const before = used.get(firstDay) ?? { used: 0, over: 0 };
    const granted = Math.min(units, Math.max((limit ?? Number.MAX_SAFE_INTEGER) - before.used, 0));
    const over = units - granted;
    const after = { used: before.used + granted, over: before.over + over };
    return { month: firstDay.slice(0, 7), units, over, before, after };
  });
}

/** Returns the month of a first day. */
export function monthOfFirstDay(firstDay: string): Month {
  return monthOf(Date.parse(`${firstDay}T00:00:00Z`));
}
