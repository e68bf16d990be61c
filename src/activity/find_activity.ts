import type { Database } from "../database/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";

/** By what the counts can be divided. */
export const ACTIVITY_NAMES = ["endpoint", "code", "reason"] as const;
export type ActivityName = (typeof ACTIVITY_NAMES)[number];

export const ACTIVITY_STEPS = ["hour", "day", "month"] as const;
export type ActivityStep = (typeof ACTIVITY_STEPS)[number];

export interface ActivityQuery {
  /** The first hour, day or month is the one that contains this instant. */
  readonly from: Date;
  /** Hours that begin at this instant or later are left out. */
  readonly to: Date;
  /** By `reason`, only refusals with a reason are counted. */
  readonly by: ActivityName;
  readonly step: ActivityStep;
}

export interface ActivityCount {
  /** The beginning of the hour, day or month, UTC. */
  readonly at: Date;
  /** An endpoint, a code or a reason. */
  readonly name: string;
  readonly count: number;
}

/** The longest span for each step. A step has at most one row for each name, and the program has few names. */
const MAX_DAYS = { hour: 31, day: 400, month: Number.POSITIVE_INFINITY } as const;

/**
 * Finds how many requests were answered, by hour, day or month and by name, the earliest first. There is no row for a
 * count of zero. Refuses a span that is empty or too long for its step.
 */
export async function findActivity(
  database: Pick<Database, "query">,
  { from, to, by, step }: ActivityQuery,
): Promise<ActivityCount[] | Refusal> {
  const spanMs = to.getTime() - from.getTime();
  if (spanMs <= 0) return refuse("INVALID_REQUEST", "Cannot show activity: from must be before to");
  if (spanMs > MAX_DAYS[step] * 86_400_000) {
    const most = `by ${step} the span is at most ${MAX_DAYS[step]} days`;
    return refuse("INVALID_REQUEST", `Cannot show activity: ${most}; choose a longer step`);
  }
  return await database.query<ActivityCount>(
    (sql) => sql`
      select date_trunc(${step}, hour, 'UTC') as at, ${sql(by)} collate "C" as name, sum(count)::bigint as count
        from activity_hours
       where hour >= date_trunc(${step}, ${from}::timestamptz, 'UTC') and hour < ${to}::timestamptz
         and (${by !== "reason"}::boolean or (reason <> '' and code <> 'OK'))
       group by 1, 2
       order by 1, 2`,
    { isRead: true },
  );
}

/** Finds the first hour that was counted; undefined if none was. */
export async function findFirstHour(database: Pick<Database, "query">): Promise<Date | undefined> {
  const [row] = await database.query<{ first: Date | null }>(
    (sql) => sql`select min(hour) as first from activity_hours`,
    { isRead: true },
  );
  return row?.first ?? undefined;
}
