/**
 * Clients that send usage events late and together, and all that they know of them: what they sent, and what was answered. At
 * the end the tables are compared with it.
 *
 * Each event has a number of its own, which is sent as its duration. So a stored event is recognised also after its claim
 * was deleted.
 */
import { DAY_MS, monthOf, toMonthText } from "../../src/base/calendar.ts";
import { newUuid, parseId } from "../../src/base/ids.ts";
import type { Database } from "../../src/database/mod.ts";
import type { Random } from "../support/random.ts";

export interface Customer {
  readonly name: string;
  readonly apiKey: string;
  readonly licenseUuid: string;
  /** Units of a month. */
  readonly limit: number;
  /** The most events that are sent for the first and for the second month. */
  readonly most: readonly [number, number];
  readonly sent: [number, number];
}

export interface Answer {
  readonly logged: boolean;
  readonly code?: string;
  readonly event_id?: string;
  readonly month?: string;
  readonly quota?: { readonly used: number; readonly remaining: number | null };
}

export interface SentEvent {
  readonly number: number;
  readonly type: string;
  readonly customer: Customer;
  /** Null for an event without a key, which is sent once. */
  readonly key: string | null;
  /** Null for an event that is sent alone. */
  readonly occurredAtMs: number | null;
  readonly answers: Answer[];
  /** How many answers were lost. */
  lost: number;
}

export interface Batch {
  readonly customer: Customer;
  readonly events: readonly SentEvent[];
}

const DAYS_MS = 7 * DAY_MS;
const AHEAD_MS = 4 * 60_000;
/** More than the clocks of two processes differ by. */
const NEAR_MS = 15_000;

/**
 * Makes events for the month that ends at `endMs` and for the next one, in the order in which clients send them. All are
 * noted in `events`.
 */
export function createLateEvents({ random, endMs }: { readonly random: Random; readonly endMs: number }) {
  const events: SentEvent[] = [];

  /** Chooses a time within the 7 days before now, or a little ahead; undefined if the customer has sent enough. */
  function chooseTime({ sent, most }: Customer, nowMs: number): number | undefined {
    const oldestMs = nowMs - DAYS_MS;
    const isLeft = ([0, 1] as const).map((month) => sent[month] < most[month]);
    // Until the clocks of all processes have passed the end, an event ahead may belong to either month.
    const mayBe = [0, 1].filter((month) => isLeft[month] && (nowMs > endMs + NEAR_MS || isLeft[0]));
    // Old enough to be refused by a process whose clock is ahead.
    if (isLeft[0] && random.between(1, 60) === 1) return oldestMs + random.between(-12_000, 12_000);
    const spans = [
      [oldestMs + 30_000, Math.min(nowMs, endMs - 1)],
      [endMs, nowMs + AHEAD_MS],
    ] as const;
    const [fromMs, toMs] = spans[mayBe.length === 0 ? -1 : random.pick(mayBe)] ?? [0, 0];
    return fromMs < toMs ? random.between(fromMs, toMs) : undefined;
  }

  function make(customer: Customer, fields: Pick<SentEvent, "key" | "occurredAtMs" | "type">): SentEvent {
    const event = { ...fields, customer, number: events.length + 1, answers: [], lost: 0 };
    events.push(event);
    return event;
  }

  const chooseType = () => random.pick(["inference", "inference", "inference", "inference", "error"]);

  return {
    events,
    /** Returns a batch with events of the last 7 days; undefined if the customer has sent enough. */
    makeBatch(customer: Customer, nowMs: number): Batch | undefined {
      const size = random.between(1, 40) === 1 ? random.between(300, 1_000) : random.between(1, 30);
      const made: SentEvent[] = [];
      for (let index = 0; index < size; index++) {
        const occurredAtMs = chooseTime(customer, nowMs);
        if (occurredAtMs === undefined) continue;
        // Of an event ahead a clock decides to which month it belongs.
        if (occurredAtMs < endMs || nowMs < endMs + NEAR_MS) customer.sent[0]++;
        if (occurredAtMs >= endMs) customer.sent[1]++;
        made.push(make(customer, { key: newUuid(), occurredAtMs, type: chooseType() }));
      }
      return made.length === 0 ? undefined : { customer, events: made };
    },
    /** Returns an event to send alone; undefined if the customer has sent enough. */
    makeSingle(customer: Customer, nowMs: number): SentEvent | undefined {
      const isNear = Math.abs(nowMs - endMs) < NEAR_MS;
      const months = isNear ? ([0, 1] as const) : nowMs < endMs ? ([0] as const) : ([1] as const);
      if (months.some((month) => customer.sent[month] >= customer.most[month])) return undefined;
      for (const month of months) customer.sent[month]++;
      const key = random.between(1, 2) === 1 ? newUuid() : null;
      return make(customer, { key, occurredAtMs: null, type: chooseType() });
    },
  };
}

/** Returns the fields of an event as a client sends them in a batch or, without its key and time, alone. */
export function toFields({ number, type, key, occurredAtMs }: SentEvent): object {
  const fields = { event_type: type, duration_ms: number };
  if (occurredAtMs === null) return fields;
  return { ...fields, idempotency_key: key, occurred_at: new Date(occurredAtMs).toISOString() };
}

interface StoredEvent {
  readonly uuid: string;
  readonly number: number;
  readonly licenseUuid: string;
  readonly type: string;
  readonly receivedAtMs: number;
  readonly occurredAtMs: number | null;
}

export async function readStored(database: Database): Promise<readonly StoredEvent[]> {
  return await database.query<StoredEvent>(
    (sql) => sql`
      select id as uuid, duration_ms as number, license_id as "licenseUuid", event_type as type,
             (extract(epoch from received_at) * 1000)::double precision as "receivedAtMs",
             (extract(epoch from occurred_at) * 1000)::double precision as "occurredAtMs"
        from events`,
    { deadlineMs: 30_000 },
  );
}

/**
 * Compares, at one moment, the use of each month and day with the stored events. Returns what is wrong: a use that differs
 * from them, or exceeds the limit.
 */
export async function findWrongUse(
  database: Database,
  customers: readonly Customer[],
): Promise<readonly object[]> {
  const limits = Object.fromEntries(customers.map(({ licenseUuid, limit }) => [licenseUuid, limit]));
  return await database.query<object>(
    (sql) => sql`
      with stored as (
        select license_id, date_trunc('month', at)::date as month, extract(day from at)::integer as day,
               count(*) as units
          from (select license_id, coalesce(occurred_at, received_at) at time zone 'UTC' as at from events
                 where event_type = 'inference') as event
         group by 1, 2, 3
      ),
      counted as (
        select license_id, month, day::integer, units
          from usage, unnest(by_day) with ordinality as counted (units, day) where units <> 0
      )
      select 'day' as what, license_id, month, day, stored.units as stored, counted.units as counted
        from stored full join counted using (license_id, month, day)
       where stored.units is distinct from counted.units
      union all
      select 'month', license_id, month, null, coalesce((select sum(units) from unnest(by_day) as units), 0), used
        from usage where used <> coalesce((select sum(units) from unnest(by_day) as units), 0)
      union all
      select 'limit', license_id, month, null, (${JSON.stringify(limits)}::text::jsonb ->> license_id::text)::bigint, used
        from usage where used > (${JSON.stringify(limits)}::text::jsonb ->> license_id::text)::bigint`,
    { deadlineMs: 30_000 },
  );
}

/** Compares what was answered with the stored events. Returns a sentence for each contradiction, and counts. */
export function judge(events: readonly SentEvent[], stored: readonly StoredEvent[]) {
  const wrong: string[] = [];
  const rows = Map.groupBy(stored, ({ number }) => number);
  const counts = { events: events.length, stored: stored.length, refused: 0, tooOld: 0, lostButStored: 0 };
  for (const event of events) {
    const [row, ...more] = rows.get(event.number) ?? [];
    rows.delete(event.number);
    const { answers, customer, number } = event;
    const complain = (what: string) =>
      wrong.push(`${customer.name}, event ${number}: ${what}: ${JSON.stringify({ answers, row })}`);
    const logged = answers.filter((answer) => answer.logged);
    const last = answers.at(-1);
    if (more.length > 0) complain(`stored ${more.length + 1} times`);
    if (last?.code === "QUOTA_EXCEEDED") counts.refused++;
    if (last?.code === "INVALID_REQUEST") counts.tooOld++;
    if (row === undefined) {
      if (logged.length > 0) complain("answered as logged, and not stored");
      continue;
    }
    if (event.lost > 0) counts.lostButStored++;
    for (const { event_id: id, month, quota } of logged) {
      if (parseId("evt", id ?? "") !== row.uuid) complain("answered with another event");
      const chargedMs = row.occurredAtMs ?? row.receivedAtMs;
      if (event.occurredAtMs !== null && month !== toMonthText(monthOf(chargedMs)))
        complain("answered with another month");
      if (quota !== undefined && quota.used + (quota.remaining ?? 0) !== customer.limit)
        complain("answered with another limit");
    }
    if (logged.length === 0 && event.lost === 0) complain("refused, and stored");
    if (last?.code === "QUOTA_EXCEEDED") complain("refused at last for its quota, and stored");
    if (row.licenseUuid !== customer.licenseUuid || row.type !== event.type)
      complain("stored as another event");
    const { occurredAtMs } = event;
    const shouldMs = occurredAtMs === null ? null : Math.min(occurredAtMs, row.receivedAtMs);
    if (row.occurredAtMs !== shouldMs) complain("stored with another time");
    if (row.occurredAtMs !== null && row.receivedAtMs - row.occurredAtMs > DAYS_MS)
      complain("stored too late");
  }
  for (const number of rows.keys()) wrong.push(`an event ${number} is stored that nobody sent`);
  return { wrong, counts };
}
