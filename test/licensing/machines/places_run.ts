/**
 * 200 clients for 30 floating places, while something is killed, and the history of it. A minute of the database's clock
 * passes in a second, so a seat of 5 minutes ends 5 s after its last heartbeat, by itself. Some clients borrow a license for
 * a day, release a machine of another by its id, or are lost with a file whose place an operator frees.
 */
import { expect } from "bun:test";
import { parseId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import type { Database } from "../../../src/database/mod.ts";
import {
  createMachineNames,
  freeByOperator,
  listMachines,
  noteEnds,
} from "../../../src/licensing/machines/mod.ts";
import { readDatabaseClock, setDatabaseClock } from "../../support/database_clock.ts";
import { ACTOR, NOW } from "../../support/issue.ts";
import { licenseWith } from "../../support/machines.ts";
import type { Random } from "../../support/random.ts";
import { openSecrets } from "../../support/secrets.ts";
import {
  type JournalLine,
  Occupancy,
  type OfMachine,
  toHoldings,
  unfounded,
  wronglyLost,
  wrongRefusals,
} from "./places_history.ts";

export interface PlacesTarget {
  /** Opened after {@linkcode preparePlaces}, so that its connections read the clock of the test. */
  readonly database: Database;
  /** Sends a request to one of the services. Undefined if the connection was refused or cut. */
  post(path: string, body: object): Promise<PlacesAnswer | undefined>;
}

export interface PlacesAnswer {
  readonly status: number;
  /** Undefined if it is no JSON, as from a balancer. */
  readonly body:
    | {
        readonly machine_id?: string;
        readonly code?: string;
        readonly machines?: readonly { readonly machine_id: string; readonly state: string }[];
      }
    | undefined;
}

const CLIENTS = 200;
const PLACES = 30;
const SEAT_MINUTES = 5;
const SPEED = 60;
/** Of a license with floating seats, in 24 hours of the database, which are 24 minutes here. */
const RELEASES_BY_ID = 10 * PLACES;
/** The statuses of services and a balancer that lost a connection. The request may have been done. */
const UNKNOWN = [undefined, 502, 503, 504];

/** Prepares a database whose services are not started yet, or are started again afterwards. */
export async function preparePlaces(database: Database): Promise<void> {
  await setDatabaseClock(database, Date.now(), { speed: SPEED });
  await database.query((sql) =>
    sql.unsafe(`
      create table test_clock.journal (
        line bigint generated always as identity, machine bytea not null, id uuid not null, at timestamptz not null,
        until timestamptz not null
      );
      create function test_clock.note_machine() returns trigger language plpgsql as $$
      begin
        insert into test_clock.journal (machine, id, at, until)
        values (new.fingerprint, new.id, coalesce(new.ended_at, new.last_seen_at),
                case when new.ended_at is null then greatest(new.active_until, new.signed_until) else '-infinity' end);
        return null;
      end $$;
      create trigger note_machine after insert or update on machines
        for each row execute function test_clock.note_machine()`),
  );
}

/** Starts the clients. `stop` judges the history. */
export async function startPlaces({ database, post }: PlacesTarget, random: Random) {
  const license = await licenseWith(database, { maxMachines: PLACES, seatMinutes: SEAT_MINUTES });
  const nameMachine = createMachineNames(openSecrets());
  const confirmed: OfMachine[] = [];
  const lost: OfMachine[] = [];
  const refusals: OfMachine[] = [];
  const cut: OfMachine[] = [];
  const ids = new Map<string, Set<string>>();
  const unexpected: string[] = [];
  let isStopped = false;
  let [borrowed, releasedById, cutById, freed] = [0, 0, 0, 0];

  const PATHS = {
    activate: "/v1/machines/activate",
    heartbeat: "/v1/machines/heartbeat",
    release: "/v1/machines/release",
    borrow: "/v1/auth/license",
  } as const;

  /** Sends a request of a machine until its outcome is known. Returns the status. */
  async function send(action: keyof typeof PATHS, fingerprint: string) {
    const machine = nameMachine(license.licenseUuid, fingerprint).hash;
    const days = action === "borrow" ? { days: 1 } : {};
    for (;;) {
      const sentMs = Date.now();
      const answer = await post(PATHS[action], { api_key: license.apiKey, fingerprint, ...days });
      const request = { machine, sentMs, answeredMs: Date.now() + 1 };
      if (UNKNOWN.includes(answer?.status)) {
        if (action === "activate") cut.push(request);
        if (isStopped) return undefined;
        await Bun.sleep(random.between(20, 200));
        continue;
      }
      const { status, body } = answer ?? {};
      if (status === 200) {
        confirmed.push(request);
        if (action === "borrow") borrowed++;
        else ids.set(machine, (ids.get(machine) ?? new Set()).add(body?.machine_id ?? "none"));
      } else if (status === 409 && action === "activate") refusals.push(request);
      // A machine that is not active can hold a place, if its license was signed by a request whose answer was cut.
      else if (status === 404 && action === "borrow") return status;
      else if (status === 404 && action !== "activate") lost.push(request);
      else unexpected.push(`${action}: ${status} ${body?.code}`);
      return status;
    }
  }

  async function client(index: number) {
    let fingerprint = `machine-${index}`;
    let tries = 0;
    await Bun.sleep(random.between(0, 2_000));
    while (!isStopped) {
      if ((await send("activate", fingerprint)) !== 200) {
        await Bun.sleep(random.between(300, 2_500));
        // One that waits is refused from memory, by another clock than that of this database.
        fingerprint = `machine-${index}-${++tries}`;
        continue;
      }
      let status: number | undefined = 200;
      for (let beats = random.between(0, 6); beats > 0 && status === 200 && !isStopped; beats--) {
        // At times later than the seat lasts.
        await Bun.sleep(random.between(300, random.next() < 0.1 ? 7_000 : 2_000));
        status = await send("heartbeat", fingerprint);
      }
      if (status === 200 && random.next() < 0.15) {
        await send("borrow", fingerprint);
        // The place is held by the file from now on, also under another name of the client.
        fingerprint = `machine-${index}-${++tries}`;
        continue;
      }
      // Most clients release their machine; the others are closed without a word.
      if (status === 200 && random.next() < 0.6) await send("release", fingerprint);
      else await Bun.sleep(random.between(1_000, 8_000));
    }
  }

  /** The upkeep, much more often than the services run it. */
  async function upkeep() {
    while (!isStopped) {
      await noteEnds({ database, isStopping: () => isStopped }).catch(() => {});
      await Bun.sleep(random.between(50, 500));
    }
  }

  /** A customer who lists the machines of the license and releases one of them by its id. */
  async function customer() {
    while (!isStopped) {
      await Bun.sleep(random.between(500, 1_500));
      const of = { api_key: license.apiKey };
      const listed = await post("/v1/machines/list", { ...of, limit: 200 });
      const active = listed?.body?.machines?.filter(({ state }) => state === "active") ?? [];
      if (listed?.status === 200 && (listed.body?.machines?.length ?? 0) > PLACES)
        unexpected.push(`list: ${listed.body?.machines?.length} machines`);
      if (active.length === 0) continue;
      const { machine_id } = random.pick(active);
      const { status, body } = (await post("/v1/machines/release", { ...of, machine_id })) ?? {};
      if (status === 200) releasedById++;
      else if (UNKNOWN.includes(status)) cutById++;
      else if (status === 409 && releasedById + cutById >= RELEASES_BY_ID) continue;
      // The machine can be gone by now.
      else if (status !== 404) unexpected.push(`by id: ${status} ${body?.code}`);
    }
  }

  /** An operator who frees the places that borrowed licenses of lost machines hold. */
  async function operator() {
    while (!isStopped) {
      await Bun.sleep(random.between(200, 1_000));
      try {
        const machines = await listMachines(database, {
          filter: { licenseUuid: license.licenseUuid, state: "offline", limit: 20 },
        });
        for (const { id } of machines) {
          if (random.next() < 0.5) continue;
          const by = { actor: ACTOR, now: NOW };
          if (!isRefusal(await freeByOperator(database, parseId("mch", id) ?? "", by))) freed++;
        }
      } catch {
        // The database restarts.
      }
    }
  }

  const running = [
    ...Array.from({ length: CLIENTS }, (_, index) => client(index)),
    upkeep(),
    customer(),
    operator(),
  ];
  return {
    /** Ends the clients, expects that the history keeps the rule, and returns its figures. */
    async stop() {
      isStopped = true;
      await Promise.all(running);
      const journal = await readJournal(database);
      const holdings = toHoldings(journal);
      const toShown = await readDatabaseClock(database);
      const shown = (requests: readonly OfMachine[]) =>
        requests.map(({ machine, sentMs, answeredMs }) => ({
          machine,
          sentMs: toShown(sentMs),
          answeredMs: toShown(answeredMs),
        }));
      const occupancy = new Occupancy(holdings);
      const first = (found: readonly unknown[]) => found.slice(0, 3);
      expect(first(occupancy.above(PLACES))).toEqual([]);
      expect(first(wrongRefusals(occupancy, { refusals: shown(refusals), limit: PLACES }))).toEqual([]);
      expect(first(unfounded(holdings, shown(confirmed)))).toEqual([]);
      expect(first(wronglyLost(holdings, shown([...lost, ...refusals])))).toEqual([]);
      expect(first(unexpected)).toEqual([]);
      // Every answer for a fingerprint, before and after any kill, named the same machine.
      expect(first([...ids.values()].filter((names) => names.size > 1))).toEqual([]);
      const committed = shown(cut).filter(({ machine, sentMs, answeredMs }) =>
        holdings.some(
          (held) => held.machine === machine && held.fromMs >= sentMs && held.fromMs <= answeredMs,
        ),
      );
      const endedAlone = holdings.filter(({ machine, toMs }) =>
        journal.some((line) => line.machine === machine && line.untilMs === toMs),
      );
      const figures = {
        confirmed: confirmed.length,
        refused: refusals.length,
        lost: lost.length,
        cut: cut.length,
        committedAndCut: committed.length,
        borrowed,
        releasedById,
        freed,
        holdings: holdings.length,
        endedByThemselves: endedAlone.length,
        most: occupancy.mostDuring({
          sentMs: Number.NEGATIVE_INFINITY,
          answeredMs: Number.POSITIVE_INFINITY,
        }),
      };
      expect(figures.most).toBe(PLACES);
      for (const done of [borrowed, releasedById, freed]) expect(done).toBeGreaterThan(0);
      expect(releasedById).toBeLessThanOrEqual(RELEASES_BY_ID);
      expect(figures.refused).toBeGreaterThan(CLIENTS);
      expect(figures.endedByThemselves).toBeGreaterThan(PLACES / 2);
      expect(figures.holdings - figures.endedByThemselves).toBeGreaterThan(PLACES / 2);
      return figures;
    },
  };
}

async function readJournal(database: Database): Promise<JournalLine[]> {
  return await database.query<JournalLine>(
    (sql) => sql`
      select encode(machine, 'hex') as machine, extract(epoch from at)::float8 * 1000 as "atMs",
             extract(epoch from until)::float8 * 1000 as "untilMs"
        from test_clock.journal order by line`,
  );
}
