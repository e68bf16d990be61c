/**
 * Events that come late and together, through three processes on one database whose clocks differ by seconds and pass the end
 * of a month. Batches are sent to several processes at once, and again after a lost answer, after a day, after a week and
 * after 8 days, while processes are killed between a commit and its answer. No month has more use than its limit, at no
 * moment. In the end each month and day has the use of its stored events, each event that was answered as logged is stored
 * once, and no event twice.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { DAY_MS, HOUR_MS, monthOf } from "../../src/base/calendar.ts";
import { toId } from "../../src/base/ids.ts";
import { issue } from "../support/issue.ts";
import { createRandom } from "../support/random.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { createInstallation, type Replica } from "./installation.ts";
import {
  type Answer,
  type Batch,
  type Customer,
  createLateEvents,
  findWrongUse,
  judge,
  readStored,
  type SentEvent,
  toFields,
} from "./late_events.ts";

// Takes over a minute: a month ends under load, and then its claims grow old.

/** How long clients send; a third of it is before the end of the month. */
const SECONDS = Number(process.env.LATE_EVENTS_SECONDS ?? 45);
const EVENTS_A_SECOND = 600;
const CLIENTS = 8;
/** By how much the clocks of the processes differ from that of the clients. */
const SKEWS_MS = [-6_000, 0, 7_000];
/** What a start of three processes may take on a busy machine. */
const START_MS = 10_000;
const ANSWER_MS = 6_000;
/** Every event that a process still works on after its client has gone is committed or turned away in this time. */
const SETTLED_MS = 5_000;
/** The claims are swept every 15 s. */
const SWEPT_MS = 90_000;
const MANY = Number.MAX_SAFE_INTEGER;
const A_FEW_THOUSAND = 5_000;
/** Which of the two months are used up: a limit, and the most events of each month. */
const CUSTOMERS = [
  ["both months", 300, MANY, MANY],
  ["both months, soon", 7, MANY, MANY],
  ["both months, late", 900, MANY, MANY],
  ["the first month", 250, MANY, 120],
  ["the first month, late", 700, MANY, 400],
  ["the second month", 250, 120, MANY],
  ["neither month", 1_000_000, MANY, MANY],
  ["neither month, few", 400, 150, 150],
  ["no units", 0, 200, 200],
] as const;

const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const random = createRandom(seed);
const installation = useForAll(createInstallation);

interface Place {
  readonly index: number;
  replica: Replica;
  /** Batches that it works on. */
  busy: number;
}

/** Starts a process whose clock is ahead by an offset and its own difference. */
function serve(index: number, offsetMs: number): Promise<Replica> {
  return installation.serve({
    BUN_OPTIONS: `--preload ${join(import.meta.dir, "../support/moved_clock.ts")}`,
    TEST_CLOCK_OFFSETS: JSON.stringify({ wallMs: offsetMs + (SKEWS_MS[index] ?? 0), monotonicMs: 0 }),
  });
}

const startAll = (offsetMs: number): Promise<Place[]> =>
  Promise.all(
    [...SKEWS_MS.keys()].map(async (index) => ({ index, replica: await serve(index, offsetMs), busy: 0 })),
  );

const stopAll = (places: readonly Place[]) =>
  Promise.all(places.map(({ replica }) => replica.kill("SIGTERM")));

type Answered = Answer & { readonly results?: readonly Answer[] };

/** Sends a request. Returns undefined if the client cannot know what became of it. */
async function post(
  { replica }: Place,
  {
    path,
    key,
    body,
    giveUpMs = ANSWER_MS,
  }: { path: string; key?: string | null; body: object; giveUpMs?: number },
): Promise<{ readonly status: number; readonly body: Answered } | undefined> {
  try {
    const response = await fetch(`${replica.url}${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: key ? { "Idempotency-Key": key } : {},
      signal: AbortSignal.timeout(giveUpMs),
    });
    const answer = { status: response.status, body: (await response.json()) as Answered };
    return answer.status === 503 ? undefined : answer;
  } catch {
    return undefined;
  }
}

/** Sends a batch, and notes its answer with each event. Returns whether there was one. */
async function sendBatch(place: Place, { customer, events }: Batch, giveUpMs?: number): Promise<boolean> {
  place.busy++;
  const answer = await post(place, {
    path: "/v1/analytics/batch",
    body: { api_key: customer.apiKey, events: events.map(toFields) },
    ...(giveUpMs !== undefined && { giveUpMs }),
  });
  place.busy--;
  if (answer === undefined) {
    for (const event of events) event.lost++;
    return false;
  }
  expect(answer).toMatchObject({ status: 200 });
  const { results = [] } = answer.body;
  expect(results).toHaveLength(events.length);
  for (const [index, event] of events.entries()) if (results[index]) event.answers.push(results[index]);
  return true;
}

async function sendSingle(place: Place, event: SentEvent, giveUpMs?: number): Promise<boolean> {
  const answer = await post(place, {
    path: "/v1/analytics/log",
    key: event.key,
    body: { api_key: event.customer.apiKey, ...toFields(event) },
    ...(giveUpMs !== undefined && { giveUpMs }),
  });
  if (answer === undefined) {
    event.lost++;
    return false;
  }
  expect(answer.status === 202 || answer.body.code === "QUOTA_EXCEEDED").toBe(true);
  event.answers.push({ ...answer.body, logged: answer.status === 202 });
  return true;
}

/** Tries at random places until one answers. */
async function insist(places: readonly Place[], send: (place: Place) => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (await send(random.pick(places))) return;
    await Bun.sleep(random.between(20, 200));
  }
  throw new Error("No process answers");
}

/** Works through items, some at a time. */
async function forAll<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      for (const item of left) await work(item);
    }),
  );
}

const expectNothingWrong = (wrong: readonly unknown[]) =>
  expect([wrong.length, wrong.slice(0, 5)]).toEqual([0, []]);

/** Tells whether a month that is to be used up has not got many more events than its limit. */
function lacksEvents({ limit, most, sent }: Customer): boolean {
  return (
    limit < A_FEW_THOUSAND &&
    most.some((count, month) => count === MANY && (sent[month] ?? 0) < 2 * limit + 50)
  );
}

/** Tells whether an event has to be sent once more, because an answer was lost or two answers differ. */
function isUnclear({ key, lost, answers }: SentEvent): boolean {
  const [first, ...more] = answers.map(({ logged }) => logged);
  return key !== null && (lost > 0 || more.some((logged) => logged !== first));
}

/** Reads what a repeated batch must not change. */
async function readTables() {
  const [row] = await installation.database.query<{ events: number; used: number; rows: string }>(
    (sql) => sql`
      select (select count(*) from events) as events, (select coalesce(sum(used), 0)::bigint from usage) as used,
             (select md5(string_agg(u::text, '|' order by license_id, month)) from usage as u) as rows`,
    { deadlineMs: 30_000 },
  );
  return row;
}

/** Counts the claims of single events, and those of batches whose time at an instant is over or not. */
async function countClaims(atMs: number) {
  const [row] = await installation.database.query<{ single: number; over: number; left: number }>(
    (sql) => sql`
      select count(*) filter (where occurred_at is null) as single,
             count(*) filter (where occurred_at is not null and claimed_at < ${new Date(atMs - 8 * DAY_MS)}::timestamptz) as over,
             count(*) filter (where occurred_at is not null and claimed_at >= ${new Date(atMs - 8 * DAY_MS)}::timestamptz) as left
        from claims`,
    { deadlineMs: 30_000 },
  );
  if (row === undefined) throw new Error("No counts");
  return row;
}

test(`events are counted once and within the limits while ${SKEWS_MS.length} processes pass the end of a month, are killed, and grow 8 days older`, async () => {
  const { database } = installation;
  const beganMs = Date.now();
  const { endsAtMs: endMs } = monthOf(beganMs);
  const offsetMs = endMs - (beganMs + START_MS + Math.round((SECONDS * 1_000) / 3));
  const nowMs = () => Date.now() + offsetMs;
  const customers: Customer[] = [];
  for (const [name, limit, first, second] of CUSTOMERS) {
    const key = await issue(database, { monthlyLimit: limit, now: new Date(nowMs()) });
    customers.push({ ...key, name, limit, most: [first, second], sent: [0, 0] });
  }
  const { events, makeBatch, makeSingle } = createLateEvents({ random, endMs });
  const places = await startAll(offsetMs);
  const loadBeganMs = performance.now();
  const passedSeconds = () => (performance.now() - loadBeganMs) / 1_000;
  /** On a busy machine the clients send for longer, until each limit that is to be reached must have been reached. */
  const isOver = () =>
    passedSeconds() > 4 * SECONDS ||
    (passedSeconds() > SECONDS && customers.every((each) => !lacksEvents(each)));
  const batches: Batch[] = [];
  const done = { once: 0, raced: 0, abandoned: 0, again: 0, singles: 0, kills: 0, killedAtWork: 0, polls: 0 };

  async function sendNew(customer: Customer): Promise<void> {
    const batch = makeBatch(customer, nowMs());
    if (batch === undefined) return;
    batches.push(batch);
    const way = random.between(1, 10);
    const giveUpMs = way > 7 ? random.between(1, 40) : undefined;
    const first = way > 3 ? [random.pick(places)] : random.shuffle(places).slice(0, random.between(2, 3));
    done[giveUpMs !== undefined ? "abandoned" : first.length > 1 ? "raced" : "once"]++;
    const answered = await Promise.all(first.map((place) => sendBatch(place, batch, giveUpMs)));
    if (!answered.includes(true)) await insist(places, (place) => sendBatch(place, batch));
  }

  async function sendAlone(customer: Customer): Promise<void> {
    const single = makeSingle(customer, nowMs());
    if (single === undefined) return;
    done.singles++;
    // Without a key an event must not be sent again.
    if (single.key === null) return void (await sendSingle(random.pick(places), single));
    const first = random.between(1, 3) === 1 ? random.shuffle(places).slice(0, 2) : [random.pick(places)];
    const answered = await Promise.all(first.map((place) => sendSingle(place, single)));
    if (!answered.includes(true)) await insist(places, (place) => sendSingle(place, single));
  }

  async function runClient(): Promise<void> {
    while (!isOver()) {
      const lacking = customers.filter(lacksEvents);
      const customer = random.pick(random.between(0, 1) === 0 || lacking.length === 0 ? customers : lacking);
      const way = random.between(1, 10);
      if (way > 8 && batches.length > 0) {
        done.again++;
        await sendBatch(random.pick(places), random.pick(batches));
      } else if (way > 5) await sendAlone(customer);
      else if (events.length < EVENTS_A_SECOND * passedSeconds()) await sendNew(customer);
      await Bun.sleep(random.between(0, 30));
    }
  }

  async function kill(): Promise<void> {
    while (!isOver()) {
      await Bun.sleep(random.between(500, 2_500));
      const place = random.pick(places);
      for (let waits = 0; waits < 200 && place.busy === 0; waits++) await Bun.sleep(5);
      await Bun.sleep(random.between(0, 25));
      done.kills++;
      if (place.busy > 0) done.killedAtWork++;
      await place.replica.kill("SIGKILL");
      place.replica = await serve(place.index, offsetMs);
    }
  }

  async function poll(): Promise<void> {
    while (!isOver()) {
      done.polls++;
      expectNothingWrong(await findWrongUse(database, customers));
      await Bun.sleep(150);
    }
  }

  await Promise.all([...Array.from({ length: CLIENTS }, runClient), kill(), poll()]);
  // Then everybody asks again for what is unclear, when no process works on it any more. Two answers at the same moment may
  // differ at the end of a month, because a clock says to which of the months the event belongs.
  await Bun.sleep(SETTLED_MS);
  const unclear = batches.filter((batch) => batch.events.some(isUnclear));
  await forAll(unclear, (batch) => insist(places, (place) => sendBatch(place, batch)));
  const alone = events.filter((event) => event.occurredAtMs === null && isUnclear(event));
  await forAll(alone, (event) => insist(places, (place) => sendSingle(place, event)));

  expectNothingWrong(await findWrongUse(database, customers));
  const stored = await readStored(database);
  const judged = judge(events, stored);
  const inFirst = stored.filter(({ receivedAtMs }) => receivedAtMs < endMs).length;
  const used = await database.query<{ licenseUuid: string; used: number[] }>(
    (sql) => sql`
      select license_id as "licenseUuid", json_agg(used order by month) as used from usage group by 1`,
  );
  const usedOf = new Map(used.map((row) => [row.licenseUuid, row.used]));
  const months = Object.fromEntries(
    customers.map(({ name, licenseUuid }) => [name, usedOf.get(licenseUuid)]),
  );
  console.log(
    `Late events, seed ${seed}: ${JSON.stringify({ ...judged.counts, batches: batches.length, unclear: unclear.length, ...done, receivedInFirst: inFirst, used: months })}`,
  );
  expectNothingWrong(judged.wrong);
  for (const [name, limit] of CUSTOMERS) {
    const [first = 0, second = 0] = months[name] ?? [];
    const reached = [first === limit, second === limit];
    const should = [/both|first|no units/.test(name), /both|second|no units/.test(name)];
    expect([name, reached]).toEqual([name, should]);
  }
  expect(inFirst).toBeWithin(1, stored.length);
  expect(judged.counts.lostButStored).toBeGreaterThan(0);
  expect(judged.counts.tooOld).toBeGreaterThan(0);

  /** Starts the processes again when their clocks are later, and sends every batch again. */
  async function repeatAfter(
    laterMs: number,
    prepare: (nowMs: number) => Promise<void>,
  ): Promise<Answer[][]> {
    const later = await startAll(offsetMs + laterMs);
    await prepare(Date.now() + offsetMs + laterMs);
    const before = events.map(({ answers }) => answers.length);
    await forAll(batches, (batch) => insist(later, (place) => sendBatch(place, batch)));
    await stopAll(later);
    expectNothingWrong(await findWrongUse(database, customers));
    expectNothingWrong(judge(events, await readStored(database)).wrong);
    return events.map(({ answers }, index) => answers.slice(before[index]));
  }

  await stopAll(places);
  const storedAs = new Map(stored.map(({ number, uuid }) => [number, toId("evt", uuid)]));
  /** The answers must name the same events, except those that are refused because they are too old. */
  function expectKnown(answers: readonly Answer[][], atMs: number): number {
    let known = 0;
    for (const [index, event] of events.entries()) {
      const { number, occurredAtMs } = event;
      const id = storedAs.get(number);
      if (occurredAtMs === null || id === undefined) continue;
      const ageMs = atMs - occurredAtMs;
      for (const { logged, event_id: answeredAs, code } of answers[index] ?? []) {
        // Around the 7 days the clocks of the processes differ.
        if (logged) expect([answeredAs, ageMs < 7 * DAY_MS + 120_000]).toEqual([id, true]);
        else expect([code, ageMs > 7 * DAY_MS - 120_000]).toEqual(["INVALID_REQUEST", true]);
        if (logged) known++;
      }
    }
    return known;
  }

  const claims = await countClaims(0);
  expect(claims).toEqual({ single: claims.single, over: 0, left: claims.left });
  expect(claims.left).toBeGreaterThan(0);
  let atMs = 0;
  const afterADay = await repeatAfter(25 * HOUR_MS, async (now) => {
    atMs = now;
    await until(async () => (await countClaims(now)).single === 0, { limitMs: SWEPT_MS });
    expect(await countClaims(now)).toEqual({ single: 0, over: 0, left: claims.left });
  });
  const known = [expectKnown(afterADay, atMs)];
  const afterAWeek = await repeatAfter(7 * DAY_MS - 2 * HOUR_MS, async (now) => {
    atMs = now;
  });
  known.push(expectKnown(afterAWeek, atMs));

  const before = await readTables();
  const after8Days = await repeatAfter(8 * DAY_MS + (SECONDS + 120) * 1_000, async (now) => {
    const { left } = await countClaims(now);
    await until(async () => (await countClaims(now)).over === 0, { limitMs: SWEPT_MS });
    expect(await countClaims(now)).toEqual({ single: 0, over: 0, left });
    // Only those of events that were refused at first, and counted when they came again.
    expect(left).toBeLessThan(claims.left / 10);
  });
  for (const answers of after8Days)
    for (const answer of answers) {
      expect(answer).toMatchObject({ logged: false, code: "INVALID_REQUEST" });
    }
  expect(await readTables()).toEqual(before);
  console.log(
    `Repeated batches: ${JSON.stringify({ batches: batches.length, claims, knownAfter25Hours: known[0], knownAfterAWeek: known[1], refusedAfter8Days: after8Days.flat().length })}`,
  );
});
